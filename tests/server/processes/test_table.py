"""The ``process/*`` methods, called as the dispatcher calls them."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gevent
import pytest

from execsrv.config import ExecServerConfig
from execsrv.errors import InternalError, InvalidParams, InvalidRequest, RpcError
from execsrv.protocol.common import Empty
from execsrv.protocol.events import ProcessStarted
from execsrv.protocol.processes import (
    EnvPolicy,
    ProcessAckParams,
    ProcessParams,
    ProcessReadParams,
    ProcessReadResult,
    ProcessResizeParams,
    ProcessSignalParams,
    ProcessStartParams,
    ProcessStartResult,
    ProcessTerminateParams,
    ProcessWaitParams,
    ProcessWaitResult,
    ProcessWriteParams,
    Size,
)
from execsrv.server.processes.proc_stat import read_stat
from execsrv.server.processes.stdin import MAX_WAITING_BYTES
from execsrv.server.processes.supervisor import Supervisor
from execsrv.server.processes.table import MAX_WAITING_REQUESTS, ProcessTable
from execsrv.server.workers import SPAWN_THREADS, Workers

if TYPE_CHECKING:
    from conftest import Daemon, RecordingSink

    Params = Callable[..., ProcessStartParams]


def read(table: ProcessTable, process_id: str = "p", **options: Any) -> ProcessReadResult:
    """Read a process."""
    return table.read(ProcessReadParams(process_id, **options))


def write(table: ProcessTable, data: bytes, process_id: str = "p") -> str | None:
    """Write to a process; the kind of the fault, or None."""
    try:
        table.write(ProcessWriteParams(process_id, base64.b64encode(data).decode()))
    except RpcError as fault:
        return fault.kind
    return None


def terminate(table: ProcessTable, process_id: str = "p") -> bool:
    """Terminate a process; was it running?"""
    return table.terminate(ProcessTerminateParams(process_id)).running


def fault_of(function: Callable[..., object], *args: Any, **kwargs: Any) -> tuple[int, str, str]:
    """Code, kind and message of what a call raises."""
    with pytest.raises(RpcError) as caught:
        function(*args, **kwargs)
    return caught.value.code, caught.value.kind, caught.value.message


def wait_forgotten(table: ProcessTable) -> None:
    """Wait until a process is retained no more; nothing tells."""
    with gevent.Timeout(10), pytest.raises(RpcError):
        while read(table):
            gevent.sleep(0.001)


class HeldStarts:
    """Keeps all threads that start processes busy, so that starts wait."""

    def __init__(self, workers: Workers) -> None:
        self._go = threading.Event()
        self._busy = [gevent.spawn(workers.spawn.call, self._go.wait, 20) for _ in range(SPAWN_THREADS)]
        gevent.idle()

    def release(self) -> None:
        """Let the starts go on."""
        self._go.set()
        gevent.joinall(self._busy, timeout=10, raise_error=True)


@pytest.fixture
def held_starts(workers: Workers) -> Any:
    """Starts wait until they are released, at the latest when the test ends."""
    held = HeldStarts(workers)
    yield held
    held.release()


# ---- start ---------------------------------------------------------------------------------------------------------


def test_a_start_answers_before_any_event(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """Then the pid is told."""
    assert table.start(start_params("p", "echo $$")) == ProcessStartResult("p")
    assert sink.events == []
    sink.wait_closed("p")
    started = sink.of("p")[0]
    assert isinstance(started, ProcessStarted) and sink.output("p") == b"%d\n" % started.pid


def test_the_params_reach_the_child(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """Terminal, size, argv[0], directory, environment."""
    options = {"cwd": "/usr", "env": {"PATH": "/bin:/usr/bin", "A": "1"}, "tty": True, "size": Size(7, 70)}
    table.start(start_params("a", "stty size; pwd; echo $0 $A", arg0="name", **options))
    table.start(start_params("b", "stty size", tty=True))
    table.start(start_params("c", "echo $X$Y", env={"Y": "2"}, env_policy=EnvPolicy("core", set={"X": "1", "Y": "1"})))
    for process_id in "abc":
        sink.wait_closed(process_id)
    assert sink.output("a") == b"7 70\r\n/usr\r\nname 1\r\n"
    assert sink.output("b") == b"24 80\r\n"
    assert sink.output("c") == b"12\n"


def test_a_size_without_a_terminal_is_ignored(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """Pipes are no terminal."""
    table.start(start_params("p", "test -t 1 || echo pipe", size=Size(5, 5)))
    sink.wait_closed("p")
    assert sink.output("p", "stdout") == b"pipe\n"


def test_an_id_is_taken_while_its_process_can_be_read(
    table: ProcessTable, start_params: Params, sink: RecordingSink, held_starts: HeldStarts
) -> None:
    """While it starts, runs, and is retained."""
    starting = gevent.spawn(table.start, start_params("p", "read x", pipe_stdin=True))
    gevent.idle()
    expected = (-32600, "duplicateProcess", "process p already exists")
    assert fault_of(table.start, start_params("p", "true")) == expected
    held_starts.release()
    starting.get(timeout=10)
    assert fault_of(table.start, start_params("p", "true")) == expected
    write(table, b"\n")
    sink.wait_closed("p")
    gevent.idle()
    assert fault_of(table.start, start_params("p", "true")) == expected


def test_the_checks_of_a_start_come_in_order(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """Duplicate id, sandbox, argv, then the spawn."""
    table.start(start_params("p", "sleep 1000"))
    sandbox = {"mode": "hostDefault"}
    wrong = {"argv": [], "cwd": "relative", "env": {"": ""}}
    kinds = [
        fault_of(table.start, start_params("p", "x", sandbox=sandbox, **wrong))[1],
        fault_of(table.start, start_params("q", "x", sandbox=sandbox, **wrong))[1],
        fault_of(table.start, start_params("q", "x", **wrong))[1:],
        fault_of(table.start, start_params("q", "x", cwd="/no/such/directory"))[1],
    ]
    assert kinds == [
        "duplicateProcess",
        "sandboxUnsupported",
        ("invalidParams", "argv must not be empty"),
        "spawnNotFound",
    ]
    table.start(start_params("q", "true", sandbox={"mode": "none"}))
    sink.wait_closed("q")


@pytest.mark.parametrize(
    "changes", [{"argv": ["/no/such/program"]}, {"argv": []}, {"sandbox": {"mode": "hostDefault"}}]
)
def test_a_failed_start_frees_the_id(
    table: ProcessTable, start_params: Params, sink: RecordingSink, changes: dict[str, Any]
) -> None:
    """It can be used at once."""
    with pytest.raises(RpcError):
        table.start(start_params("p", "x", **changes))
    assert fault_of(read, table) == (-32600, "unknownProcess", "unknown process id p")
    table.start(start_params("p", "true"))
    sink.wait_closed("p")


def test_requests_wait_for_the_start(
    table: ProcessTable, start_params: Params, sink: RecordingSink, held_starts: HeldStarts
) -> None:
    """Writes keep their order, a read finds the process, terminate kills it."""
    starting = gevent.spawn(table.start, start_params("p", "cat", pipe_stdin=True))
    gevent.idle()
    writes = [gevent.spawn(write, table, data) for data in (b"a", b"b", b"c\n")]
    others = [gevent.spawn(read, table), gevent.spawn(read, table, wait_ms=10_000)]
    gevent.idle()
    assert not any(greenlet.ready() for greenlet in [starting, *writes, *others])
    held_starts.release()
    gevent.joinall([starting, *writes, *others], timeout=10, raise_error=True)
    sink.wait_output("p", b"abc\n")
    assert others[1].value.chunks


@pytest.mark.parametrize("pipe_stdin", [True, False])
def test_requests_learn_that_the_start_failed(
    table: ProcessTable, start_params: Params, held_starts: HeldStarts, pipe_stdin: bool
) -> None:
    """There is no such process, whatever they wanted of it, also with no input."""
    starting = gevent.spawn(fault_of, table.start, start_params("p", "/no/such/program", "x", pipe_stdin=pipe_stdin))
    gevent.idle()
    waiting = [
        gevent.spawn(fault_of, read, table),
        gevent.spawn(fault_of, table.write, ProcessWriteParams("p", "eA==")),
    ]
    gevent.idle()
    held_starts.release()
    gevent.joinall([starting, *waiting], timeout=10, raise_error=True)
    assert starting.value[1] == "spawnNotFound"
    assert [greenlet.value[1] for greenlet in waiting] == ["unknownProcess"] * 2


def test_terminate_waits_for_the_start(
    table: ProcessTable, start_params: Params, sink: RecordingSink, held_starts: HeldStarts
) -> None:
    """And then finds it running."""
    starting = gevent.spawn(table.start, start_params("p", "sleep", "1000"))
    gevent.idle()
    ending = gevent.spawn(terminate, table)
    gevent.idle()
    assert not ending.ready()
    held_starts.release()
    assert ending.get(timeout=10) is True and starting.get(timeout=10)
    assert sink.wait_exited("p").reason == "terminated"


# ---- read ----------------------------------------------------------------------------------------------------------


def test_a_read_of_a_closed_process_tells_everything(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """Chunks as in the events, and all of the state."""
    table.start(start_params("p", "echo boom >&2; exit 3"))
    closed = sink.wait_closed("p")
    result = read(table)
    assert [(c.seq, c.stream, c.chunk) for c in result.chunks] == [(1, "stderr", b"boom\n")]
    assert (result.exited, result.exit_code, result.closed, result.failure) == (True, 3, True, None)
    assert (result.next_seq, result.truncated, result.first_seq, result.dropped_bytes) == (2, False, 1, 0)
    rest = read(table, after_seq=1)
    assert (rest.chunks, rest.next_seq) == ([], closed.seq + 1)


def test_a_read_of_a_running_process_returns_at_once(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """Without waitMs, and with it when there is something new."""
    table.start(start_params("p", "echo x; sleep 1000"))
    sink.wait_output("p", b"x\n")
    assert [c.seq for c in read(table, wait_ms=60_000).chunks] == [1]
    assert (read(table, after_seq=1).chunks, read(table, after_seq=1).next_seq) == ([], 2)
    assert (read(table).exited, read(table).exit_code, read(table).closed) == (False, None, False)


def test_a_waiting_read_is_woken_by_output_exit_and_close(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """By whichever comes first that it has not seen."""
    table.start(start_params("p", "read x; echo out; read x; exit 3", pipe_stdin=True))
    reading = gevent.spawn(read, table, wait_ms=20_000)
    gevent.idle()
    assert not reading.ready()
    write(table, b"\n")
    assert [c.chunk for c in reading.get(timeout=10).chunks] == [b"out\n"]
    reading = gevent.spawn(read, table, after_seq=1, wait_ms=20_000)
    gevent.idle()
    assert not reading.ready()
    write(table, b"\n")
    assert reading.get(timeout=10).exited
    after_exit = sink.wait_exited("p").seq
    closed = read(table, after_seq=after_exit, wait_ms=20_000)
    assert closed.closed and closed.next_seq == after_exit + 2


def test_a_waiting_read_is_woken_by_the_close_alone(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """The exit was seen, a descendant held the streams."""
    table.start(start_params("p", "sleep 1000 &"))
    seq = sink.wait_exited("p").seq
    reading = gevent.spawn(read, table, after_seq=seq, wait_ms=20_000)
    gevent.idle()
    assert not reading.ready()
    terminate(table)
    assert reading.get(timeout=10).closed


def test_a_waiting_read_gives_up_when_its_time_is_over(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """With nothing new."""
    table.start(start_params("p", "sleep 1000"))
    result = read(table, wait_ms=10)
    assert (result.chunks, result.next_seq, result.exited) == ([], 1, False)


def test_a_read_of_a_closed_process_never_waits(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """Whatever it has seen, nothing will follow."""
    table.start(start_params("p", "true"))
    sink.wait_closed("p")
    with gevent.Timeout(10):
        assert read(table, after_seq=1000, wait_ms=3_600_000).closed


def test_a_waiting_read_holds_up_nobody(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """Neither another read of the process nor a write to it."""
    table.start(start_params("p", "cat", pipe_stdin=True))
    waiting = [gevent.spawn(read, table, after_seq=seq, wait_ms=20_000) for seq in (0, 0, 1)]
    gevent.idle()
    assert read(table).chunks == []
    write(table, b"x")
    gevent.joinall(waiting[:2], timeout=10, raise_error=True)
    assert [c.chunk for c in waiting[0].value.chunks] == [b"x"] == [c.chunk for c in waiting[1].value.chunks]
    assert not waiting[2].ready()
    terminate(table)
    waiting[2].get(timeout=10)


def test_only_so_many_reads_may_wait(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """One more is refused; one that need not wait is answered."""
    table.start(start_params("p", "sleep 1000"))
    table.start(start_params("q", "true"))
    sink.wait_closed("q")
    waiting = [gevent.spawn(read, table, wait_ms=60_000) for _ in range(MAX_WAITING_REQUESTS)]
    gevent.idle()
    code, kind, message = fault_of(read, table, wait_ms=60_000)
    assert (code, kind) == (-32600, "limitExceeded") and str(MAX_WAITING_REQUESTS) in message
    terminate(table)
    gevent.joinall(waiting, timeout=10, raise_error=True)
    assert all(greenlet.ready() for greenlet in waiting)
    assert read(table, wait_ms=60_000).exited


def test_a_read_that_need_not_wait_is_answered_however_many_wait(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """The bound is for those that wait."""
    table.start(start_params("p", "sleep 1000"))
    waiting = [gevent.spawn(read, table, wait_ms=60_000) for _ in range(MAX_WAITING_REQUESTS)]
    gevent.idle()
    try:
        assert read(table).chunks == []
    finally:
        terminate(table)
        gevent.joinall(waiting, timeout=10)


def test_old_output_is_dropped_and_that_is_told(
    workers: Workers, start_params: Params, sink: RecordingSink, supervisor: Supervisor
) -> None:
    """The newest is kept, whole chunks of it; who has seen what is gone misses nothing."""
    config = ExecServerConfig(retained_output_bytes=100_000)
    supervisor = Supervisor(config, workers)
    table = ProcessTable(config, supervisor, sink)
    table.start(start_params("p", "head -c 1000000 /dev/urandom"))
    sink.wait_closed("p")
    everything = sink.output("p")
    result = read(table)
    kept = b"".join(chunk.chunk for chunk in result.chunks)
    assert result.truncated and everything.endswith(kept) and 0 < len(kept) <= 100_000
    assert result.dropped_bytes == len(everything) - len(kept)
    assert result.first_seq == result.chunks[0].seq > 1
    assert not read(table, after_seq=result.first_seq - 1).truncated
    assert read(table, after_seq=result.first_seq - 2).truncated
    assert len(read(table, max_bytes=1).chunks) == 1
    supervisor.end("connectionClosed", 10)
    table.close()


def test_a_forgotten_process_tells_its_end(workers: Workers, start_params: Params, sink: RecordingSink) -> None:
    """Its id is free, and a new process with that id has no past."""
    config = ExecServerConfig(exited_retention_ms=0)
    supervisor = Supervisor(config, workers)
    table = ProcessTable(config, supervisor, sink)
    before = int(time.time() * 1000)
    table.start(start_params("p", "exit 3"))
    sink.wait_closed("p")
    gevent.idle()
    wait_forgotten(table)
    with pytest.raises(InvalidRequest) as caught:
        read(table)
    fault = caught.value
    assert (fault.kind, fault.message, fault.data["exitCode"]) == ("processForgotten", "unknown process id p", 3)
    assert before <= fault.data["exitedAtMs"] <= time.time() * 1000
    assert write(table, b"x") == "processForgotten"
    assert terminate(table) is False
    with pytest.raises(InternalError):
        table.start(start_params("p", "/no/such/program", "x"))
    assert fault_of(read, table)[1] == "processForgotten"
    table.start(start_params("p", "sleep 1000"))
    assert read(table).exited is False
    supervisor.end("connectionClosed", 10)
    table.close()


# ---- write ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("process_id", ["p", "never"])
def test_an_unknown_id_is_told(table: ProcessTable, process_id: str) -> None:
    """By read and write; terminate only says that nothing runs, and an ack is ignored."""
    assert fault_of(read, table, process_id) == (-32600, "unknownProcess", f"unknown process id {process_id}")
    assert write(table, b"x", process_id) == "unknownProcess"
    assert terminate(table, process_id) is False
    table.ack(ProcessAckParams(process_id, 1))


def test_writes_go_out_in_order(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """Whatever their size."""
    table.start(start_params("p", "cat", pipe_stdin=True))
    pieces = [bytes([number]) * (1 if number % 2 else 300_000) for number in range(10)]
    writes = [gevent.spawn(write, table, piece) for piece in pieces]
    gevent.joinall(writes, timeout=20, raise_error=True)
    assert [greenlet.value for greenlet in writes] == [None] * 10
    sink.wait_until(lambda: len(sink.output("p")) == sum(map(len, pieces)))
    assert sink.output("p") == b"".join(pieces)


@pytest.mark.parametrize("state", ["no input", "exited", "closed"])
def test_without_an_input_a_write_is_refused(
    table: ProcessTable, start_params: Params, sink: RecordingSink, state: str
) -> None:
    """Before the bytes are looked at."""
    script = {"no input": "sleep 1000", "exited": "sleep 1000 &", "closed": "true"}[state]
    table.start(start_params("p", script, pipe_stdin=state != "no input"))
    if state != "no input":
        sink.wait_exited("p")
    if state == "closed":
        sink.wait_closed("p")
    expected = (-32600, "stdinClosed", "stdin is closed for process p")
    assert fault_of(table.write, ProcessWriteParams("p", "eA==")) == expected
    assert fault_of(table.write, ProcessWriteParams("p", "not base64")) == expected


def test_a_terminal_that_ended_has_no_input(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """One truth for one state."""
    table.start(start_params("p", "true", tty=True))
    sink.wait_closed("p")
    assert write(table, b"x") == "stdinClosed"


def test_what_is_no_base64_is_refused_and_the_input_stays(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """It names the field."""
    table.start(start_params("p", "cat", pipe_stdin=True))
    with pytest.raises(InvalidParams, match="^params.chunk"):
        table.write(ProcessWriteParams("p", "?"))
    assert write(table, b"x") is None
    sink.wait_output("p", b"x")


def test_a_child_that_does_not_read_delays_its_own_writes_only(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """Up to a bound; they are answered when the process ends."""
    table.start(start_params("p", "sleep 1000", pipe_stdin=True))
    table.start(start_params("q", "cat", pipe_stdin=True))
    writes = [gevent.spawn(write, table, bytes(MAX_WAITING_BYTES - 1)) for _ in range(2)]
    gevent.idle()
    assert not any(greenlet.ready() for greenlet in writes)
    assert write(table, b"x") == "limitExceeded"
    assert write(table, b"x", "q") is None
    sink.wait_output("q", b"x")
    assert read(table).next_seq == 1
    terminate(table)
    gevent.joinall(writes, timeout=10, raise_error=True)
    assert [greenlet.value for greenlet in writes] == ["stdinClosed"] * 2


# ---- terminate and ack ---------------------------------------------------------------------------------------------


def test_terminate_tells_whether_it_was_running(
    table: ProcessTable, start_params: Params, sink: RecordingSink, died: Callable[[int], None]
) -> None:
    """True, then false: exited but held, and closed."""
    table.start(start_params("p", "sleep 1000"))
    assert terminate(table) is True
    table.start(start_params("q", "sleep 1000 & echo $!"))
    sink.wait_exited("q")
    assert terminate(table, "q") is False
    died(int(sink.output("q")))
    for process_id in "pq":
        sink.wait_closed(process_id)
        assert terminate(table, process_id) is False


def test_a_daemon_that_gave_up_the_streams_is_not_signalled(
    table: ProcessTable, start_params: Params, sink: RecordingSink, daemon: Daemon
) -> None:
    """Its process is closed."""
    table.start(start_params("p", daemon.script))
    sink.wait_closed("p")
    assert terminate(table) is False
    assert daemon.ask() == b"alive\n"


def test_an_ack_opens_the_window(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """Of its own process."""
    for process_id in "pq":
        table.start(start_params(process_id, "yes", window_bytes=1000))
        sink.wait_until(lambda p=process_id: len(sink.output(p)) == 1000)
    table.ack(ProcessAckParams("p", sink.of("p")[-1].seq))
    sink.wait_until(lambda: len(sink.output("p")) == 2000)
    assert len(sink.output("q")) == 1000


def test_an_ack_for_a_process_that_is_gone_is_ignored(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """Closed or never there."""
    table.start(start_params("p", "echo x", window_bytes=1000))
    sink.wait_closed("p")
    table.ack(ProcessAckParams("p", 1))
    table.ack(ProcessAckParams("q", 1))


def test_10_times_20_starts_and_ends_at_once_leave_nothing(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """Whichever comes first, there is no error, and every process is told to its end."""
    for turn in range(10):
        names = [f"{turn}.{number}" for number in range(20)]
        starts = [gevent.spawn(table.start, start_params(name, "true", "x")) for name in names]
        gevent.sleep(0)
        ends = [gevent.spawn(terminate, table, name) for name in names]
        gevent.joinall(starts + ends, timeout=20, raise_error=True)
        for name in names:
            sink.wait_closed(name)


# ---- signal, size, end of input ------------------------------------------------------------------------------------


def calls(table: ProcessTable, process_id: str) -> dict[str, Callable[[], object]]:
    """A call of each method that must know the process."""
    return {
        "signal": lambda: table.signal(ProcessSignalParams(process_id, "terminate")),
        "resize": lambda: table.resize(ProcessResizeParams(process_id, Size())),
        "close_stdin": lambda: table.close_stdin(ProcessParams(process_id)),
        "wait": lambda: table.wait(ProcessWaitParams(process_id)),
        "snapshot": lambda: table.snapshot(ProcessParams(process_id)),
    }


def test_an_id_that_never_was_is_told_by_all(table: ProcessTable) -> None:
    """In the same words."""
    for call in calls(table, "p").values():
        assert fault_of(call) == (-32600, "unknownProcess", "unknown process id p")


def test_calls_during_a_start_that_fails_find_nobody(
    table: ProcessTable, start_params: Params, held_starts: HeldStarts
) -> None:
    """They waited for it."""
    starting = gevent.spawn(fault_of, table.start, start_params("p", "/no/such", "x", tty=True))
    gevent.idle()
    waiting = [gevent.spawn(fault_of, call) for call in calls(table, "p").values()]
    gevent.idle()
    assert not any(call.ready() for call in waiting)
    held_starts.release()
    assert starting.get(timeout=10)[1] == "spawnNotFound"
    gevent.joinall(waiting, timeout=10, raise_error=True)
    assert {call.value for call in waiting} == {(-32600, "unknownProcess", "unknown process id p")}


def test_calls_during_a_start_keep_their_order(
    table: ProcessTable, start_params: Params, sink: RecordingSink, held_starts: HeldStarts
) -> None:
    """What is written behind the end of the input is refused, though nothing has begun."""
    starting = gevent.spawn(table.start, start_params("p", "cat", pipe_stdin=True))
    gevent.idle()
    early = gevent.spawn(write, table, b"early")
    gevent.idle()
    closing = gevent.spawn(table.close_stdin, ProcessParams("p"))
    gevent.idle()
    assert write(table, b"late") == "stdinClosed"
    held_starts.release()
    gevent.joinall([starting, early, closing], timeout=10, raise_error=True)
    assert early.value is None and sink.wait_exited("p").exit_code == 0
    assert sink.output("p") == b"early"


def test_an_exited_process_takes_neither_signal_nor_size(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """The end of its input is harmless; no signal of that name is a fault of the params."""
    table.start(start_params("p", "true", tty=True))
    sink.wait_closed("p")
    for method in ("signal", "resize"):
        assert fault_of(calls(table, "p")[method]) == (-32600, "processExited", "process p has exited")
    assert table.close_stdin(ProcessParams("p")) == Empty()
    assert fault_of(table.signal, ProcessSignalParams("p", "SIGNONE"))[:2] == (-32602, "invalidParams")


@pytest.mark.parametrize(
    "word, name",
    [
        *[("interrupt", "SIGINT"), ("terminate", "SIGTERM"), ("kill", "SIGKILL"), ("hangup", "SIGHUP")],
        *[("quit", "SIGQUIT"), ("user1", "SIGUSR1"), ("user2", "SIGUSR2"), ("SIGALRM", "SIGALRM")],
    ],
)
def test_every_word_is_its_signal(
    table: ProcessTable, start_params: Params, sink: RecordingSink, word: str, name: str
) -> None:
    """Also a name of the system's."""
    table.start(start_params("p", "sleep", "1000"))
    assert table.signal(ProcessSignalParams("p", word)) == Empty()
    exited = sink.wait_exited("p")
    assert (exited.signal, exited.reason) == (name, "signaled")


def test_stop_and_continue(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """A stopped process answers when it goes on."""
    table.start(start_params("p", "echo ready; read line; echo $line", pipe_stdin=True))
    pid = sink.wait_started("p").pid
    sink.wait_output("p", b"ready\n")  # a shell can't be stopped while it waits for a child that vfork made
    table.signal(ProcessSignalParams("p", "stop"))
    with gevent.Timeout(10):
        while (stat := read_stat(pid)) is None or stat.state != b"T":
            gevent.sleep(0.001)  # nothing tells of it
    write(table, b"x\n")
    gevent.idle()
    assert sink.output("p") == b"ready\n"
    table.signal(ProcessSignalParams("p", "continue"))
    sink.wait_output("p", b"ready\nx\n")


# ---- wait, snapshot, list ------------------------------------------------------------------------------------------


def test_a_wait_ends_with_the_exit(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """It does not wait for the close; one that comes later is answered at once."""
    table.start(start_params("p", "sleep 1000 & read x; exit 3", pipe_stdin=True))
    waiting = gevent.spawn(table.wait, ProcessWaitParams("p"))
    gevent.idle()
    assert not waiting.ready()
    write(table, b"\n")
    exited = ProcessWaitResult(exited=True, exit_code=3, signal=None, reason="exited", closed=False)
    assert waiting.get(timeout=10) == exited == table.wait(ProcessWaitParams("p"))
    terminate(table)
    sink.wait_closed("p")
    assert table.wait(ProcessWaitParams("p")).closed


def test_a_wait_gives_up_when_its_time_is_over(table: ProcessTable, start_params: Params) -> None:
    """It tells what is known."""
    table.start(start_params("p", "sleep 1000"))
    for wait_ms in (0, 20):
        running = ProcessWaitResult(exited=False, exit_code=None, signal=None, reason=None, closed=False)
        assert table.wait(ProcessWaitParams("p", wait_ms)) == running


def test_waits_and_reads_share_a_bound(table: ProcessTable, start_params: Params) -> None:
    """Of what waits in a connection."""
    table.start(start_params("p", "sleep 1000"))
    waiting = [gevent.spawn(table.wait, ProcessWaitParams("p")) for _ in range(MAX_WAITING_REQUESTS)]
    gevent.idle()
    try:
        assert fault_of(table.wait, ProcessWaitParams("p"))[1] == "limitExceeded"
        assert fault_of(read, table, wait_ms=60_000)[1] == "limitExceeded"
    finally:
        terminate(table)
        gevent.joinall(waiting, timeout=10)


def test_a_snapshot_shows_each_stream(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """What is retained, of a running process and of a closed one."""
    table.start(start_params("p", "echo out; echo err >&2; read x; echo more; exit 3", pipe_stdin=True))
    table.start(start_params("q", "echo out; echo err >&2", tty=True))
    sink.wait_output("p", b"err")
    sink.wait_output("p", b"out")
    running = table.snapshot(ProcessParams("p"))
    assert (running.stdout, running.stderr, running.terminal) == (b"out\n", b"err\n", b"")
    assert (running.running, running.exit_code, running.truncated, running.dropped_bytes) == (True, None, False, 0)
    write(table, b"\n")
    sink.wait_closed("p")
    sink.wait_closed("q")
    closed = table.snapshot(ProcessParams("p"))
    assert (closed.stdout, closed.running, closed.exit_code) == (b"out\nmore\n", False, 3)
    on_terminal = table.snapshot(ProcessParams("q"))
    assert (on_terminal.stdout, on_terminal.stderr, on_terminal.terminal) == (b"", b"", b"out\r\nerr\r\n")


def test_a_snapshot_tells_what_is_gone(workers: Workers, start_params: Params, sink: RecordingSink) -> None:
    """The newest is there."""
    config = ExecServerConfig(retained_output_bytes=100_000)
    supervisor = Supervisor(config, workers)
    table = ProcessTable(config, supervisor, sink)
    table.start(start_params("p", "seq 1 100000"))
    sink.wait_closed("p")
    shown = table.snapshot(ProcessParams("p"))
    assert shown.truncated and shown.stdout.endswith(b"99999\n100000\n")
    assert shown.dropped_bytes + len(shown.stdout) == len(sink.output("p"))
    supervisor.end("connectionClosed", 10)
    table.close()


def test_the_list_shows_all_that_can_be_read(table: ProcessTable, start_params: Params, sink: RecordingSink) -> None:
    """Oldest first, with their state."""
    assert table.list(Empty()).processes == []
    before = int(time.time() * 1000)
    table.start(start_params("old", "exit 3"))
    sink.wait_closed("old")
    gevent.sleep(0.002)  # the times of starts are in milliseconds
    table.start(start_params("held", "sleep 1000 & echo", cwd="/usr"))
    sink.wait_exited("held")
    gevent.sleep(0.002)
    table.start(start_params("new", "cat", "-", tty=True, arg0="feline"))
    old, held, new = table.list(Empty()).processes
    assert [p.process_id for p in (old, held, new)] == ["old", "held", "new"]
    assert (old.running, old.exit_code, old.closed) == (False, 3, True)
    assert (held.running, held.exit_code, held.closed, held.cwd) == (False, 0, False, "/usr")
    assert (new.running, new.exit_code, new.closed) == (True, None, False)
    assert (new.argv, new.cwd, new.tty, old.tty) == (["feline", "-"], "/", True, False)
    assert [p.pid for p in (old, held, new)] == [sink.wait_started(name).pid for name in ("old", "held", "new")]
    assert before <= old.started_at_ms < held.started_at_ms < new.started_at_ms <= time.time() * 1000


def test_what_is_starting_is_not_listed(
    table: ProcessTable, start_params: Params, held_starts: HeldStarts
) -> None:
    """It has no pid yet."""
    starting = gevent.spawn(table.start, start_params("p", "true"))
    gevent.idle()
    assert table.list(Empty()).processes == []
    held_starts.release()
    starting.get(timeout=10)


# ---- time limits ---------------------------------------------------------------------------------------------------


def test_a_graceful_terminate_is_answered_at_once(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """The program may take its time; force, the usual mode, does not ask."""
    table.start(start_params("p", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"))
    sink.wait_output("p", b"ready")
    asked = table.terminate(ProcessTerminateParams("p", {"graceful": {"timeoutMs": 60_000}}))
    assert asked.running is True and not table.wait(ProcessWaitParams("p", 0)).exited
    assert table.wait(ProcessWaitParams("p")).exit_code == 5
    table.start(start_params("q", "trap '' TERM; sleep 1000"))
    table.terminate(ProcessTerminateParams("q", "force"))
    assert table.wait(ProcessWaitParams("q")).signal == "SIGKILL"


def test_the_time_limits_of_a_start_are_in_milliseconds(
    table: ProcessTable, start_params: Params, sink: RecordingSink
) -> None:
    """Until it is ended, and until its streams are given up."""
    table.start(start_params("p", "sleep", "1000", timeout_ms=50))
    assert table.wait(ProcessWaitParams("p")).reason == "timeout"
    table.start(start_params("q", "sleep 2 &", drain_timeout_ms=50))
    assert sink.wait_closed("q").output_complete is False
