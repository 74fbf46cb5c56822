"""The owner of a connection's processes: none outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import gevent
import pytest

from execsrv.config import ExecServerConfig
from execsrv.errors import InternalError, InvalidRequest
from execsrv.server.processes.process import Process
from execsrv.server.processes.supervisor import Supervisor

if TYPE_CHECKING:
    from conftest import RecordingSink

    from execsrv.server.processes.command import Command
    from execsrv.server.workers import Workers

    Start = Callable[..., Process]
    Left = Callable[[], None]

ENOUGH_S = 10.0


@pytest.fixture
def start(supervisor: Supervisor, sink: RecordingSink, command: Callable[..., Command]) -> Start:
    """Starts a process and waits until it has written a line."""

    def start(process_id: str, *argv: str, **options: object) -> Process:
        process = supervisor.new_process(process_id, command(*argv, **options), sink)
        supervisor.start(process)
        sink.wait_output(process_id, b"\n")
        return process

    return start


def test_a_process_is_watched_from_its_start(
    supervisor: Supervisor, sink: RecordingSink, command: Callable[..., Command], nothing_left: Left
) -> None:
    """Its owner learns when nothing of it follows."""
    log: list[str] = []
    process = supervisor.new_process("p", command("exit 3"), sink)
    supervisor.start(process, lambda: log.append("closed"))
    assert process.started and sink.events == []
    sink.wait_until(lambda: log)
    assert process.closed and process.exit_code == 3
    nothing_left()


def test_a_failed_start_raises_and_leaves_nothing(
    supervisor: Supervisor, sink: RecordingSink, command: Callable[..., Command]
) -> None:
    """Who waits for the process learns that there is none."""
    process = supervisor.new_process("p", command("/no/such/program", "x"), sink)
    waiting = gevent.spawn(process.wait_until_started)
    gevent.idle()
    with pytest.raises(InternalError, match="/no/such/program"):
        supervisor.start(process)
    waiting.join(timeout=10)
    assert isinstance(waiting.exception, InvalidRequest) and waiting.exception.kind == "unknownProcess"
    assert sink.events == [] and not process.started


def test_the_number_of_processes_is_bounded(
    workers: Workers, sink: RecordingSink, command: Callable[..., Command], nothing_left: Left
) -> None:
    """Those that are starting count, those that are closed or failed do not."""
    supervisor = Supervisor(ExecServerConfig(max_processes_per_connection=2), workers)
    first = supervisor.new_process("a", command("read x", pipe_stdin=True), sink)
    failing = supervisor.new_process("b", command("/no/such/program", "x"), sink)
    with pytest.raises(InvalidRequest, match="2") as caught:
        supervisor.new_process("c", command("true"), sink)
    assert caught.value.kind == "limitExceeded"
    with pytest.raises(InternalError):
        supervisor.start(failing)
    supervisor.start(first)
    supervisor.start(supervisor.new_process("c", command("true"), sink))
    sink.wait_closed("c")
    gevent.idle()
    supervisor.start(supervisor.new_process("d", command("true"), sink))
    supervisor.end("connectionClosed", ENOUGH_S)


def test_the_end_kills_and_reaps_all(
    supervisor: Supervisor, start: Start, sink: RecordingSink, died: Callable[[int], None], nothing_left: Left
) -> None:
    """Children of theirs too; each process's exit and close are told."""
    start("a", "sleep 1000 & echo $!; sleep 1000")
    start("b", "echo; exec sleep 1000")
    start("c", "sleep 1000 & echo $!")
    sink.wait_exited("c")
    supervisor.end("connectionClosed", ENOUGH_S)
    for process_id in "abc":
        assert sink.wait_closed(process_id).output_complete
    for process_id in "ac":
        died(int(sink.output(process_id)))
    assert [sink.wait_exited(name).reason for name in "abc"] == ["connectionClosed", "connectionClosed", "exited"]
    nothing_left()


@pytest.mark.parametrize("reason", ["connectionClosed", "shutdown"])
def test_a_process_that_is_still_starting_is_ended_too(
    supervisor: Supervisor, sink: RecordingSink, command: Callable[..., Command], nothing_left: Left, reason: str
) -> None:
    """The end waits for its start."""
    starts = []
    for number in range(10):
        process = supervisor.new_process(f"p{number}", command("sleep", "1000"), sink)
        starts.append(gevent.spawn(supervisor.start, process))
    gevent.sleep(0)
    supervisor.end(reason, ENOUGH_S)  # type: ignore[arg-type]
    gevent.joinall(starts, timeout=10, raise_error=True)
    assert {sink.wait_exited(f"p{number}").reason for number in range(10)} == {reason}
    nothing_left()


def test_the_first_reason_counts(supervisor: Supervisor, start: Start, sink: RecordingSink) -> None:
    """Ending twice is harmless."""
    process = start("p", "echo; exec sleep 1000")
    process.terminate()
    supervisor.end("shutdown", ENOUGH_S)
    supervisor.end("connectionClosed", ENOUGH_S)
    assert sink.wait_exited("p").reason == "terminated"


def test_the_first_end_gives_its_reason_to_those_still_starting(
    supervisor: Supervisor, sink: RecordingSink, command: Callable[..., Command]
) -> None:
    """Although a second one comes before they have started."""
    process = supervisor.new_process("p", command("sleep", "1000"), sink)
    starting = gevent.spawn(supervisor.start, process)
    gevent.sleep(0)
    ends = [gevent.spawn(supervisor.end, reason, ENOUGH_S) for reason in ("shutdown", "connectionClosed")]
    gevent.joinall([starting, *ends], timeout=20, raise_error=True)
    assert sink.wait_exited("p").reason == "shutdown"


def test_one_that_escaped_does_not_hold_up_the_end(
    supervisor: Supervisor, start: Start, sink: RecordingSink, nothing_left: Left
) -> None:
    """Its streams are given up, and the close says so."""
    start("p", "(setsid sh -c 'echo $$; exec sleep 1000' &); echo orphaned >&2; exec sleep 1000")
    sink.wait_until(lambda: sink.output("p", "stderr") and sink.output("p", "stdout"))
    supervisor.end("connectionClosed", ENOUGH_S)
    assert sink.wait_closed("p").output_complete is False
    nothing_left()
    os.kill(int(sink.output("p", "stdout")), signal.SIGKILL)


def test_the_end_is_bounded_in_time(supervisor: Supervisor, start: Start, sink: RecordingSink) -> None:
    """A sink that takes nothing can't stop it."""
    start("p", "echo; exec yes")
    sink.set_full(True)
    sink.wait_until(lambda: sink.turns_waiting)
    supervisor.end("connectionClosed", 0.6)
    sink.set_full(False)
    sink.wait_closed("p")


def test_a_shutdown_may_ask_first(
    workers: Workers, sink: RecordingSink, command: Callable[..., Command], nothing_left: Left
) -> None:
    """Those that obey SIGTERM end in their own way; the others are killed after the grace."""
    supervisor = Supervisor(ExecServerConfig(shutdown_grace_ms=300), workers)
    scripts = {
        "a": "trap 'echo bye; exit 5' TERM; echo; while :; do sleep 0.01; done",
        "b": "trap '' TERM; echo; exec sleep 1000",
    }
    for process_id, script in scripts.items():
        supervisor.start(supervisor.new_process(process_id, command(script), sink))
        sink.wait_output(process_id, b"\n")
    supervisor.end("shutdown", ENOUGH_S)
    a, b = sink.wait_exited("a"), sink.wait_exited("b")
    assert (a.exit_code, a.reason, sink.output("a", "stdout")) == (5, "shutdown", b"\nbye\n")
    assert (b.signal, b.reason) == ("SIGKILL", "shutdown")
    nothing_left()
