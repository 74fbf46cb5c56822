"""Reaping strangers: here, children of the test that no supervisor has started."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import gevent
import pytest

from execsrv.errors import InternalError
from execsrv.server.processes.proc_stat import all_processes, read_stat
from execsrv.server.processes.supervisor import Supervisor
from execsrv.server.reaper import adopts_orphans, reap_strangers
from execsrv.server.workers import SPAWN_THREADS, Workers

if TYPE_CHECKING:
    from conftest import RecordingSink

    from execsrv.server.processes.command import Command

    MakeCommand = Callable[..., Command]


def stranger() -> int:
    """The pid of a zombie that is nobody's."""
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


@pytest.fixture
def held_starts(workers: Workers) -> Iterator[Callable[[], None]]:
    """Starts wait until it is called, at the latest when the test ends."""
    go = threading.Event()
    busy = [gevent.spawn(workers.spawn.call, go.wait, 20) for _ in range(SPAWN_THREADS)]
    gevent.idle()
    yield go.set
    go.set()
    gevent.joinall(busy, timeout=10, raise_error=True)


def test_strangers_are_reaped(nothing_left: Callable[[], None]) -> None:
    """All of them at once; who lives is left alone."""
    pids = [stranger() for _ in range(5)]
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as alive:
        reap_strangers()
        assert [read_stat(pid) for pid in pids] == [None] * 5
        assert alive.poll() is None


def test_the_status_of_a_process_is_not_stolen(
    supervisor: Supervisor, command: MakeCommand, sink: RecordingSink
) -> None:
    """Whether it was noticed already, and while descendants hold it open."""
    process = supervisor.new_process("p", command("sleep 1000 & exit 7"), sink)
    supervisor.start(process)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    other = stranger()
    reap_strangers()
    assert read_stat(other) is None and read_stat(process.pid)
    assert sink.wait_exited("p").exit_code == 7
    reap_strangers()
    assert read_stat(process.pid) and process.terminate() is False
    sink.wait_closed("p")


def test_starts_that_go_on_are_waited_for(
    supervisor: Supervisor, command: MakeCommand, sink: RecordingSink, held_starts: Callable[[], None]
) -> None:
    """Any zombie may be theirs; also when the start fails."""
    good = supervisor.new_process("good", command("exit 7"), sink)
    bad = supervisor.new_process("bad", command("/no/such", "x"), sink)
    starting, failing = gevent.spawn(supervisor.start, good), gevent.spawn(start_in_vain, supervisor, bad)
    pid = stranger()
    reaping = gevent.spawn(reap_strangers)
    gevent.idle()
    assert not reaping.ready() and read_stat(pid)
    held_starts()
    gevent.joinall([reaping, starting, failing], timeout=10, raise_error=True)
    assert read_stat(pid) is None
    assert sink.wait_exited("good").exit_code == 7
    sink.wait_closed("good")


def start_in_vain(supervisor: Supervisor, process: object) -> None:
    """The system refuses."""
    with pytest.raises(InternalError):
        supervisor.start(process)  # type: ignore[arg-type]


def children() -> set[int]:
    """This program's children, running or zombies."""
    return {process.pid for process in all_processes() if process.parent == os.getpid()}


def test_no_status_of_many_is_stolen(
    supervisor: Supervisor, command: MakeCommand, sink: RecordingSink, nothing_left: Callable[[], None]
) -> None:
    """While strangers end and are reaped all the time."""
    over, others = False, children()

    def reap_on() -> None:
        while not over:
            os.posix_spawn("/bin/true", ["true"], {})
            reap_strangers()
            gevent.sleep(0.001)

    reaping = gevent.spawn(reap_on)
    for turn in range(20):
        names = [f"{turn}.{number}" for number in range(10)]
        processes = [supervisor.new_process(name, command(f"exit {turn + 1}"), sink) for name in names]
        gevent.joinall([gevent.spawn(supervisor.start, p) for p in processes], timeout=20, raise_error=True)
        assert {sink.wait_exited(name).exit_code for name in names} == {turn + 1}
        for name in names:
            sink.wait_closed(name)
    over = True
    reaping.get(timeout=10)
    with gevent.Timeout(20):
        while children() - others:
            reap_strangers()
            gevent.sleep(0.001)


def test_who_adopts_orphans() -> None:
    """A child subreaper does; an ordinary program does not."""
    script = "import ctypes; from execsrv.server.reaper import adopts_orphans; before = adopts_orphans();"
    script += "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); print(before, adopts_orphans())"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20)
    assert shown.stdout == "False True\n", shown.stderr
    assert adopts_orphans() is False
