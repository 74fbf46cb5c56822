"""Killing whole sessions of real processes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import pytest

from execsrv.server.processes.proc_stat import Identity
from execsrv.server.processes.sessions import (
    is_group_of,
    kill_sessions,
    open_survivor,
    signal_groups,
    signal_session,
)

#: Tells the number in one piece, and sleeps.
TELL = "os.write(1, str(os.getpid()).encode() + bytes([10])); time.sleep(1000)"

#: Does so as a group of its own within the session.
OWN_GROUP = f"import os, time; os.setpgid(0, 0); {TELL}"

#: The same as a session of its own, and then in such a session again.
OWN_SESSION = f"import os, time; os.setsid(); {TELL}"
NESTED = (
    "import os, time\n"
    "for _ in range(3):\n"
    "    if not os.fork(): os.setsid(); continue\n"
    "    break\n"
    f"{TELL}"
)


@contextmanager
def lead(*argv: str) -> Iterator[subprocess.Popen[str]]:
    """Start the leader of a session; its group is gone at the end."""
    with subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE, text=True) as leader:
        try:
            yield leader
        finally:
            if leader.poll() is None:
                os.killpg(leader.pid, signal.SIGKILL)


def is_alive(leader: int, escaped: Collection[Identity]) -> bool:
    """Does anybody of them live?"""
    pidfd = open_survivor(leader, escaped)
    if pidfd is None:
        return False
    assert not select.select([pidfd], [], [], 0)[0]
    os.close(pidfd)
    return True


def read_numbers(leader: subprocess.Popen[str], count: int) -> list[int]:
    """The numbers that it prints, one a line."""
    assert leader.stdout
    return [int(leader.stdout.readline()) for _ in range(count)]


def test_the_leaders_group_is_killed(died: Callable[[int], None]) -> None:
    """Not only the leader."""
    with lead("sh", "-c", "sleep 1000 & echo $!; sleep 1000") as leader:
        (child,) = read_numbers(leader, 1)
        kill_sessions([leader.pid])
        died(child)
        assert leader.wait(10) == -signal.SIGKILL


def test_other_groups_of_the_session_are_killed(died: Callable[[int], None]) -> None:
    """As jobs of an interactive shell are."""
    with lead("sh", "-c", f"python3 -c '{OWN_GROUP}' & python3 -c '{OWN_GROUP}' & wait") as leader:
        jobs = read_numbers(leader, 2)
        assert all(os.getpgid(job) == job and os.getsid(job) == leader.pid for job in jobs)
        kill_sessions([leader.pid])
        for job in jobs:
            died(job)
        assert leader.wait(10) == -signal.SIGKILL


def test_a_session_is_killed_after_its_leader_has_ended(died: Callable[[int], None]) -> None:
    """The unreaped leader keeps the number from strangers."""
    with lead("sh", "-c", f"python3 -c '{OWN_GROUP}' &") as leader:
        (job,) = read_numbers(leader, 1)
        os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
        kill_sessions([leader.pid])
        died(job)
        assert leader.wait(10) == 0


def test_several_sessions_are_killed_together(died: Callable[[int], None]) -> None:
    """One search serves them all."""
    with lead("sleep", "1000") as one, lead("sleep", "1000") as two:
        kill_sessions([one.pid, two.pid])
        assert one.wait(10) == two.wait(10) == -signal.SIGKILL


def test_other_sessions_are_left_alone() -> None:
    """A stranger lives on, and nobody to kill is no problem."""
    with lead("sh", "-c", "echo 1; exec sleep 1000") as stranger, lead("sleep", "1000") as leader:
        read_numbers(stranger, 1)
        kill_sessions([])
        kill_sessions([leader.pid])
        leader.wait(10)
        assert stranger.poll() is None
        stranger.kill()


def test_a_process_with_an_odd_name_hides_nobody(died: Callable[[int], None]) -> None:
    """Names with spaces and parentheses are told in /proc, too."""
    name = "import ctypes; ctypes.CDLL(None).prctl(15, b') Z 1 2 (x', 0, 0, 0); " + OWN_GROUP
    with lead("sh", "-c", f"python3 -c \"{name}\" & wait") as leader:
        (job,) = read_numbers(leader, 1)
        kill_sessions([leader.pid])
        died(job)
        leader.wait(10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_group_gets_a_signal_of_choice(number: int) -> None:
    """Groups that are gone are ignored."""
    with lead("sleep", "1000") as gone:
        gone.kill()
    with lead("sleep", "1000") as leader:
        signal_groups([gone.pid, leader.pid], number)
        assert leader.wait(10) == -number


# ---- who has left the session --------------------------------------------------------------------------------------


def test_descendants_that_left_the_session_are_killed(died: Callable[[int], None]) -> None:
    """In a session of their own, and in one below that."""
    with lead("python3", "-c", NESTED) as leader:
        pids = read_numbers(leader, 4)
        assert len({os.getsid(pid) for pid in pids}) == 4
        kill_sessions([leader.pid])
        for pid in pids:
            died(pid)


def test_nobody_escapes_who_leaves_the_session_meanwhile() -> None:
    """However many do: all of them hold a pipe, which is at its end when they are gone."""
    for _ in range(5):
        with lead("sh", "-c", "while echo; do setsid sleep 60 & done") as leader:
            assert leader.stdout
            for _ in range(20):
                leader.stdout.readline()
            kill_sessions([leader.pid])
            while select.select([leader.stdout], [], [], 20)[0] and os.read(leader.stdout.fileno(), 65536):
                pass
            assert select.select([leader.stdout], [], [], 0)[0]


def test_who_has_left_is_killed_after_its_ancestors_when_it_is_known(died: Callable[[int], None]) -> None:
    """Nothing else leads to it then; its own children are found through it."""
    with lead("sh", "-c", f"python3 -c '{OWN_SESSION}' & wait") as leader:
        (escaped,) = read_numbers(leader, 1)
        known = signal_session(leader.pid, (), signal.SIGURG)
        assert [pid for pid, _ in known] == [escaped]
        leader.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
        assert is_alive(leader.pid, known) and not is_alive(leader.pid, ())
        kill_sessions([leader.pid], known)
        died(escaped)
        assert not is_alive(leader.pid, known)


def test_a_later_process_with_a_known_number_is_left_alone() -> None:
    """It is told apart by the time of its start."""
    with lead("sleep", "1000") as leader, lead("sleep", "1000") as stranger:
        kill_sessions([leader.pid], {(stranger.pid, 1)})
        leader.wait(10)
        assert not is_alive(leader.pid, {(stranger.pid, 1)})
        assert stranger.poll() is None
        stranger.kill()


def test_a_signal_reaches_every_group_and_who_has_left(died: Callable[[int], None]) -> None:
    """Signals are sent in the order given; those who ignore them live."""
    jobs = f"python3 -c '{OWN_GROUP}' & python3 -c '{OWN_SESSION}' & trap '' TERM; echo 0; while true; do wait; done"
    with lead("sh", "-c", jobs) as leader:
        *_, first, second = sorted(read_numbers(leader, 3))
        known = signal_session(leader.pid, (), signal.SIGTERM, signal.SIGCONT)
        assert len(known) == 1
        died(first)
        died(second)
        assert leader.poll() is None and is_alive(leader.pid, known)
        leader.kill()


def test_a_zombie_is_no_living_session() -> None:
    """Nor is one that never was."""
    with lead("true") as leader:
        os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(leader.pid, ())


def test_a_group_belongs_to_a_session_while_one_of_it_lives(died: Callable[[int], None]) -> None:
    """Not to another session, and not when it has ended."""
    with lead("sh", "-c", f"python3 -c '{OWN_GROUP}' & wait") as leader:
        (job,) = read_numbers(leader, 1)
        assert is_group_of(job, leader.pid) and is_group_of(leader.pid, leader.pid)
        assert not is_group_of(job, os.getsid(0)) and not is_group_of(os.getpgrp(), leader.pid)
        assert not is_group_of(0, leader.pid)
        kill_sessions([leader.pid])
        died(job)
        assert not is_group_of(job, leader.pid)
