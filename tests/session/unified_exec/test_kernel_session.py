"""Tests of execsrv.session.unified_exec.kernel_session, with real processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from endings import gone

from execsrv.session.unified_exec.kernel_session import kill_kernel_session, living_groups


@pytest.fixture
def start() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts session leaders from lines for bash, and waits for a first line from them."""
    children: list[subprocess.Popen[bytes]] = []

    def start(line: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(["bash", "-c", line], stdout=subprocess.PIPE, start_new_session=True)
        children.append(child)
        return child

    yield start
    for child in children:
        with child:
            kill_kernel_session(child.pid)
            child.kill()


def first_line(child: subprocess.Popen[bytes]) -> list[int]:
    """The numbers that it writes first."""
    assert child.stdout
    return [int(word) for word in child.stdout.readline().split()]


def test_groups_of_a_session(start: Callable[[str], subprocess.Popen[bytes]]) -> None:
    """That of the leader and those of its jobs, not those of another session."""
    child, other = start("set -m; sleep 1000 & echo $!; wait"), start("echo $$; read")
    (job,) = first_line(child)
    first_line(other)
    assert living_groups(child.pid) == {child.pid, job}


def test_kill_reaches_every_group(start: Callable[[str], subprocess.Popen[bytes]]) -> None:
    """Also that of a job."""
    child = start("set -m; trap '' TERM HUP; sleep 1000 & echo $!; wait")
    (job,) = first_line(child)
    kill_kernel_session(child.pid)
    assert gone(job)
    assert child.wait(10) == -9
    assert living_groups(child.pid) == set()


def test_kill_reaches_those_whose_leader_is_dead(start: Callable[[str], subprocess.Popen[bytes]]) -> None:
    """As long as it was not reaped; a zombie is no living process."""
    child = start("sleep 1000 >/dev/null & echo $!")
    (left,) = first_line(child)
    assert gone(child.pid)
    assert living_groups(child.pid) == {child.pid}
    kill_kernel_session(child.pid)
    assert gone(left)
    assert living_groups(child.pid) == set()
    kill_kernel_session(child.pid)


def test_any_program_name(start: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """Parentheses and blanks in it are no fields."""
    child = start(f"cp /bin/sleep '{tmp_path}/) S 1 1'; '{tmp_path}/) S 1 1' 1000 & echo $!; wait")
    first_line(child)
    assert living_groups(child.pid) == {child.pid}
