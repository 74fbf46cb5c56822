"""Everything that can be done with a process beyond reading and writing, with the programs that people use."""

from __future__ import annotations

import base64
import io
import os
import shutil
import signal
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from endings import gone
from peer import PATH, Json, OpenPeer, Peer
from proc import eventually, is_alive

GRACEFUL = {"graceful": {"timeoutMs": 60_000}}

#: Ends after SIGTERM, with its last words.
CLEANS_UP = "trap 'echo cleaned; exit 5' TERM; echo ready; while :; do sleep 0.05; done"

#: Takes no notice of SIGTERM.
IGNORES = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def write(peer: Peer, process_id: str, data: bytes) -> None:
    """Write to a process."""
    peer.call("process/write", processId=process_id, chunk=base64.b64encode(data).decode())


def feed(peer: Peer, process_id: str, data: bytes) -> None:
    """Write to a process, and end its input."""
    write(peer, process_id, data)
    assert peer.call("process/closeStdin", processId=process_id) == {}


def interrupt(peer: Peer, process_id: str, reaction: bytes) -> None:
    """Press Ctrl-C and wait for the reaction: what is typed before it is thrown away by most programs."""
    type_and_wait(peer, process_id, b"\x03", reaction)


def type_and_wait(peer: Peer, process_id: str, keys: bytes, reaction: bytes) -> None:
    """Write to the terminal and wait until a reaction comes once more."""
    before = peer.output(process_id, "pty").count(reaction)
    write(peer, process_id, keys)
    while peer.output(process_id, "pty").count(reaction) == before:
        peer.receive()


def fault_of(error: Json) -> tuple[int, str, str]:
    """Code, kind and message."""
    return error["code"], error["data"]["kind"], error["message"]


def needs(program: str) -> None:
    """Skip the test when the program is not there."""
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")


# ---- start and terminate -------------------------------------------------------------------------------------------


def test_what_is_offered_is_told(open_peer: OpenPeer) -> None:
    """In the answer to ``initialize``."""
    capabilities = open_peer().call("initialize", clientName="test")["capabilities"]
    names = ["Ack", "CloseStdin", "DrainTimeout", "GracefulTerminate", "List", "Resize", "Signal"]
    names += ["Snapshot", "Timeout", "Wait"]
    assert all(capabilities[f"process{name}"] is True for name in names)


@pytest.mark.parametrize("tty", [False, True])
def test_a_program_that_cleans_up_is_given_time(peer: Peer, tty: bool) -> None:
    """The answer comes at once; its last words and its status come, too."""
    process_id = peer.start("sh", "-c", CLEANS_UP, tty=tty)
    peer.wait_for_output(process_id, b"ready", "pty" if tty else "stdout")
    assert peer.call("process/terminate", processId=process_id, mode=GRACEFUL) == {"running": True}
    life = peer.finish(process_id)
    assert (life.exited["exitCode"], life.exited["signal"], life.exited["reason"]) == (5, None, "terminated")
    assert b"cleaned" in life.stdout + life.pty


@pytest.mark.parametrize("tty", [False, True])
def test_a_program_that_takes_no_notice_is_killed(peer: Peer, tty: bool) -> None:
    """When its time is up."""
    process_id = peer.start("sh", "-c", IGNORES, tty=tty)
    peer.wait_for_output(process_id, b"ready", "pty" if tty else "stdout")
    before = time.monotonic()
    mode = {"graceful": {"timeoutMs": 300}}
    assert peer.call("process/terminate", processId=process_id, mode=mode) == {"running": True}
    exited = peer.finish(process_id).exited
    assert (exited["exitCode"], exited["signal"], exited["reason"]) == (137, "SIGKILL", "terminated")
    assert time.monotonic() - before >= 0.3


def test_an_interactive_shell_outlasts_sigterm_and_not_the_grace(peer: Peer) -> None:
    """Its jobs end with it."""
    process_id = peer.start("bash", "--norc", "-i", tty=True)
    write(peer, process_id, b"sleep 1000 & echo job=$((1 + $!)).\n")
    while not (job := peer.output(process_id, "pty").rpartition(b"job=")[2].split(b".")[0]).isdigit():
        peer.receive()
    peer.call("process/terminate", processId=process_id, mode={"graceful": {"timeoutMs": 200}})
    assert peer.finish(process_id).exited["signal"] == "SIGKILL"
    assert gone(int(job) - 1)


def test_force_is_the_usual_mode(peer: Peer) -> None:
    """Named or not; a mode of another name is a wrong shape."""
    usual: list[Json] = [{}, {"mode": "force"}, {"mode": None}]
    for params in usual:
        process_id = peer.start("sh", "-c", IGNORES)
        peer.wait_for_output(process_id, b"ready")
        peer.call("process/terminate", processId=process_id, **params)
        assert peer.finish(process_id).exited["signal"] == "SIGKILL"
    wrong: list[Any] = ["gently", {}, {"graceful": {}}, {"graceful": {"timeoutMs": -1}}]
    for mode in wrong:
        assert peer.refused("process/terminate", processId="p", mode=mode)["code"] == -32602


def test_a_timeout_ends_the_process_and_its_children(peer: Peer) -> None:
    """As a graceful terminate does."""
    process_id = peer.start("sh", "-c", "sleep 1000 & echo $!; wait", timeoutMs=300)
    life = peer.finish(process_id)
    assert (life.exited["exitCode"], life.exited["signal"], life.exited["reason"]) == (143, "SIGTERM", "timeout")
    assert gone(int(life.stdout))
    life = peer.run("sh", "-c", IGNORES, timeoutMs=300)
    assert (life.exited["signal"], life.exited["reason"], life.stdout) == ("SIGKILL", "timeout", b"ready\n")


def test_descendants_that_left_the_session_die_with_it(peer: Peer) -> None:
    """By force, and when they outlast the grace; those of a process that ended by itself live on."""
    for params in ({}, {"mode": {"graceful": {"timeoutMs": 200}}}):
        script = "setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 1000 </dev/null >/dev/null 2>&1' & wait"
        process_id = peer.start("sh", "-c", script)
        escaped = int(peer.wait_for_output(process_id, b"\n"))
        peer.call("process/terminate", processId=process_id, **params)
        assert gone(escaped)
        peer.finish(process_id)


def test_the_streams_are_given_up_after_the_drain_timeout(peer: Peer) -> None:
    """At once when nobody holds them; who holds them lives on."""
    process_id = peer.start("sh", "-c", "trap '' HUP PIPE; sleep 1000 & echo $!", drainTimeoutMs=200)
    life = peer.finish(process_id)
    assert life.closed["outputComplete"] is False and life.exited["exitCode"] == 0
    assert is_alive(int(life.stdout))
    os.kill(int(life.stdout), signal.SIGKILL)
    assert peer.run("echo", "x", drainTimeoutMs=0).closed["outputComplete"] is True


# ---- the end of the input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv, data, wanted",
    [
        (["sort"], b"b\na\n", b"a\nb\n"),
        (["python3", "-"], b"print(6 * 7)\n", b"42\n"),
        (["cat"], bytes(range(256)) * 10_000, bytes(range(256)) * 10_000),
        (["wc", "-c"], b"", b"0\n"),
    ],
)
def test_programs_that_read_to_the_end_are_fed(peer: Peer, argv: list[str], data: bytes, wanted: bytes) -> None:
    """Then their input ends, and they do."""
    process_id = peer.start(*argv, pipeStdin=True)
    feed(peer, process_id, data)
    life = peer.finish(process_id)
    assert life.stdout == wanted and life.exited["exitCode"] == 0


def test_an_archive_is_unpacked_from_the_input(peer: Peer, tmp_path: Path) -> None:
    """By ``tar x``, over several writes."""
    content = os.urandom(300_000)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("file")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    process_id = peer.start("tar", "x", pipeStdin=True, cwd=str(tmp_path))
    data = packed.getvalue()
    for begin in range(0, len(data), 100_000):
        write(peer, process_id, data[begin : begin + 100_000])
    assert peer.call("process/closeStdin", processId=process_id) == {}  # it may have ended by itself
    assert peer.finish(process_id).exited["exitCode"] == 0
    assert (tmp_path / "file").read_bytes() == content


def test_the_end_of_the_input_keeps_its_place(peer: Peer) -> None:
    """All is sent without waiting for an answer: a write behind it is refused; twice is harmless."""
    start, process_id = peer.request_start("cat", pipeStdin=True)
    early = peer.request("process/write", processId=process_id, chunk="YQ==")
    ends = [peer.request("process/closeStdin", processId=process_id) for _ in range(2)]
    late = peer.request("process/write", processId=process_id, chunk="Yg==")
    peer.result(start)
    assert peer.result(early) == {"accepted": True, "status": "accepted"}
    assert [peer.result(id) for id in ends] == [{}, {}]
    message = f"stdin is closed for process {process_id}"
    assert fault_of(peer.error(late)) == (-32600, "stdinClosed", message)
    assert peer.finish(process_id).stdout == b"a"
    assert peer.call("process/closeStdin", processId=process_id) == {}


@pytest.mark.parametrize("written", [b"", b"line\n", b"part"])
def test_on_a_tty_the_input_ends_with_a_character(peer: Peer, written: bytes) -> None:
    """Also behind a partial line; the output goes on."""
    process_id = peer.start("sh", "-c", "stty -echo; echo ready; cat; echo end", tty=True)
    peer.wait_for_output(process_id, b"ready\r\n", "pty")
    feed(peer, process_id, written)
    life = peer.finish(process_id)
    assert life.pty.replace(b"\r", b"") == b"ready\n" + written + b"end\n"


# ---- signals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word, name",
    [
        *[("interrupt", "SIGINT"), ("terminate", "SIGTERM"), ("kill", "SIGKILL"), ("hangup", "SIGHUP")],
        *[("quit", "SIGQUIT"), ("user1", "SIGUSR1"), ("user2", "SIGUSR2"), ("SIGALRM", "SIGALRM")],
    ],
)
@pytest.mark.parametrize("tty", [False, True])
def test_signals_by_word_and_by_name(peer: Peer, word: str, name: str, tty: bool) -> None:
    """They end who does not handle them; that is told as a signal, and not as our doing."""
    script = "import signal, time; signal.signal(2, signal.SIG_DFL); print('ready', flush=True); time.sleep(1000)"
    process_id = peer.start(sys.executable, "-S", "-c", script, tty=tty)
    peer.wait_for_output(process_id, b"ready", "pty" if tty else "stdout")
    assert peer.call("process/signal", processId=process_id, signal=word) == {}
    exited = peer.finish(process_id).exited
    number = signal.Signals[name].value
    assert (exited["exitCode"], exited["signal"], exited["reason"]) == (128 + number, name, "signaled")


def test_stop_and_continue(peer: Peer) -> None:
    """Nothing comes of a stopped process."""
    process_id = peer.start("sh", "-c", "while read x; do echo $x; done", pipeStdin=True)
    pid = peer.event("process/started", process_id)["pid"]
    peer.call("process/signal", processId=process_id, signal="stop")
    assert eventually(lambda: "T (stopped)" in Path(f"/proc/{pid}/status").read_text())
    write(peer, process_id, b"on\n")
    assert peer.output(process_id) == b""
    peer.call("process/signal", processId=process_id, signal="continue")
    peer.wait_for_output(process_id, b"on\n")


def test_a_signal_goes_to_the_whole_group_without_a_tty(peer: Peer) -> None:
    """As Ctrl-C in a terminal would."""
    process_id = peer.start("sh", "-c", "sleep 1000 & echo $!; wait")
    child = int(peer.wait_for_output(process_id, b"\n"))
    peer.call("process/signal", processId=process_id, signal="SIGTERM")
    assert peer.finish(process_id).exited["signal"] == "SIGTERM"
    assert gone(child)


def test_a_signal_that_makes_no_sense_is_refused(peer: Peer) -> None:
    """An unknown name, and any to a process that has exited, behind the news of that."""
    process_id = peer.start("cat", pipeStdin=True)
    for word in ("", "SIGNONE", "9", "int"):
        assert peer.refused("process/signal", processId=process_id, signal=word)["code"] == -32602
    feed(peer, process_id, b"")
    peer.finish(process_id)
    error = peer.refused("process/signal", processId=process_id, signal="kill")
    assert fault_of(error) == (-32600, "processExited", f"process {process_id} has exited")


# ---- size ----------------------------------------------------------------------------------------------------------


def resize(peer: Peer, process_id: str, rows: int, cols: int) -> None:
    """Give a terminal another size."""
    assert peer.call("process/resize", processId=process_id, size={"rows": rows, "cols": cols}) == {}


def test_a_terminal_gets_another_size(peer: Peer) -> None:
    """And the program a SIGWINCH; bounds are those of the start."""
    script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done"
    process_id = peer.start("sh", "-c", script, tty=True)
    peer.wait_for_output(process_id, b"ready", "pty")
    resize(peer, process_id, 50, 200)
    peer.wait_for_output(process_id, b"50 200", "pty")
    for size in ({"rows": 0, "cols": 80}, {"rows": 24, "cols": 65536}, "24x80"):
        assert peer.refused("process/resize", processId=process_id, size=size)["code"] == -32602


def test_pipes_have_no_size(peer: Peer) -> None:
    """That is told; nor has a process that has exited."""
    process_id = peer.start("cat", pipeStdin=True)
    size = {"rows": 24, "cols": 80}
    error = peer.refused("process/resize", processId=process_id, size=size)
    assert fault_of(error) == (-32600, "noTerminal", f"process {process_id} has no terminal")
    exited = peer.run("true", tty=True).exited["processId"]
    error = peer.refused("process/resize", processId=exited, size=size)
    assert fault_of(error) == (-32600, "processExited", f"process {exited} has exited")


# ---- wait, snapshot, list ------------------------------------------------------------------------------------------


def test_waits_are_answered_at_the_exit(peer: Peer) -> None:
    """Many at a time, behind the news of it; the close is another matter."""
    process_id = peer.start("sh", "-c", "sleep 1000 & read x; exit 3", pipeStdin=True)
    waits = [peer.request("process/wait", processId=process_id) for _ in range(5)]
    running = {"exited": False, "exitCode": None, "signal": None, "reason": None, "closed": False}
    assert peer.call("process/wait", processId=process_id, waitMs=0) == running
    assert peer.call("process/wait", processId=process_id, waitMs=50) == running
    write(peer, process_id, b"\n")
    exited = {"exited": True, "exitCode": 3, "signal": None, "reason": "exited", "closed": False}
    for id in waits:
        assert peer.result(id) == exited
        assert "process/exited" in [message.get("method") for message in peer.transcript]
    peer.call("process/terminate", processId=process_id)
    peer.finish(process_id)
    assert peer.call("process/wait", processId=process_id) == {**exited, "closed": True}


def test_a_snapshot_is_what_is_retained(open_peer: OpenPeer) -> None:
    """By stream; it tells what is gone, and how it stands."""
    peer = open_peer("--retained-output-bytes", "65536").handshake()
    process_id = peer.start("sh", "-c", "echo out; echo err >&2; read x; exit 3", pipeStdin=True)
    peer.wait_for_output(process_id, b"out\n")
    peer.wait_for_output(process_id, b"err\n", "stderr")
    shown = peer.call("process/snapshot", processId=process_id)
    assert shown == {
        **{"stdout": "b3V0Cg==", "stderr": "ZXJyCg==", "terminal": "", "truncated": False, "droppedBytes": 0},
        **{"exitCode": None, "running": True},
    }
    feed(peer, process_id, b"")
    peer.finish(process_id)
    shown = peer.call("process/snapshot", processId=process_id)
    assert (shown["exitCode"], shown["running"], shown["stdout"]) == (3, False, "b3V0Cg==")
    life = peer.run("seq", "100000", tty=True)
    shown = peer.call("process/snapshot", processId=life.exited["processId"])
    kept = base64.b64decode(shown["terminal"])
    assert shown["truncated"] is True and 0 < len(kept) <= 65536 and life.pty.endswith(kept)
    assert shown["droppedBytes"] + len(kept) == len(life.pty)


def test_the_list_tells_of_every_process_of_the_connection(open_peer: OpenPeer) -> None:
    """Oldest first; those of other connections, and forgotten ones, are not in it."""
    peer = open_peer().handshake()
    assert peer.call("process/list") == {"processes": []}
    before = int(time.time() * 1000)
    peer.run("sh", "-c", "exit 3", processId="first", cwd="/usr")
    time.sleep(0.002)  # starts are told apart by milliseconds
    peer.start("cat", "-", processId="second", tty=True, arg0="feline")
    first, second = peer.call("process/list")["processes"]
    assert before <= first.pop("startedAtMs") < second.pop("startedAtMs") <= time.time() * 1000
    assert [p.pop("pid") for p in (first, second)] == [
        peer.event("process/started", name)["pid"] for name in ("first", "second")
    ]
    assert first == {
        **{"processId": "first", "argv": ["sh", "-c", "exit 3"], "cwd": "/usr", "tty": False},
        **{"running": False, "exitCode": 3, "closed": True},
    }
    assert second == {
        **{"processId": "second", "argv": ["feline", "-"], "cwd": "/", "tty": True},
        **{"running": True, "exitCode": None, "closed": False},
    }


@pytest.mark.parametrize(
    "method, params",
    [
        ("process/signal", {"signal": "kill"}),
        ("process/closeStdin", {}),
        ("process/resize", {"size": {"rows": 1, "cols": 1}}),
        ("process/wait", {}),
        ("process/snapshot", {}),
    ],
)
def test_an_id_that_never_was_is_told(peer: Peer, method: str, params: dict[str, Any]) -> None:
    """In the same words by all."""
    error = peer.refused(method, processId="never", **params)
    assert fault_of(error) == (-32600, "unknownProcess", "unknown process id never")


# ---- programs on a terminal ----------------------------------------------------------------------------------------

SCREEN = {**PATH, "TERM": "xterm", "LC_ALL": "C", "HOME": "/nonexistent"}


def test_an_interactive_bash_takes_size_and_interrupts(peer: Peer) -> None:
    """Ctrl-C ends the job and not the shell; the end of its input ends it."""
    process_id = peer.start("bash", "--norc", "-i", tty=True, env={**SCREEN, "PS1": "ready> "})
    resize(peer, process_id, 33, 101)
    program = "import time; print(6 * 7, flush=True); time.sleep(1000)"
    write(peer, process_id, f"stty size; {sys.executable} -S -c '{program}'\n".encode())
    peer.wait_for_output(process_id, b"33 101", "pty")
    peer.wait_for_output(process_id, b"42", "pty")
    interrupt(peer, process_id, b"ready>")
    type_and_wait(peer, process_id, b"echo status=$?\n", b"ready>")  # an end of file before it reads keys is lost
    assert b"status=130" in peer.output(process_id, "pty")
    assert peer.call("process/closeStdin", processId=process_id) == {}
    assert peer.finish(process_id).exited["exitCode"] == 0


def test_less_pages_a_file_and_quits(peer: Peer, tmp_path: Path) -> None:
    """It shows as many lines as the terminal has, more on a larger one; it outlives a Ctrl-C."""
    needs("less")
    path = tmp_path / "text"
    path.write_text("".join(f"line{number}.\n" for number in range(1, 1000)))
    process_id = peer.start("less", str(path), tty=True, env=SCREEN, size={"rows": 10, "cols": 40})
    peer.wait_for_output(process_id, b"line9.", "pty")
    assert b"line10." not in peer.output(process_id, "pty")
    resize(peer, process_id, 20, 40)
    write(peer, process_id, b"r")  # repaint: it may have begun to wait for a key before it heard of the size
    peer.wait_for_output(process_id, b"line19.\r\n:\x1b[K", "pty")
    interrupt(peer, process_id, b"line19.\r\n:\x1b[K")
    write(peer, process_id, b"q")
    assert peer.finish(process_id).exited["exitCode"] == 0


def test_top_shows_processes_until_it_is_interrupted(peer: Peer) -> None:
    """In the size that it is given."""
    needs("top")
    process_id = peer.start("top", "-d", "60", tty=True, env=SCREEN, size={"rows": 12, "cols": 80})
    peer.wait_for_output(process_id, b"PID", "pty")
    length = len(peer.output(process_id, "pty"))
    resize(peer, process_id, 30, 100)
    while len(peer.output(process_id, "pty")) == length:
        peer.receive()
    write(peer, process_id, b"\x03")
    exited = peer.finish(process_id).exited
    assert exited["reason"] in ("exited", "signaled") and exited["exitCode"] in (0, 130)


def test_vim_starts_and_quits(peer: Peer) -> None:
    """By its own command."""
    needs("vim")
    assert peer.run("vim", "-u", "NONE", "-c", "q", tty=True, env=SCREEN).exited["exitCode"] == 0
