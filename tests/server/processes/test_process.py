"""The life of one process: order, completeness, window, end."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gevent
import pytest

from execsrv.errors import InvalidRequest
from execsrv.protocol.common import OUTPUT_CHUNK_BYTES
from execsrv.protocol.events import ProcessClosed, ProcessExited, ProcessOutput, ProcessStarted
from execsrv.protocol.processes import RetainedChunk, Size

if TYPE_CHECKING:
    from conftest import Daemon, RecordingSink

    from execsrv.server.processes.process import Process

    Live = Callable[..., Process]
    Died = Callable[[int], None]

MIB = 1 << 20

#: Leaves its group and its session behind and keeps the streams: nothing that kills sessions finds it.
ESCAPED = "setsid sh -c 'echo $$; exec sleep 1000' &"


def check_order(events: list[Any]) -> None:
    """Started comes first, then output, one exit, more output, one close; seqs count up by one from 1."""
    kinds = [type(event) for event in events]
    assert kinds[0] is ProcessStarted and kinds[-1] is ProcessClosed
    assert kinds.count(ProcessStarted) == kinds.count(ProcessExited) == kinds.count(ProcessClosed) == 1
    assert [event.seq for event in events[1:]] == list(range(1, len(events)))
    assert all(0 < len(event.chunk) <= OUTPUT_CHUNK_BYTES for event in events if isinstance(event, ProcessOutput))


def before_exit(events: list[Any]) -> bytes:
    """The output that was reported before the exit."""
    end = [type(event) for event in events].index(ProcessExited)
    return b"".join(event.chunk for event in events[:end] if isinstance(event, ProcessOutput))


# ---- order and completeness ----------------------------------------------------------------------------------------


def test_150_short_processes_tell_everything_before_their_exit(live: Live, sink: RecordingSink) -> None:
    """Every third one on a terminal; the close is last, each time."""
    for number in range(150):
        script = f"seq {number} {number + 500}; exit {number % 7}"
        live(script, process_id=f"p{number}", size=None if number % 3 else Size())
    for number in range(150):
        assert sink.wait_closed(f"p{number}").output_complete
        events = sink.of(f"p{number}")
        check_order(events)
        expected = "".join(f"{line}\n" for line in range(number, number + 501)).encode()
        assert before_exit(events) == (expected if number % 3 else expected.replace(b"\n", b"\r\n"))
        assert sink.wait_exited(f"p{number}").exit_code == number % 7


def test_much_output_of_a_terminal_comes_before_the_exit(live: Live, sink: RecordingSink) -> None:
    """Also what is left in the terminal when the process has ended."""
    live("seq 1 200000; exit 7", size=Size())
    sink.wait_closed("p")
    check_order(sink.of("p"))
    assert before_exit(sink.of("p")) == "".join(f"{line}\r\n" for line in range(1, 200_001)).encode()
    assert sink.wait_exited("p").exit_code == 7


@pytest.mark.parametrize("slow", [False, True])
def test_64_mib_of_random_bytes_arrive_unchanged(live: Live, sink: RecordingSink, slow: bool) -> None:
    """With stderr written in between, and also when turns are hard to get."""
    script = (
        "import hashlib, os, sys\n"
        "h = hashlib.sha256()\n"
        "for n in range(64):\n"
        "    data = os.urandom(1 << 20)\n"
        "    h.update(data)\n"
        "    sys.stdout.buffer.write(data)\n"
        "    sys.stdout.buffer.flush()\n"
        "    os.write(2, b'%d\\n' % n)\n"
        "os.write(2, h.hexdigest().encode())\n"
    )
    live("python3", "-c", script)
    if slow:
        rationer = gevent.spawn(ration, sink)
    sink.wait_closed("p")
    if slow:
        rationer.kill()
    check_order(sink.of("p"))
    told = hashlib.sha256(sink.output("p", "stdout")).hexdigest()
    assert sink.output("p", "stderr") == b"".join(b"%d\n" % n for n in range(64)) + told.encode()


def ration(sink: RecordingSink) -> None:
    """Take the turns away again and again, for as long as the hub has other work."""
    while True:
        sink.set_full(True)
        gevent.idle()
        sink.set_full(False)
        gevent.sleep(0.005)


def test_streams_that_wait_for_a_turn_do_not_swap(live: Live, sink: RecordingSink) -> None:
    """A seq is taken within the turn, so that the order of events is the order of seqs."""
    sink.set_full(True)
    live("echo out; echo err >&2; sleep 1000", process_id="p")
    live("echo out; echo err >&2; sleep 1000", process_id="q")
    sink.wait_until(lambda: sink.turns_waiting >= 4)
    sink.set_full(False)
    for process_id in "pq":
        sink.wait_output(process_id, b"out")
        sink.wait_output(process_id, b"err")
        assert [event.seq for event in sink.of(process_id)[1:]] == [1, 2]


def test_a_full_sink_makes_the_child_wait(live: Live, sink: RecordingSink) -> None:
    """Nothing is read ahead, and nothing is lost."""
    sink.set_full(True)
    process = live("seq 1 100000")
    sink.wait_until(lambda: sink.turns_waiting)
    gevent.idle()
    assert process.log.size == 0 and sink.output("p") == b""
    sink.set_full(False)
    sink.wait_closed("p")
    assert before_exit(sink.of("p")) == "".join(f"{line}\n" for line in range(1, 100_001)).encode()


def test_an_exit_while_the_sink_is_full_still_comes_last(live: Live, sink: RecordingSink) -> None:
    """Both streams' rests are told first."""
    sink.set_full(True)
    process = live("echo out; echo err >&2; exit 5")
    sink.wait_until(lambda: sink.turns_waiting >= 2)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not process.exited
    sink.set_full(False)
    sink.wait_closed("p")
    check_order(sink.of("p"))
    assert sorted(before_exit(sink.of("p")).split()) == [b"err", b"out"]


def test_what_is_kept_is_what_was_told(live: Live, sink: RecordingSink) -> None:
    """With the same seqs."""
    process = live("echo a; echo b >&2")
    sink.wait_closed("p")
    told = [RetainedChunk(e.seq, e.stream, e.chunk) for e in sink.of("p") if isinstance(e, ProcessOutput)]
    assert process.log.read(0, None).chunks == told


# ---- exit ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script, code, signal_name, reason",
    [
        ("exit 0", 0, None, "exited"),
        ("exit 137", 137, None, "exited"),
        ("kill -9 $$", 137, "SIGKILL", "signaled"),
        ("kill -TERM $$", 143, "SIGTERM", "signaled"),
        ("kill -SEGV $$", 139, "SIGSEGV", "signaled"),
    ],
)
@pytest.mark.parametrize("size", [None, Size()])
def test_the_exit_tells_a_status_from_a_signal(
    live: Live, sink: RecordingSink, script: str, code: int, signal_name: str | None, reason: str, size: Size | None
) -> None:
    """137 is not always SIGKILL."""
    process = live(script, size=size)
    exited = sink.wait_exited("p")
    assert (exited.exit_code, exited.signal, exited.reason) == (code, signal_name, reason)
    assert process.exit_code == code and process.exited


def test_a_real_time_signal_has_a_name(live: Live, sink: RecordingSink) -> None:
    """Those in the middle are counted from the first."""
    live("python3", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)")
    assert sink.wait_exited("p").signal == "SIGRTMIN+3"


def test_a_stopped_process_has_not_exited(live: Live, sink: RecordingSink) -> None:
    """It can be continued, and ends later."""
    process = live("echo $$; kill -STOP $$; echo again")
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    gevent.idle()
    assert not process.exited
    os.kill(process.pid, signal.SIGCONT)
    sink.wait_output("p", b"again")
    assert sink.wait_exited("p").exit_code == 0


@pytest.mark.parametrize("size", [None, Size()])
def test_a_flooding_descendant_does_not_hold_up_the_exit(live: Live, sink: RecordingSink, size: Size | None) -> None:
    """The process's own output is all there by then."""
    live("yes & sleep 0.2; echo hi", size=size)
    sink.wait_exited("p")
    assert b"hi" in before_exit(sink.of("p"))


def test_a_quiet_descendant_holds_the_close_and_not_the_exit(live: Live, sink: RecordingSink) -> None:
    """Its later output follows the exit, and the close comes with the end of the streams."""
    process = live("sleep 0.2 & echo hi; (read line < /dev/null; sleep 0.3; echo late) &")
    sink.wait_exited("p")
    assert process.exited and not process.closed
    sink.wait_closed("p")
    check_order(sink.of("p"))
    assert before_exit(sink.of("p")) == b"hi\n" and sink.output("p") == b"hi\nlate\n"


def test_the_zombie_is_kept_until_the_close(live: Live, sink: RecordingSink, died: Died) -> None:
    """So that nobody else gets the number that we may still signal."""
    process = live("sleep 1000 & echo $!")
    sink.wait_exited("p")
    assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    assert process.terminate() is False
    died(int(sink.output("p")))
    sink.wait_closed("p")
    gevent.idle()
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)


def test_a_descendant_finds_the_end_of_its_input_after_the_exit(live: Live, sink: RecordingSink) -> None:
    """Nobody can write any more, so it must not wait for more."""
    live("exec 3<&0; cat <&3 & exit 0", pipe_stdin=True)
    sink.wait_exited("p")
    assert sink.wait_closed("p").output_complete


def test_a_child_that_closes_its_streams_runs_on(live: Live, sink: RecordingSink) -> None:
    """The end of the streams is no exit."""
    process = live("exec >&- 2>&-; read line; exit 4", pipe_stdin=True)
    gevent.idle()
    assert not process.exited
    process.stdin.write(b"go\n")
    assert sink.wait_exited("p").exit_code == 4


# ---- terminate -----------------------------------------------------------------------------------------------------


def test_terminate_kills_the_whole_group(live: Live, sink: RecordingSink, died: Died) -> None:
    """The leader's children, too; output, exit and close follow."""
    process = live("sleep 1000 & echo $!; sleep 1000")
    child = int(sink.wait_output("p", b"\n"))
    assert process.terminate() is True
    died(child)
    exited, closed = sink.wait_exited("p"), sink.wait_closed("p")
    assert (exited.exit_code, exited.signal, exited.reason) == (137, "SIGKILL", "terminated")
    assert closed.output_complete
    check_order(sink.of("p"))


def test_terminate_kills_the_jobs_of_an_interactive_shell(live: Live, sink: RecordingSink, died: Died) -> None:
    """Each has a group of its own on the terminal."""
    process = live("bash", "--norc", "-i", size=Size())
    process.stdin.write(b"sleep 1000 &\n")
    process.stdin.write(b"echo job=$! group=$(ps -o pgid= -p $!)\n")
    sink.wait_output("p", b"job=")
    text = sink.wait_until(lambda: (t := sink.output("p").decode()).count("\r\njob=") and t).split("\r\njob=")[1]
    job = int(text.split()[0])
    assert os.getpgid(job) == job != process.pid
    assert process.terminate() is True
    died(job)
    assert sink.wait_closed("p").output_complete


def test_terminate_while_a_descendant_holds_the_streams(live: Live, sink: RecordingSink, died: Died) -> None:
    """The exit was told already: it was not running, but what is left is killed."""
    process = live("sleep 1000 & echo $!; exit 3")
    exited = sink.wait_exited("p")
    assert process.terminate() is False
    died(int(sink.output("p")))
    sink.wait_closed("p")
    assert (exited.exit_code, exited.reason) == (3, "exited")


def test_a_daemon_that_gave_up_the_streams_lives_on(live: Live, sink: RecordingSink, daemon: Daemon) -> None:
    """After the close nobody is signalled."""
    process = live(daemon.script)
    sink.wait_closed("p")
    assert process.terminate() is False
    assert daemon.ask() == b"alive\n"


def test_terminate_twice_is_harmless(live: Live, sink: RecordingSink) -> None:
    """Whatever the moment."""
    process = live("sleep 1000")
    assert process.terminate() is True
    assert process.terminate() is True
    sink.wait_closed("p")
    assert process.terminate() is False


def test_an_own_exit_is_not_called_terminated(live: Live, sink: RecordingSink) -> None:
    """A terminate that comes between the death and its report did not end the process."""
    sink.set_full(True)
    process = live("echo out; exit 5")
    sink.wait_until(lambda: sink.turns_waiting)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    sink.wait_until(lambda: sink.turns_waiting >= 2)  # the exit was noticed: it waits behind the rest
    process.terminate()
    sink.set_full(False)
    exited = sink.wait_exited("p")
    assert (exited.exit_code, exited.reason) == (5, "exited")


# ---- window --------------------------------------------------------------------------------------------------------


def unacknowledged(sink: RecordingSink, acked: int = 0) -> int:
    """Bytes told beyond an ack."""
    return sum(len(e.chunk) for e in sink.of("p") if isinstance(e, ProcessOutput) and e.seq > acked)


def test_no_more_than_the_window_is_told_beyond_the_ack(live: Live, sink: RecordingSink) -> None:
    """Each ack lets as much follow, of both streams together."""
    process = live("yes & yes >&2", window_bytes=100_000)
    acked = 0
    while not (acked and sink.output("p", "stdout") and sink.output("p", "stderr")):
        sink.wait_until(lambda acked=acked: unacknowledged(sink, acked) == 100_000)
        gevent.idle()
        assert unacknowledged(sink, acked) == 100_000
        acked = sink.of("p")[-1].seq
        process.window.acknowledge(acked)


def test_nothing_unacknowledged_is_dropped(live: Live, sink: RecordingSink) -> None:
    """A window is at most what is retained."""
    process = live("yes", window_bytes=10 * MIB, retained_bytes=100_000)
    sink.wait_until(lambda: unacknowledged(sink) == 100_000)
    gevent.idle()
    assert unacknowledged(sink) == 100_000
    assert process.log.dropped_bytes == 0


def test_a_shut_window_holds_up_nobody_else(live: Live, sink: RecordingSink) -> None:
    """Another process's output passes."""
    live("yes", window_bytes=1000)
    sink.wait_until(lambda: unacknowledged(sink) == 1000)
    live("seq 1 100000", process_id="q")
    sink.wait_closed("q")
    assert unacknowledged(sink) == 1000


def test_the_exit_does_not_wait_for_an_ack(live: Live, sink: RecordingSink) -> None:
    """What the process had itself written goes out whatever the window."""
    process = live("seq 1 5000", window_bytes=1000)
    process.window.acknowledge(sink.wait_exited("p").seq)
    sink.wait_closed("p")
    check_order(sink.of("p"))
    assert before_exit(sink.of("p")) == "".join(f"{line}\n" for line in range(1, 5001)).encode()


def test_the_close_of_a_killed_process_does_not_wait_for_an_ack(live: Live, sink: RecordingSink) -> None:
    """Terminated with its window shut, and with much in its pipe."""
    process = live("yes & yes", window_bytes=1000)
    sink.wait_until(lambda: unacknowledged(sink) == 1000)
    process.terminate()
    assert sink.wait_closed("p").output_complete


def test_descendants_stay_within_the_window_after_the_exit(live: Live, sink: RecordingSink) -> None:
    """Only what was in the pipes at the exit is exempt."""
    live("yes & echo hi", window_bytes=10_000)
    sink.wait_exited("p")
    at_exit = len(sink.output("p"))
    for _ in range(50):
        gevent.idle()
        gevent.sleep(0.001)  # time for a flood, if there is one
    assert len(sink.output("p")) <= at_exit + 10_000


# ---- given up ------------------------------------------------------------------------------------------------------


def test_giving_up_closes_a_process_that_has_exited(live: Live, sink: RecordingSink, died: Died) -> None:
    """A descendant that escaped holds the streams; the close tells that output may be missing."""
    process = live(ESCAPED + " read line; exit 3", pipe_stdin=True)
    escaped = int(sink.wait_output("p", b"\n"))
    process.stdin.write(b"\n")
    sink.wait_exited("p")
    gevent.idle()
    assert not process.closed
    process.give_up()
    assert sink.wait_closed("p").output_complete is False
    os.kill(escaped, signal.SIGKILL)
    died(escaped)


def test_giving_up_wakes_a_pump_that_waits_for_its_window(live: Live, sink: RecordingSink) -> None:
    """And one that waits for a turn."""
    process = live("yes", window_bytes=1000)
    sink.wait_until(lambda: unacknowledged(sink) == 1000)
    process.give_up()
    process.terminate()
    assert sink.wait_closed("p").output_complete is False


# ---- state ---------------------------------------------------------------------------------------------------------


def test_state_and_event_change_in_one_step(live: Live, sink: RecordingSink) -> None:
    """Whoever is woken by a change finds the event told and counted, and the other way round."""
    process = live("echo out; read line; exit 3", pipe_stdin=True)
    seen: list[tuple[int, bool, bool]] = []

    def watch() -> None:
        while not process.closed:
            told = [type(event) for event in sink.of("p")]
            seqs = len([kind for kind in told if kind is not ProcessStarted])
            seen.append((process.next_seq - 1 - seqs, process.exited, ProcessExited in told))
            process.changed.wait()

    watcher = gevent.spawn(watch)
    sink.wait_output("p", b"out")
    process.stdin.write(b"\n")
    sink.wait_closed("p")
    watcher.get(timeout=10)
    assert all(ahead == 0 and exited == told for ahead, exited, told in seen)
    assert process.has_news(10**6)


def test_writes_are_answered_when_the_process_ends(live: Live, sink: RecordingSink) -> None:
    """A descendant that holds the pipe does not hold them up."""
    process = live("sleep 1000 & read line", pipe_stdin=True)
    process.stdin.write(b"go\n")

    def write() -> str | None:
        try:
            process.stdin.write(bytes(MIB))
        except InvalidRequest as fault:
            return fault.kind
        return None

    waiting = gevent.spawn(write)
    sink.wait_exited("p")
    assert waiting.get(timeout=10) == "stdinClosed"
    assert write() == "stdinClosed"


def test_the_input_of_a_terminal_arrives(live: Live, sink: RecordingSink) -> None:
    """Control characters work: Ctrl-C interrupts the foreground job, Ctrl-D ends the input."""
    job = "sh -c 'echo ready; exec sleep 1000'"
    process = live(f"trap 'echo interrupted' INT; {job}; echo done; cat; echo end", size=Size())
    sink.wait_output("p", b"ready")
    process.stdin.write(b"\x03")
    sink.wait_output("p", b"interrupted")
    sink.wait_output("p", b"done")
    process.stdin.write(b"line\n\x04")
    sink.wait_output("p", b"end")
    assert sink.wait_exited("p").exit_code == 0


def test_the_end_of_a_stream_passes_a_shut_window(live: Live, sink: RecordingSink) -> None:
    """Nothing is acknowledged, and nothing needs to be once everything is out."""
    live("head -c 50000 /dev/zero; echo err >&2; exit 3", window_bytes=1)
    assert sink.wait_closed("p").output_complete is True
    assert len(sink.output("p")) == 50_004


def test_an_end_by_itself_is_told_as_that(live: Live, sink: RecordingSink) -> None:
    """Although it is to be ended before anybody has noticed."""
    process = live("exit 5")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.expect_end("connectionClosed")
    exited = sink.wait_exited("p")
    assert (exited.exit_code, exited.reason) == (5, "exited")


# ---- graceful end and timeout --------------------------------------------------------------------------------------

#: Ignores SIGTERM, tells its number, and holds no stream.
STUBBORN = "sh -c 'trap \"\" TERM; echo $$; exec sleep 1000 < /dev/null > /dev/null 2>&1'"


@pytest.mark.parametrize("size", [None, Size()])
def test_a_program_that_is_asked_to_end_can_clean_up(live: Live, sink: RecordingSink, size: Size | None) -> None:
    """What it writes meanwhile is told; its own status, and our reason."""
    process = live("trap 'echo cleaned; exit 5' TERM; echo ready; while :; do sleep 0.01; done", size=size)
    sink.wait_output("p", b"ready")
    assert process.terminate(grace=1000) is True
    exited = sink.wait_exited("p")
    assert (exited.exit_code, exited.signal, exited.reason) == (5, None, "terminated")
    assert b"cleaned" in before_exit(sink.of("p"))
    assert sink.wait_closed("p").output_complete


def test_a_program_that_ignores_it_is_killed(live: Live, sink: RecordingSink, died: Died) -> None:
    """When its time is up, its children with it."""
    process = live("trap '' TERM; sleep 1000 & echo $!; wait")
    child = int(sink.wait_output("p", b"\n"))
    process.terminate(grace=0.2)
    exited = sink.wait_exited("p")
    assert (exited.exit_code, exited.signal, exited.reason) == (137, "SIGKILL", "terminated")
    died(child)


def test_a_stopped_program_can_end_by_itself(live: Live, sink: RecordingSink) -> None:
    """It is continued for that."""
    process = live("trap 'exit 5' TERM; echo ready; kill -STOP $$; sleep 1000 & wait")
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    process.terminate(grace=1000)
    assert sink.wait_exited("p").exit_code == 5


@pytest.mark.parametrize("start", ["{} &", "setsid {} &"])
def test_who_ignores_it_and_holds_no_stream_is_killed_too(
    live: Live, sink: RecordingSink, died: Died, start: str
) -> None:
    """In the session or outside; the process is not closed before."""
    process = live(start.format(STUBBORN) + " echo ready; wait")
    sink.wait_output("p", b"ready")
    pid = int(sink.wait_until(lambda: sink.output("p").replace(b"ready\n", b"")))
    process.terminate(grace=0.3)
    sink.wait_exited("p")
    assert not process.closed
    died(pid)
    sink.wait_closed("p")


def test_who_left_the_session_is_killed(live: Live, sink: RecordingSink, died: Died) -> None:
    """It is found while the leader lives."""
    process = live(ESCAPED + " wait")
    escaped = int(sink.wait_output("p", b"\n"))
    process.terminate()
    died(escaped)
    assert sink.wait_closed("p").output_complete


def test_a_kill_cuts_the_grace_short(live: Live, sink: RecordingSink) -> None:
    """Also one with less grace; one with more changes nothing."""
    for number, grace in enumerate([None, 0.1]):
        process = live("trap '' TERM; echo ready; while :; do sleep 0.01; done", process_id=str(number))
        sink.wait_output(str(number), b"ready")
        process.terminate(grace=1000)
        process.terminate(grace=grace)
        process.terminate(grace=1000)
        assert sink.wait_exited(str(number)).signal == "SIGKILL"
        sink.wait_closed(str(number))


def test_the_grace_keeps_the_window(live: Live, sink: RecordingSink) -> None:
    """A flood goes on within it; nothing unacknowledged is dropped. The kill lifts it."""
    process = live("trap '' TERM; yes", window_bytes=1000)
    sink.wait_until(lambda: unacknowledged(sink) == 1000)
    process.terminate(grace=0.3)
    gevent.idle()
    assert unacknowledged(sink) == 1000 and not process.exited
    assert sink.wait_closed("p").output_complete


def test_a_process_whose_time_is_up_is_ended(live: Live, sink: RecordingSink, died: Died) -> None:
    """Its children with it; the reason is told, whatever the status."""
    live("sleep 1000 & echo $!; wait", timeout=0.2)
    child = int(sink.wait_output("p", b"\n"))
    exited = sink.wait_exited("p")
    assert (exited.exit_code, exited.signal, exited.reason) == (143, "SIGTERM", "timeout")
    died(child)
    live("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done", process_id="q", timeout=0.5)
    exited = sink.wait_exited("q")
    assert (exited.exit_code, exited.signal, exited.reason) == (0, None, "timeout")


def test_a_timeout_that_does_not_come_changes_nothing(live: Live, sink: RecordingSink) -> None:
    """Its timer ends with the process."""
    live("exit 3", timeout=1000)
    exited = sink.wait_exited("p")
    assert (exited.exit_code, exited.reason) == (3, "exited")
    sink.wait_closed("p")


# ---- draining ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [None, Size()])
def test_descendants_hold_the_streams_only_for_so_long(
    live: Live, sink: RecordingSink, died: Died, size: Size | None
) -> None:
    """Then our ends are closed, which is told; they live on."""
    live("trap '' HUP; sleep 1000 & echo $!", size=size, drain_timeout=0.1)
    sink.wait_exited("p")
    assert sink.wait_closed("p").output_complete is False
    child = int(sink.output("p"))
    os.kill(child, signal.SIGKILL)
    died(child)


@pytest.mark.parametrize("size", [None, Size()])
def test_a_stream_at_its_end_is_complete_however_short_the_time(
    live: Live, sink: RecordingSink, size: Size | None
) -> None:
    """Nobody holds it."""
    for number in range(30):
        live("echo x; echo y >&2", process_id=str(number), size=size, drain_timeout=0)
        assert sink.wait_closed(str(number)).output_complete is True
        assert len(sink.output(str(number)).split()) == 2


def test_a_full_sink_does_not_make_output_incomplete(live: Live, sink: RecordingSink) -> None:
    """Everything had been told when the streams were given up, though their ends had not been read."""
    process = live("echo x; read line; exit 0", pipe_stdin=True)
    sink.wait_output("p", b"x")
    sink.set_full(True)
    process.stdin.write(b"\n")
    sink.wait_exited("p")
    sink.wait_until(lambda: sink.turns_waiting == 2)
    process.give_up()
    sink.set_full(False)
    assert sink.wait_closed("p").output_complete is True


# ---- signals, size, end of input -----------------------------------------------------------------------------------


def test_a_signal_reaches_the_whole_group(live: Live, sink: RecordingSink) -> None:
    """Not only the leader; it ends as signaled."""
    child = "trap 'echo child; exit' USR1; echo 1; while :; do sleep 0.01; done"
    process = live(f'trap : USR1; sh -c "{child}" & while :; do sleep 0.01; done')
    sink.wait_output("p", b"1\n")
    process.signal(signal.SIGUSR1)
    sink.wait_output("p", b"child")
    process.signal(signal.SIGKILL)
    assert sink.wait_exited("p").reason == "signaled"


def test_a_signal_reaches_the_foreground_job_of_a_terminal(live: Live, sink: RecordingSink) -> None:
    """And not the shell that waits for it."""
    process = live("bash", "--norc", "-i", size=Size())
    process.stdin.write(b"python3 -c 'import time; print(6 * 7, flush=True); time.sleep(1000)'; echo $((130 + $?))\n")
    sink.wait_output("p", b"42")
    process.signal(signal.SIGKILL)
    sink.wait_output("p", b"267")
    assert not process.exited


def test_a_terminal_without_a_foreground_job_gives_the_signal_to_the_process(live: Live, sink: RecordingSink) -> None:
    """Its foreground group has ended: the number may be a stranger's."""
    script = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "if not child: os.setpgid(0, 0); os.tcsetpgrp(0, os.getpid()); os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "os.write(1, b'ready')\n"
        "time.sleep(1000)\n"
    )
    process = live("python3", "-c", script, size=Size())
    sink.wait_output("p", b"ready")
    process.signal(signal.SIGTERM)
    assert sink.wait_exited("p").signal == "SIGTERM"


def test_an_exited_process_takes_neither_signal_nor_size(live: Live, sink: RecordingSink) -> None:
    """Although descendants hold its streams."""
    process = live("trap '' HUP; sleep 1000 & echo", size=Size())
    sink.wait_exited("p")
    for call in (lambda: process.signal(signal.SIGTERM), lambda: process.resize(Size())):
        with pytest.raises(InvalidRequest, match="^process p has exited$"):
            call()


def test_a_process_that_somebody_else_reaped_is_never_signalled(live: Live, sink: RecordingSink) -> None:
    """Its number may be a stranger's, also before the exit is told."""
    process = live("echo out; read line; echo late; exit 3", pipe_stdin=True)
    sink.wait_output("p", b"out")
    sink.set_full(True)
    process.stdin.write(b"\n")
    os.waitpid(process.pid, 0)
    sink.wait_until(lambda: sink.turns_waiting >= 2)  # the exit was noticed: it waits behind the rest
    assert not process.is_ours and not process.exited
    with pytest.raises(InvalidRequest, match="has exited"):
        process.signal(signal.SIGKILL)
    sink.set_full(False)
    assert sink.wait_exited("p").exit_code == -1
    sink.wait_closed("p")


def test_a_terminal_is_resized(live: Live, sink: RecordingSink) -> None:
    """The program is told by SIGWINCH; pipes have no size."""
    process = live("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done", size=Size())
    sink.wait_output("p", b"ready")
    process.resize(Size(rows=50, cols=200))
    sink.wait_output("p", b"50 200")
    with pytest.raises(InvalidRequest, match="^process q has no terminal$"):
        live("sleep 1000", process_id="q").resize(Size())


@pytest.mark.parametrize("size", [None, Size()])
@pytest.mark.parametrize("written", [b"", b"line\n", b"part"])
def test_a_closed_input_ends_cat(live: Live, sink: RecordingSink, size: Size | None, written: bytes) -> None:
    """On pipes and on a terminal, with and without a partial line; twice is harmless."""
    process = live("cat; echo end", size=size, pipe_stdin=True)
    process.stdin.write(written)
    process.close_stdin()
    process.close_stdin()
    assert sink.wait_exited("p").exit_code == 0
    process.close_stdin()
    assert sink.output("p").replace(b"\r", b"").endswith(written + b"end\n")


def test_in_raw_mode_the_end_of_a_terminals_input_is_a_byte(live: Live, sink: RecordingSink) -> None:
    """The terminal's driver takes no notice of it there."""
    process = live("stty raw -echo; echo ready; head -c 1 | od -An -tx1", size=Size())
    sink.wait_output("p", b"ready")
    process.close_stdin()
    sink.wait_output("p", b"04")
    assert sink.wait_exited("p").exit_code == 0
