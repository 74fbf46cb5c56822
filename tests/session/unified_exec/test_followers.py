"""Tests of execsrv.session.unified_exec.followers, with fake processes."""

from __future__ import annotations

import pytest
from exec_fakes import WAIT, FakeProcess, in_parallel, session_of

from execsrv.client.deadline import Deadline
from execsrv.session.unified_exec.errors import StartFailed
from execsrv.session.unified_exec.followers import MAX_LINGERING, Followers


def test_follows_to_the_end_and_frees() -> None:
    """On a thread of its own."""
    process = FakeProcess()
    session = session_of(process)
    Followers().follow(session)
    process.says(b"out")
    process.ends(3)
    session.wait(Deadline(WAIT))
    output, code = session.collect()
    assert (output.retained, code) == (b"out", 3)
    assert process.freed.wait(WAIT)


def test_close_ends_what_runs_and_what_lingers() -> None:
    """And waits for both; what is over has no part in it. Twice is harmless."""
    running, lingering, over = FakeProcess(), FakeProcess(lingers=True), FakeProcess()
    followers = Followers()
    for process in (running, lingering, over):
        session = session_of(process)
        followers.follow(session)
        if process is not running:
            process.ends()
            session.wait(Deadline(WAIT))
    assert over.freed.wait(WAIT)
    assert not lingering.freed.is_set()
    in_parallel([followers.close, followers.close])
    followers.close()
    assert running.freed.is_set() and lingering.freed.is_set()
    assert not over.terminated.is_set()


def test_nothing_is_followed_after_the_close() -> None:
    """A command that was starting meanwhile is ended."""
    followers = Followers()
    followers.close()
    process = FakeProcess()
    with pytest.raises(StartFailed):
        followers.follow(session_of(process))
    assert process.terminated.is_set() and process.freed.is_set()


def test_descendants_of_old_commands_are_ended() -> None:
    """Those of the newest go on."""
    followers = Followers()
    processes = [FakeProcess(lingers=True) for _ in range(MAX_LINGERING + 2)]
    for process in processes:
        session = session_of(process)
        followers.follow(session)
        process.ends()
        session.wait(Deadline(WAIT))
    assert processes[0].freed.wait(WAIT) and processes[1].freed.wait(WAIT)
    assert not any(process.terminated.is_set() for process in processes[2:])
    followers.close()
    assert all(process.freed.is_set() for process in processes)
