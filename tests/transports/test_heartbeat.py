"""Dead, quiet, slow: what the heartbeat makes of a peer."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from execsrv.transports.heartbeat import Heartbeat

PATIENCE = 20
T = 30.0  # the interval


@dataclass
class Way:
    """One direction of a connection as a test wants it."""

    waiting_since: float | None = None
    waited_until: float = 0.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


class Patient:
    """A heartbeat that started at ``self.start``, listening, and what it looks at."""

    def __init__(self, ours: socket.socket) -> None:
        self.source, self.sink = Way(), Way()
        self.heartbeat = Heartbeat(T, ours, self.source, self.sink)
        self.start = time.monotonic()
        self.source.waiting_since = self.start

    def pings_at(self, seconds: float) -> bool:
        """Does it ping then? If so, the ping leaves."""
        due = self.heartbeat.is_ping_due(self.start + seconds)
        if due:
            self.heartbeat.pinged(self.start + seconds)
        return due

    def is_dead_at(self, seconds: float) -> bool:
        """Its verdict."""
        return self.heartbeat.is_peer_dead(self.start + seconds)

    def heard_at(self, seconds: float) -> None:
        """A byte was read, and the reader waits again."""
        self.source.waiting_since = self.start + seconds


@pytest.fixture
def patient(pair: tuple[socket.socket, socket.socket]) -> Patient:
    """A heartbeat over one end of the connection."""
    return Patient(pair[0])


def fill(ours: socket.socket) -> int:
    """Write until TCP takes no more, since the peer does not read; how many bytes it took."""
    taken = 0
    try:
        while True:
            taken += ours.send(bytes(65536))
    except BlockingIOError:
        return taken


def wait_readable(sock: socket.socket) -> None:
    """Wait for input, an end or an error."""
    assert select.select([sock], [], [], PATIENCE)[0]


def test_a_ping_each_interval(patient: Patient) -> None:
    """Not before, and again after the next one."""
    assert not patient.pings_at(T - 1)
    assert patient.pings_at(T)
    assert not patient.pings_at(2 * T - 1)
    assert patient.pings_at(2 * T)


def test_two_silent_intervals_are_death(patient: Patient) -> None:
    """And not a moment less."""
    assert patient.pings_at(T)
    assert not patient.is_dead_at(2 * T - 1)
    assert patient.is_dead_at(2 * T)


def test_it_looks_again_when_something_is_due(patient: Patient) -> None:
    """The next ping, or the moment of death if that comes first."""
    assert patient.heartbeat.seconds_to_next_look(patient.start) == pytest.approx(T, abs=1)
    patient.heard_at(10)
    patient.pings_at(T)
    patient.pings_at(2 * T)
    assert patient.heartbeat.seconds_to_next_look(patient.start + 2 * T) == pytest.approx(10, abs=1)


def test_any_byte_is_life(patient: Patient) -> None:
    """The silence counts from the last one."""
    patient.pings_at(T)
    patient.heard_at(T + 10)
    assert not patient.is_dead_at(3 * T)
    patient.pings_at(2 * T)
    assert not patient.is_dead_at(3 * T + 9)
    assert patient.is_dead_at(3 * T + 10)


def test_nobody_dies_unasked(patient: Patient) -> None:
    """When we did not get to run for minutes, the peer is asked first and has an interval to answer."""
    assert not patient.is_dead_at(10 * T)
    assert patient.pings_at(10 * T)
    assert not patient.is_dead_at(11 * T - 1)
    assert patient.is_dead_at(11 * T)


def test_time_in_which_nobody_listens_does_not_count(patient: Patient) -> None:
    """The owner did not receive for a while."""
    patient.pings_at(T)
    patient.source.waiting_since = None
    assert not patient.is_dead_at(5 * T)
    patient.heard_at(5 * T)
    patient.pings_at(5 * T)
    assert not patient.is_dead_at(7 * T - 1)
    assert patient.is_dead_at(7 * T)


def test_a_blocked_send_excuses(patient: Patient) -> None:
    """While our output waits there is neither ping nor verdict; afterwards the time starts anew."""
    patient.pings_at(T)
    patient.sink.waiting_since = patient.start + T
    assert not patient.pings_at(2 * T)
    assert not patient.is_dead_at(9 * T)
    patient.sink.waiting_since, patient.sink.waited_until = None, patient.start + 9 * T + 1
    assert not patient.is_dead_at(9 * T + 2)
    patient.pings_at(10 * T)
    assert not patient.is_dead_at(11 * T)
    assert patient.is_dead_at(11 * T + 1)


def test_output_in_the_queue_of_tcp_excuses(patient: Patient, pair: tuple[socket.socket, socket.socket]) -> None:
    """No send waits, but the ping lies behind what the peer does not read; when it has read, the time starts anew."""
    patient.pings_at(T)
    left = fill(pair[0])
    assert not patient.pings_at(2 * T)
    assert not patient.is_dead_at(3 * T)
    while left:
        left -= len(pair[1].recv(left))
    assert not patient.is_dead_at(3 * T + 1)
    patient.pings_at(4 * T)
    assert patient.is_dead_at(5 * T)


def test_unread_input_is_life(patient: Patient, pair: tuple[socket.socket, socket.socket]) -> None:
    """The answer is there, but this process had no time to read it."""
    patient.pings_at(T)
    pair[1].send(b"x")
    wait_readable(pair[0])
    assert not patient.is_dead_at(2 * T)


def test_a_reset_is_left_to_the_reader(patient: Patient, pair: tuple[socket.socket, socket.socket]) -> None:
    """An error of the socket is no silence."""
    patient.pings_at(T)
    pair[0].send(b"unread")
    pair[1].close()
    wait_readable(pair[0])
    assert not patient.is_dead_at(2 * T)
