"""Tests of execsrv.session.unified_exec.session_table."""

from __future__ import annotations

import pytest
from exec_fakes import FakeProcess, ended_session, session_of

from execsrv.session.unified_exec.command_session import CommandSession
from execsrv.session.unified_exec.errors import UnknownSession
from execsrv.session.unified_exec.session_table import (
    MAX_SESSIONS,
    MAX_USED_IDS,
    PROTECTED_SESSIONS,
    SessionTable,
    choose_to_prune,
)


def running_session(session_id: int) -> CommandSession:
    """A session of a process that runs."""
    return session_of(FakeProcess(), session_id)


def full_table() -> SessionTable:
    """A table with sessions 0 to 63, which run."""
    table = SessionTable()
    for number in range(MAX_SESSIONS):
        assert table.add(running_session(number)) is None
    return table


def test_ids_are_random_and_never_the_same() -> None:
    """All within what a model gets to see."""
    table = SessionTable()
    ids = [table.new_id() for _ in range(2000)]
    assert len(set(ids)) == 2000
    assert 1000 <= min(ids) and max(ids) <= 99_999
    assert ids != sorted(ids)
    assert [SessionTable().new_id() for _ in range(5)] != ids[:5]


def test_ids_do_not_run_out() -> None:
    """Those of former commands come back at last, those in use do not."""
    table = SessionTable()
    used = table.new_id()
    table.add(running_session(used))
    later = [table.new_id() for _ in range(2 * MAX_USED_IDS)]
    assert used not in later
    assert len(set(later)) < len(later)


def test_use_finds_what_was_added() -> None:
    """Until it is removed, which may be done twice."""
    table = SessionTable()
    session = running_session(1234)
    table.add(session)
    assert table.use(1234) is session and len(table) == 1
    table.remove(session)
    table.remove(session)
    assert len(table) == 0
    with pytest.raises(UnknownSession) as caught:
        table.use(1234)
    assert caught.value.session_id == 1234


def test_one_too_many_takes_the_place_of_the_least_recently_used() -> None:
    """That one is not known any more."""
    table = full_table()
    table.use(0)
    pruned = table.add(running_session(1234))
    assert pruned and pruned.session_id == 1
    assert len(table) == MAX_SESSIONS
    with pytest.raises(UnknownSession):
        table.use(1)
    assert table.use(0).session_id == 0 and table.use(1234).session_id == 1234


def test_those_that_have_ended_go_first() -> None:
    """The least recently used among them."""
    sessions = [running_session(0), ended_session(1), ended_session(2), *map(running_session, range(3, 20))]
    assert choose_to_prune(sessions).session_id == 1


def test_the_most_recently_used_are_protected() -> None:
    """Also when they have ended."""
    running = list(map(running_session, range(5)))
    recent = list(map(ended_session, range(5, 5 + PROTECTED_SESSIONS)))
    assert choose_to_prune([*running, *recent]).session_id == 0
    assert choose_to_prune([*running, ended_session(99), *recent]).session_id == 99
