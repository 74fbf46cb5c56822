"""Calls on native threads."""

from __future__ import annotations

import threading

import gevent
import pytest

from execsrv.errors import NotFound
from execsrv.server.workers import Workers, call_on


def test_a_call_runs_on_another_thread_and_returns(workers: Workers) -> None:
    """Positional and keyword arguments arrive."""
    assert call_on(workers.files, divmod, 7, 2) == (3, 1)
    assert call_on(workers.files, int, "ff", base=16) == 255
    assert call_on(workers.files, threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize("error", [NotFound("x"), OSError(5, "x"), ValueError("x")])
def test_an_exception_is_raised_at_the_caller(workers: Workers, error: Exception, capfd: pytest.CaptureFixture) -> None:
    """The same object, and nothing is printed about it."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        call_on(workers.files, fail)
    assert caught.value is error
    assert capfd.readouterr().err == ""


def test_the_hub_goes_on_while_a_thread_blocks(workers: Workers) -> None:
    """A greenlet frees the thread that another one waits for."""
    go = threading.Event()
    gevent.spawn(go.set)
    assert call_on(workers.files, go.wait, 10)


def test_a_stuck_start_does_not_stop_the_others(workers: Workers) -> None:
    """The pool has several threads, and files have their own."""
    go = threading.Event()
    stuck = [gevent.spawn(call_on, workers.spawn, go.wait, 20) for _ in range(3)]
    try:
        assert call_on(workers.spawn, int, "1") == call_on(workers.files, int, "1") == 1
        assert not any(greenlet.ready() for greenlet in stuck)
    finally:
        go.set()
    gevent.joinall(stuck, timeout=10, raise_error=True)
