"""The ``command/exec`` methods."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gevent
import pytest

from execsrv.errors import RpcError
from execsrv.protocol.events import CommandExited, CommandOutputDelta
from execsrv.protocol.first_cut import CommandExecParams, CommandExecResult, CommandWriteResult
from execsrv.protocol.processes import (
    ProcessStartParams,
    ProcessTerminateParams,
    ProcessTerminateResult,
    ProcessWriteParams,
)
from execsrv.server.processes.first_cut import FirstCut
from execsrv.server.processes.supervisor import Supervisor
from execsrv.server.processes.table import ProcessTable

if TYPE_CHECKING:
    from conftest import RecordingSink

ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture
def first_cut(supervisor: Supervisor, sink: RecordingSink) -> Iterator[FirstCut]:
    """The methods."""
    yield FirstCut(supervisor, sink)


@pytest.fixture
def execute(first_cut: FirstCut) -> Callable[..., CommandExecResult]:
    """Runs a shell script."""

    def execute(process_id: str, script: str, **options: Any) -> CommandExecResult:
        fields = {"argv": ["/bin/sh", "-c", script], "cwd": "/", "env": ENV, "tty": False, **options}
        return first_cut.exec(CommandExecParams(process_id, **fields))

    return execute


def write(first_cut: FirstCut, data: bytes, process_id: str = "p") -> Any:
    """Write to a process; the kind of the fault, or the result."""
    try:
        return first_cut.write(ProcessWriteParams(process_id, base64.b64encode(data).decode()))
    except RpcError as fault:
        return fault.kind


def terminate(first_cut: FirstCut, process_id: str = "p") -> bool:
    """Terminate a process; was it running?"""
    result = first_cut.terminate(ProcessTerminateParams(process_id))
    assert isinstance(result, ProcessTerminateResult)
    return result.running


def exits(sink: RecordingSink, process_id: str = "p") -> list[int]:
    """The exit codes told so far."""
    return [event.exit_code for event in sink.of(process_id) if isinstance(event, CommandExited)]


def output(sink: RecordingSink, process_id: str = "p", stream: str = "stdout") -> bytes:
    """What was told of a stream so far."""
    deltas = [event for event in sink.of(process_id) if isinstance(event, CommandOutputDelta)]
    return b"".join(delta.chunk for delta in deltas if delta.stream == stream)


def test_the_answer_holds_the_pid(execute: Callable[..., CommandExecResult], sink: RecordingSink) -> None:
    """And everything else that the first cut foresaw."""
    result = execute("p", "echo $$; echo err >&2; exit 3")
    assert result == CommandExecResult("p", result.pid, True, None, None, None)
    sink.wait_until(lambda: exits(sink))
    assert output(sink) == b"%d\n" % result.pid and output(sink, stream="stderr") == b"err\n"
    assert sink.of("p")[-1] == CommandExited("p", 3)
    assert {type(event) for event in sink.of("p")} == {CommandOutputDelta, CommandExited}


def test_a_terminals_stream_is_stdout(execute: Callable[..., CommandExecResult], sink: RecordingSink) -> None:
    """Of the usual size."""
    execute("p", "stty size", tty=True)
    sink.wait_until(lambda: exits(sink))
    assert output(sink) == b"24 80\r\n"


def test_a_cap_has_no_effect_and_arg0_has(execute: Callable[..., CommandExecResult], sink: RecordingSink) -> None:
    """All output is told."""
    execute("p", "echo $0; seq 1 1000", output_bytes_cap=1, arg0="name")
    sink.wait_until(lambda: exits(sink))
    assert output(sink).startswith(b"name\n1\n") and output(sink).endswith(b"\n1000\n")


@pytest.mark.parametrize("process_id", ["p", "other"])
def test_the_ids_are_a_space_of_their_own(
    execute: Callable[..., CommandExecResult],
    table: ProcessTable,
    start_params: Callable[..., ProcessStartParams],
    sink: RecordingSink,
    process_id: str,
) -> None:
    """The other dialect may use the same word."""
    execute("p", "sleep 1000")
    table.start(start_params(process_id, "echo v0"))
    sink.wait_closed(process_id)
    assert exits(sink) == []


def test_an_id_is_taken_while_its_process_runs(
    execute: Callable[..., CommandExecResult], sink: RecordingSink
) -> None:
    """And free once its exit was told, also while descendants hold the streams."""
    execute("p", "read x; exit 1", tty=True)
    with pytest.raises(RpcError, match="^process p already exists$"):
        execute("p", "true")
    execute("q", "sleep 1000 & exit 2")
    sink.wait_until(lambda: exits(sink, "q"))
    execute("q", "exit 3")
    sink.wait_until(lambda: exits(sink, "q") == [2, 3])


def test_after_its_exit_nothing_of_it_is_told(
    execute: Callable[..., CommandExecResult], sink: RecordingSink, tmp_path: Path
) -> None:
    """What descendants still write goes nowhere, and does not stop them."""
    for name in ("go", "done"):
        os.mkfifo(tmp_path / name)
    cwd = str(tmp_path)
    execute("p", "(read line < go; seq 1 100000; echo > done) & echo hi", cwd=cwd)
    sink.wait_until(lambda: exits(sink))
    told = len(sink.of("p"))
    execute("q", "echo > go; read line < done", cwd=cwd)
    sink.wait_until(lambda: exits(sink, "q"))
    assert len(sink.of("p")) == told and output(sink) == b"hi\n"


def test_writes_reach_a_terminal(
    execute: Callable[..., CommandExecResult], first_cut: FirstCut, sink: RecordingSink
) -> None:
    """Pipes have no input in this dialect."""
    execute("p", "stty -echo; echo ready; read x; echo got $x; exit 0", tty=True)
    sink.wait_until(lambda: b"ready" in output(sink))
    assert write(first_cut, b"hello\n") == CommandWriteResult(True)
    sink.wait_until(lambda: exits(sink))
    assert output(sink) == b"ready\r\ngot hello\r\n"
    execute("q", "sleep 1000")
    assert write(first_cut, b"x", "q") == "stdinClosed"


def test_a_write_needs_a_process_and_base64(
    execute: Callable[..., CommandExecResult], first_cut: FirstCut, sink: RecordingSink
) -> None:
    """Unknown, exited and terminated ids are all unknown."""
    assert write(first_cut, b"x") == "unknownProcess"
    execute("p", "cat", tty=True)
    with pytest.raises(RpcError, match="params.chunk"):
        first_cut.write(ProcessWriteParams("p", "?"))
    terminate(first_cut)
    assert write(first_cut, b"x") == "unknownProcess"
    sink.wait_until(lambda: exits(sink))
    assert write(first_cut, b"x") == "unknownProcess"


def test_terminate_frees_the_id_at_once(
    execute: Callable[..., CommandExecResult], first_cut: FirstCut, sink: RecordingSink, died: Callable[[int], None]
) -> None:
    """The exit is told before the answer to a start that uses the id again."""
    execute("p", "sleep 1000 & echo $!; wait")
    sink.wait_until(lambda: output(sink))
    assert terminate(first_cut) is True
    assert terminate(first_cut) is False
    died(int(output(sink)))
    execute("p", "exit 5")
    assert exits(sink) == [137]
    sink.wait_until(lambda: exits(sink) == [137, 5])


def test_an_id_that_waits_for_its_former_process_is_taken(
    execute: Callable[..., CommandExecResult], first_cut: FirstCut, sink: RecordingSink
) -> None:
    """It can be terminated too, and then a third one may wait."""
    execute("p", "echo; exec sleep 1000")
    sink.set_full(True)  # the first exit can't be told yet
    sink.wait_until(lambda: output(sink) or sink.turns_waiting)
    assert terminate(first_cut) is True
    second = gevent.spawn(execute, "p", "exec sleep 1000")
    gevent.idle()
    execute("q", "true")  # by now the second would have started
    assert not second.ready()
    with pytest.raises(RpcError, match="^process p already exists$"):
        execute("p", "true")
    ending = gevent.spawn(terminate, first_cut)
    sink.set_full(False)
    assert second.get(timeout=10) and ending.get(timeout=10) is True
    execute("p", "exit 5")
    sink.wait_until(lambda: exits(sink) == [137, 137, 5])


def test_terminate_of_an_unknown_id_does_nothing(first_cut: FirstCut) -> None:
    """Nothing runs."""
    assert terminate(first_cut, "never") is False


@pytest.mark.parametrize(
    "changes, code, kind",
    [
        ({"argv": []}, -32602, "invalidParams"),
        ({"cwd": "relative"}, -32602, "invalidParams"),
        ({"argv": ["/no/such/program"]}, -32603, "spawnNotFound"),
        ({"cwd": "/no/such/directory"}, -32603, "spawnNotFound"),
    ],
)
def test_a_failed_start_frees_the_id(
    execute: Callable[..., CommandExecResult], sink: RecordingSink, changes: dict[str, Any], code: int, kind: str
) -> None:
    """With the same errors as in the other dialect, and no notification."""
    with pytest.raises(RpcError) as caught:
        execute("p", "true", **changes)
    assert (caught.value.code, caught.value.kind) == (code, kind)
    assert sink.events == []
    execute("p", "exit 4")
    sink.wait_until(lambda: exits(sink) == [4])
