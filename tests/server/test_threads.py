"""Calls on native threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import gevent
import pytest
from gevent.event import Event

from execsrv.errors import NotFound
from execsrv.server.threads import Threads

PATIENCE = 20


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Up to three threads; a test that hangs fails."""
    threads = Threads(3)
    with gevent.Timeout(PATIENCE):
        yield threads
    threads.close()


class Gate:
    """Calls that wait until the test lets them go on."""

    def __init__(self) -> None:
        self.idents: list[int] = []
        self._open = threading.Event()

    def __call__(self) -> None:
        self.idents.append(threading.get_native_id())
        assert self._open.wait(PATIENCE)

    def open(self) -> None:
        """Let all go on."""
        self._open.set()

    def wait_for(self, count: int) -> None:
        """Wait until so many calls wait here."""
        while len(self.idents) < count:
            gevent.sleep(0.001)


def test_a_call_runs_on_another_thread_and_returns(threads: Threads) -> None:
    """Positional and keyword arguments arrive."""
    assert threads.call(divmod, 7, 2) == (3, 1)
    assert threads.call(int, "ff", base=16) == 255
    assert threads.call(threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize("error", [NotFound("x"), OSError(5, "x"), ValueError("x"), SystemExit(3)])
def test_what_is_raised_is_raised_at_the_caller(
    threads: Threads, error: BaseException, capfd: pytest.CaptureFixture
) -> None:
    """The same object, and nothing is printed about it; the thread goes on."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        threads.call(fail)
    assert caught.value is error
    assert capfd.readouterr().err == ""
    assert threads.call(int, "1") == 1


def test_the_hub_goes_on_while_a_thread_works(threads: Threads) -> None:
    """A greenlet frees the thread that another one waits for."""
    gate = Gate()
    gevent.spawn(gate.open)
    threads.call(gate)


def test_there_are_no_more_threads_than_needed(threads: Threads) -> None:
    """One after the other needs one."""
    assert len({threads.call(threading.get_ident) for _ in range(20)}) == 1


def test_there_are_no_more_threads_than_allowed(threads: Threads) -> None:
    """Further calls wait until one is free."""
    gate = Gate()
    busy = [gevent.spawn(threads.call, gate) for _ in range(3)]
    gate.wait_for(3)
    late = [gevent.spawn(threads.call, threading.get_native_id) for _ in range(5)]
    gevent.idle()
    gate.open()
    gevent.joinall([*busy, *late], raise_error=True)
    assert len(set(gate.idents)) == 3
    assert {call.value for call in late} <= set(gate.idents)


def test_many_calls_all_get_their_own_answer(threads: Threads) -> None:
    """However they are mixed."""
    calls = [gevent.spawn(threads.call, divmod, number, 7) for number in range(500)]
    gevent.joinall(calls, raise_error=True)
    assert [call.value for call in calls] == [divmod(number, 7) for number in range(500)]


def test_a_killed_caller_is_not_disturbed_later() -> None:
    """What its call gives is nobody's; the thread is free again."""
    threads, gate, over = Threads(1), Gate(), Event()

    def caller() -> bool:
        try:
            threads.call(gate)
        except gevent.GreenletExit:
            return over.wait(PATIENCE)
        return False

    greenlet = gevent.spawn(caller)
    gate.wait_for(1)
    greenlet.kill(block=False)
    gevent.idle()
    gate.open()
    assert threads.call(threading.get_native_id) == gate.idents[0]
    over.set()
    assert greenlet.get(timeout=PATIENCE) is True
    threads.close()


def test_threads_end_when_they_are_closed() -> None:
    """Also one that has still something to do, behind that."""
    threads, gate = Threads(3), Gate()
    busy = [gevent.spawn(threads.call, gate) for _ in range(3)]
    gate.wait_for(3)
    threads.close()
    gate.open()
    gevent.joinall(busy, timeout=PATIENCE, raise_error=True)
    with gevent.Timeout(PATIENCE):
        while any(os.path.exists(f"/proc/self/task/{ident}") for ident in gate.idents):
            gevent.sleep(0.001)


def test_idle_threads_keep_no_program_alive() -> None:
    """A hub with nothing else to do ends, as without them."""
    script = (
        "import gevent; from execsrv.server.threads import Threads\n"
        "threads = Threads(2); threads.call(int, '1'); print(gevent.wait())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.fixture
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From this call on the system gives no thread."""

    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    return lambda: monkeypatch.setattr("execsrv.server.threads._start_thread", refuse)


def test_a_call_fails_when_there_is_no_thread(threads: Threads, no_more_threads: Callable[[], None]) -> None:
    """The system is out of them."""
    no_more_threads()
    with pytest.raises(RuntimeError):
        threads.call(int, "1")


def test_a_call_waits_for_a_thread_when_there_is_no_other(
    threads: Threads, no_more_threads: Callable[[], None]
) -> None:
    """One that runs already will do."""
    gate = Gate()
    first = gevent.spawn(threads.call, gate)
    gate.wait_for(1)
    no_more_threads()
    second = gevent.spawn(threads.call, int, "2")
    gevent.idle()
    gate.open()
    gevent.joinall([first, second], raise_error=True)
    assert second.value == 2
