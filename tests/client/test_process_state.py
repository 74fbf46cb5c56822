"""Tests of execsrv.client.process_state and of the handle, execsrv.client.process, without a server."""

from __future__ import annotations

import subprocess
import threading
from typing import Any

import pytest
from background import Background
from fake_server import WAIT

from execsrv.client.deadline import Deadline
from execsrv.client.errors import ClosedError, ExecServerError, ServerError, TimeoutExpired
from execsrv.client.notifications import ProcessEvent
from execsrv.client.pacing import Pacer
from execsrv.client.process import Process
from execsrv.client.process_state import ProcessState
from execsrv.client.server_info import ServerInfo
from execsrv.protocol.common import StreamName
from execsrv.protocol.events import ProcessClosed, ProcessExited, ProcessOutput, ProcessStarted

LOST = ClosedError("lost")
EXITED = ProcessExited("p", 8, 3, None, "exited")
KILLED = ProcessExited("p", 8, 137, "SIGKILL", "terminated")
CLOSED = ProcessClosed("p", 9, True)


class FakeClient:
    """Remembers calls; ``refusal`` is what they raise, save those that kill."""

    server_info = ServerInfo("v", capabilities={"processCloseStdin": True, "processGracefulTerminate": True})

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refusal: ServerError | None = None
        self._changed = threading.Condition()

    def call(self, method: str, params: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Note a call."""
        with self._changed:
            self.calls.append((method, params))
            self._changed.notify_all()
        if self.refusal and method != "process/terminate":
            raise self.refusal
        return {"running": True}

    def wait_for(self, method: str) -> None:
        """Wait for a call of this method."""
        with self._changed:
            assert self._changed.wait_for(lambda: method in dict(self.calls), WAIT)


class Life:
    """A handle, and the events that it lives through."""

    def __init__(self, capture: bool = True) -> None:
        self.acknowledged = 0
        self.client = FakeClient()
        self.state = ProcessState(capture, Pacer(self._acknowledge))
        self.process = Process(self.client, "p", ["cmd", "arg"], self.state)  # type: ignore[arg-type]
        self._seq = 0

    def apply(self, *events: ProcessEvent) -> Life:
        """Let events come."""
        for event in events:
            self.state.apply(event, [])
        return self

    def write(self, chunk: bytes, stream: StreamName = "stdout") -> Life:
        """Let output come."""
        self._seq += 1
        return self.apply(ProcessOutput("p", self._seq, stream, chunk))

    def lose(self) -> Life:
        """Let the connection be lost."""
        self.state.fail(LOST)
        return self

    def _acknowledge(self, _: str, seq: int) -> None:
        self.acknowledged = seq


@pytest.fixture
def life() -> Life:
    """The life of a process."""
    return Life()


def test_new_process_runs(life: Life) -> None:
    """It has no exit code yet."""
    assert life.process.poll() is None
    assert (life.process.returncode, life.process.signal, life.process.reason) == (None, None, None)
    assert repr(life.process) == "<Process p ['cmd', 'arg'] returncode=None>"


def test_pid_is_waited_for(life: Life) -> None:
    """It comes a little after the answer to the start."""
    asking = Background(lambda: life.process.pid)
    life.apply(ProcessStarted("p", 77))
    assert asking.result() == 77


def test_pid_that_never_comes(life: Life) -> None:
    """A server that does not tell it before the process ends never will."""
    assert life.apply(EXITED).process.pid is None
    assert Life().lose().process.pid is None


def test_exit_is_told_in_all_ways(life: Life) -> None:
    """By ``wait``, ``poll`` and the attributes; a signal is 128 + N with its name."""
    waiting = Background(life.process.wait)
    life.apply(KILLED)
    assert waiting.result() == life.process.poll() == life.process.returncode == 137
    assert (life.process.signal, life.process.reason) == ("SIGKILL", "terminated")


def test_wait_gives_up_in_time(life: Life) -> None:
    """With an error that is subprocess's and the client's, and ours to try again."""
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        life.process.wait(0.01)
    assert isinstance(caught.value, ExecServerError)
    assert (caught.value.cmd, caught.value.timeout) == (["cmd", "arg"], 0.01)
    assert life.apply(EXITED).process.wait(0) == 3


def test_output_is_iterated_until_the_streams_are_closed(life: Life) -> None:
    """Also what descendants write after the exit."""
    life.write(b"one").write(b"two", "stderr").apply(EXITED).write(b"late").apply(CLOSED)
    assert [(o.stream, o.chunk) for o in life.process] == [("stdout", b"one"), ("stderr", b"two"), ("stdout", b"late")]
    assert list(life.process) == []


def test_iteration_waits_for_output(life: Life) -> None:
    """And for the close, not only the exit."""
    reading = Background(lambda: [output.chunk for output in life.process])
    life.write(b"one").apply(EXITED).write(b"two")
    assert reading.is_running()
    life.apply(CLOSED)
    assert reading.result() == [b"one", b"two"]


def test_output_without_end_is_left_when_the_process_has_ended(life: Life) -> None:
    """Descendants are waited for only as long as one wants."""
    life.write(b"one").apply(EXITED)
    assert [output.chunk for output in life.process.output(drain_timeout=0.01)] == [b"one"]


def test_reading_acknowledges(life: Life) -> None:
    """As the handle is read, the server may send more."""
    life.write(b"one").write(b"two")
    assert life.acknowledged == 0
    iterator = iter(life.process)
    next(iterator)
    next(iterator)
    assert life.acknowledged == 2


def test_waiting_for_the_end_lets_unread_output_come(life: Life) -> None:
    """Else the process would never end; what it wrote can be read then."""
    waiting = Background(life.process.wait)
    for _ in range(100):
        life.write(b"x" * 60_000)
    life.apply(EXITED, CLOSED)
    assert waiting.result() == 3
    assert life.acknowledged == 100
    assert sum(len(output.chunk) for output in life.process) == 6_000_000


def test_unread_output_holds_the_process_after_a_wait(life: Life) -> None:
    """The exception is only for so long as somebody waits."""
    with pytest.raises(TimeoutExpired):
        life.process.wait(0)
    life.write(b"one")
    assert life.acknowledged == 0


def test_output_that_is_not_captured_is_dropped() -> None:
    """It is acknowledged at once, and the iteration ends with the process."""
    life = Life(capture=False).write(b"one")
    assert life.acknowledged == 1
    assert list(life.apply(EXITED, CLOSED).process) == []


def test_communicate_separates_the_streams(life: Life) -> None:
    """And joins what belongs together."""
    life.write(b"o1").write(b"e1", "stderr").write(b"o2").write(b"e2", "stderr").apply(EXITED, CLOSED)
    assert life.process.communicate() == (b"o1o2", b"e1e2")
    assert life.process.communicate() == (b"o1o2", b"e1e2")


def test_communicate_on_a_terminal(life: Life) -> None:
    """All is stdout."""
    assert life.write(b"one", "pty").apply(EXITED, CLOSED).process.communicate() == (b"one", b"")


def test_text_is_decoded_over_the_edges_of_chunks(life: Life) -> None:
    """Each stream by itself; line ends are translated and wrong bytes replaced."""
    life.write(b"gr\xc3").write(b"\xc3", "stderr").write(b"\xbc\xc3\x9fe\r").write(b"\xa4\xff", "stderr").write(b"\n")
    assert life.apply(EXITED, CLOSED).process.communicate(text=True) == ("grüße\n", "ä\ufffd")


def test_communicate_times_out_with_the_output_so_far(life: Life) -> None:
    """A second try gets it again."""
    life.write(b"a").write(b"b", "stderr")
    with pytest.raises(TimeoutExpired) as caught:
        life.process.communicate(timeout=0.01)
    assert (caught.value.output, caught.value.stderr) == (b"a", b"b")
    with pytest.raises(TimeoutExpired) as caught:
        life.process.communicate(timeout=0.01, text=True)
    texts: list[object] = [caught.value.stdout, caught.value.stderr]
    assert texts == ["a", "b"]
    assert life.apply(EXITED, CLOSED).process.communicate() == (b"a", b"b")


def test_communicate_does_not_wait_long_for_descendants(life: Life) -> None:
    """Once the process has ended, what it wrote is there."""
    life.write(b"hi").apply(EXITED)
    assert life.process.communicate(drain_timeout=0.01) == (b"hi", b"")


def test_communicate_takes_what_descendants_write_in_time(life: Life) -> None:
    """The close ends the wait early."""
    life.write(b"hi").apply(EXITED)
    reading = Background(lambda: life.process.communicate(drain_timeout=WAIT))
    life.write(b" and more").apply(CLOSED)
    assert reading.result() == (b"hi and more", b"")


def test_time_that_runs_out_behind_the_exit_is_no_error(life: Life) -> None:
    """The process has ended in time, only its descendants have not."""
    life.write(b"hi").apply(EXITED)
    assert Background(lambda: life.process.communicate(timeout=0, drain_timeout=1000)).result() == (b"hi", b"")


def test_lost_connection_fails_every_wait_at_once(life: Life) -> None:
    """It looks neither like running nor like an end."""
    waits = [Background(lambda: wait()) for wait in (life.process.wait, life.process.communicate)]
    waits.append(Background(lambda: list(life.process)))
    life.lose()
    for wait in waits:
        with pytest.raises(ClosedError, match="lost"):
            wait.result()
    with pytest.raises(ClosedError):
        life.process.poll()
    assert life.process.returncode is None


def test_lost_connection_comes_before_unread_output(life: Life) -> None:
    """A cut stream must not be taken for a whole one."""
    life.write(b"half a li").lose()
    with pytest.raises(ClosedError):
        next(iter(life.process))
    with pytest.raises(ClosedError):
        life.process.communicate()


def test_what_was_known_stays_known(life: Life) -> None:
    """A process that had ended before the connection did has its code and its whole output."""
    life.write(b"all").apply(EXITED, CLOSED).lose()
    assert life.process.poll() == life.process.wait() == 3
    assert life.process.communicate() == (b"all", b"")


def test_connection_lost_between_exit_and_close(life: Life) -> None:
    """The process's own output is complete, but the streams were not at their end."""
    life.write(b"all").apply(EXITED).lose()
    assert life.process.communicate() == (b"all", b"")
    other = Life().write(b"all").apply(EXITED).lose()
    reading = iter(other.process)
    assert next(reading).chunk == b"all"
    with pytest.raises(ClosedError):
        next(reading)


def test_dropped_handle_lets_the_process_go_on(life: Life) -> None:
    """Nobody can read its output any more."""
    acknowledged = threading.Semaphore(0)
    life.state = ProcessState(True, Pacer(lambda *_: acknowledged.release()))
    life.process = Process(life.client, "p", [], life.state)  # type: ignore[arg-type]
    life.write(b"one")
    assert not acknowledged.acquire(blocking=False)
    del life.process
    assert acknowledged.acquire(timeout=WAIT)
    life.write(b"two")
    assert acknowledged.acquire(timeout=WAIT)


def test_write_and_kill_are_calls(life: Life) -> None:
    """With the id and base64."""
    life.process.write(b"\0\xff")
    assert life.process.kill() is True
    assert life.client.calls == [
        ("process/write", {"processId": "p", "chunk": "AP8="}),
        ("process/terminate", {"processId": "p"}),
    ]


def test_what_is_asked_of_the_server(life: Life) -> None:
    """Each under its name on the wire, with times in milliseconds."""
    life.process.close_stdin()
    life.process.resize(5, 6)
    life.process.send_signal("hangup")
    life.process.interrupt()
    assert life.process.terminate() is True
    life.process.terminate(0.0001)
    assert life.client.calls == [
        ("process/closeStdin", {"processId": "p"}),
        ("process/resize", {"processId": "p", "size": {"rows": 5, "cols": 6}}),
        ("process/signal", {"processId": "p", "signal": "hangup"}),
        ("process/signal", {"processId": "p", "signal": "interrupt"}),
        ("process/terminate", {"processId": "p", "mode": {"graceful": {"timeoutMs": 2000}}}),
        ("process/terminate", {"processId": "p", "mode": {"graceful": {"timeoutMs": 1}}}),
    ]


def test_end_that_comes_in_between(life: Life) -> None:
    """The server knows of it, and this side does not yet: it makes no difference."""
    life.client.refusal = ServerError(-32600, "process p has exited", "processExited")
    life.process.interrupt()
    life.process.resize(1, 1)
    life.process.close_stdin()
    assert len(life.client.calls) == 3
    life.client.refusal = ServerError(-32600, "no", "noTerminal")
    with pytest.raises(ServerError):
        life.process.resize(1, 1)


def test_input_that_cannot_be_written(life: Life) -> None:
    """The process is killed, or it would wait for the rest; the error is told."""
    life.client.refusal = ServerError(-32600, "full", "limitExceeded")
    communicating = Background(lambda: life.process.communicate(b"data"))
    life.client.wait_for("process/terminate")
    life.apply(KILLED, CLOSED)
    with pytest.raises(ServerError, match="full"):
        communicating.result()


def test_block_kills_what_still_runs(life: Life) -> None:
    """And waits for its end."""
    leaving = Background(lambda: life.process.__exit__(None, None, None))
    life.client.wait_for("process/terminate")
    assert leaving.is_running()
    life.apply(KILLED)
    leaving.result()
    assert life.client.calls == [("process/terminate", {"processId": "p"})]


def test_block_leaves_alone_what_has_ended(life: Life) -> None:
    """Its descendants may be daemons."""
    with life.process:
        life.apply(EXITED)
    assert life.client.calls == []


def test_block_with_a_lost_connection(life: Life) -> None:
    """There is nothing left to do, and an error from inside the block is not hidden."""
    with pytest.raises(KeyError), life.process:
        life.lose()
        raise KeyError


def test_next_output_gives_up_in_time(life: Life) -> None:
    """As every wait."""
    with pytest.raises(TimeoutError):
        life.state.next_output(Deadline(0))
