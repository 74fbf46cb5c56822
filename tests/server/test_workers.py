"""The threads of a hub."""

from __future__ import annotations

import threading

import gevent

from execsrv.server.workers import Workers


def test_a_stuck_start_does_not_stop_the_others(workers: Workers) -> None:
    """There are several threads, and files have their own."""
    go = threading.Event()
    stuck = [gevent.spawn(workers.spawn.call, go.wait, 20) for _ in range(3)]
    try:
        assert workers.spawn.call(int, "1") == workers.files.call(int, "1") == 1
        assert not any(greenlet.ready() for greenlet in stuck)
    finally:
        go.set()
    gevent.joinall(stuck, timeout=10, raise_error=True)
