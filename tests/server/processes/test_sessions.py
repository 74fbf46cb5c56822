"""Killing whole sessions of real processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from execsrv.server.processes.sessions import kill_sessions, signal_groups

#: Prints its number and sleeps, as a group of its own within the session.
OWN_GROUP = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(1000)"


def lead(*argv: str) -> subprocess.Popen[str]:
    """Start the leader of a session."""
    return subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE, text=True)


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
