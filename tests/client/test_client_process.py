"""Tests of execsrv.client.process: what a handle does to a real process, over every kind of connection."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from endings import gone
from fake_server import FakeServer

from execsrv import CallTimeout, ExecServerClient, ExecServerError, Process, ServerError, TextOutput, TimeoutExpired

WAIT = 30.0

#: Says that it is ready, and goes on until something is done to it.
READY = "echo ready; while :; do sleep 0.02; done"


def start_ready(client: ExecServerClient, script: str, tty: bool = False) -> Process:
    """A shell with this script, which has come to READY."""
    process = client.start(["sh", "-c", script + READY], tty=tty)
    read_until(process, b"ready")
    return process


def read_until(process: Process, *words: bytes) -> bytes:
    """Output of all streams up to the chunk that has the last of the words."""
    seen = b""
    while not all(word in seen for word in words):
        seen += next(iter(process)).chunk
    return seen


# ---- input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "input", "output"),
    [
        (["cat"], b"\x00\xff\n", b"\x00\xff\n"),
        (["cat"], b"", b""),
        (["sort"], "b\na\nä\n", "a\nb\nä\n".encode()),
        ([sys.executable, "-"], "print(6 * 7)", b"42\n"),
    ],
)
def test_filters(any_client: ExecServerClient, argv: list[str], input: bytes | str, output: bytes) -> None:
    """Programs that go on until their input ends."""
    done = any_client.run(argv, input=input, env={"LC_ALL": "C"}, timeout=WAIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, output, b"")


def test_archive_is_unpacked(any_client: ExecServerClient, tmp_path: Path) -> None:
    """From bytes that are binary."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo("file")
        member.size = 1_000_000
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    any_client.run(["tar", "xz"], cwd=tmp_path, input=archive.getvalue(), check=True, timeout=WAIT)
    assert (tmp_path / "file").read_bytes() == bytes(1_000_000)


def test_much_input_and_much_output(any_client: ExecServerClient) -> None:
    """More than all pipes and windows hold: neither side waits for the other."""
    data = os.urandom(5_000_000)
    assert any_client.run(["cat"], input=data, timeout=WAIT).stdout == data


def test_input_that_is_not_wanted(any_client: ExecServerClient) -> None:
    """A closed pipe is no error, as with subprocess."""
    done = any_client.run(["head", "-c", "3"], input=b"abc" * 2_000_000, timeout=WAIT)
    assert (done.returncode, done.stdout) == (0, b"abc")


def test_communicating_ends_a_pipe(any_client: ExecServerClient) -> None:
    """Also when something was written before, and nothing is to be added."""
    process = any_client.start(["cat"], pipe_stdin=True)
    process.write(bytearray(b"one "))
    assert process.communicate(b"two", WAIT) == (b"one two", b"")
    process = any_client.start(["cat"], pipe_stdin=True)
    process.write(b"three")
    assert process.communicate(timeout=WAIT) == (b"three", b"")


def test_communicating_leaves_a_terminal_open(any_client: ExecServerClient) -> None:
    """Who is at it may still type."""
    process = any_client.start(["sh", "-c", "read line; echo got $line"], tty=True, pipe_stdin=True)
    with pytest.raises(TimeoutExpired):
        process.communicate(timeout=0.2)
    process.write(b"it\n")
    assert process.communicate(timeout=WAIT)[0].endswith(b"got it\r\n")


def test_second_try_to_communicate(any_client: ExecServerClient, tmp_path: Path) -> None:
    """Input goes on to be written, so it is not given again; nothing is lost or doubled."""
    data = os.urandom(2_000_000)
    script = f"echo ready; until [ -e {tmp_path}/go ]; do sleep 0.02; done; cat"
    process = any_client.start(["sh", "-c", script], pipe_stdin=True)
    with pytest.raises(TimeoutExpired) as caught:
        process.communicate(data, 0.3)
    assert b"ready\n".startswith(caught.value.output)
    with pytest.raises(ValueError, match="input was given before"):
        process.communicate(data, WAIT)
    (tmp_path / "go").touch()
    assert process.communicate(timeout=WAIT) == (b"ready\n" + data, b"")


def test_input_has_to_be_bytes_or_text(any_client: ExecServerClient) -> None:
    """A timeout in its place is an error of the caller's."""
    with any_client.start(["cat"], pipe_stdin=True) as process, pytest.raises(TypeError):
        process.communicate(WAIT)  # type: ignore[arg-type]


def test_closing_stdin(any_client: ExecServerClient) -> None:
    """Twice, without one and behind the end it is harmless; nothing can be written after it."""
    process = any_client.start(["cat"], pipe_stdin=True)
    process.write(b"all")
    process.close_stdin()
    process.close_stdin()
    with contextlib.suppress(ServerError):  # of the kind stdinClosed, unless it has ended and is forgotten
        process.write(b"more")
    assert process.communicate(timeout=WAIT) == (b"all", b"")
    process.close_stdin()
    without = any_client.start(["true"])
    without.close_stdin()
    assert without.wait(WAIT) == 0


def test_closing_stdin_of_a_terminal(any_client: ExecServerClient) -> None:
    """It ends the input of a program that reads lines, also in the middle of one."""
    done = any_client.run(["cat"], tty=True, input="line\nrest", text=True, timeout=WAIT)
    assert done.returncode == 0
    assert done.stdout.endswith("line\nrest")


# ---- output --------------------------------------------------------------------------------------------------------


def test_text_comes_out_whole(any_client: ExecServerClient) -> None:
    """A character in two pieces with something on stderr in between."""
    script = r"printf 'a\303'; sleep 0.1; printf '\303\244' >&2; sleep 0.1; printf '\274\r\n'"
    texts: dict[str, str] = {"stdout": "", "stderr": ""}
    for output in any_client.start(["sh", "-c", script]).text_output():
        assert isinstance(output, TextOutput)
        texts[output.stream] += output.text
    assert texts == {"stdout": "aü\n", "stderr": "ä"}
    done = any_client.run(["sh", "-c", script], text=True, timeout=WAIT)
    assert (done.stdout, done.stderr) == ("aü\n", "ä")


def test_snapshot(any_client: ExecServerClient) -> None:
    """Output that was read already is in it, by stream."""
    with any_client.start(["sh", "-c", "echo error >&2; " + READY]) as process:
        read_until(process, b"error", b"ready")
        snapshot = process.snapshot()
        assert (snapshot.stdout, snapshot.stderr, snapshot.terminal) == (b"ready\n", b"error\n", b"")
        assert (snapshot.running, snapshot.exit_code, snapshot.truncated) == (True, None, False)
    snapshot = process.snapshot()
    assert (snapshot.stdout, snapshot.running, snapshot.exit_code) == (b"ready\n", False, 137)


def test_list_of_processes(any_client: ExecServerClient) -> None:
    """Those that run and those that have ended."""
    with any_client.start(["sleep", "1000"], cwd="/", process_id="listed") as running:
        ended = any_client.start(["sh", "-c", "exit 3"], tty=True)
        ended.wait(WAIT)
        listed = {process.process_id: process for process in any_client.list_processes()}
        description = listed[running.process_id]
        assert (description.pid, description.argv, description.cwd) == (running.pid, ["sleep", "1000"], "/")
        assert (description.running, description.exit_code, description.tty) == (True, None, False)
        description = listed[ended.process_id]
        assert (description.running, description.exit_code, description.tty) == (False, 3, True)


# ---- signals and terminals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [signal.SIGUSR1, int(signal.SIGUSR1), "SIGUSR1", "user1"])
def test_signals(any_client: ExecServerClient, name: int | str) -> None:
    """By any name; behind the end nothing happens."""
    process = start_ready(any_client, "trap 'exit 5' USR1; ")
    process.send_signal(name)
    assert process.wait(WAIT) == 5
    process.send_signal(name)
    process.interrupt()


def test_signal_that_is_none(any_client: ExecServerClient) -> None:
    """A number is judged here, a name by the server."""
    with start_ready(any_client, "") as process:
        with pytest.raises(ValueError):
            process.send_signal(1000)
        with pytest.raises(ServerError, match="SIGNONSENSE"):
            process.send_signal("SIGNONSENSE")


def test_interrupt_on_a_terminal(any_client: ExecServerClient) -> None:
    """It reaches the command in the foreground and not the shell."""
    process = any_client.start(["bash", "--norc", "-i"], tty=True, env={"PS1": "> ", "PATH": os.environ["PATH"]})
    command = READY.replace("ready", "re''ady")  # which is not what its echo looks like
    process.write(f"sh -c 'trap \"exit 7\" INT; {command}'; exit $?\n".encode())
    read_until(process, b"ready")
    process.interrupt()
    assert process.wait(WAIT) == 7


def test_resize(any_client: ExecServerClient) -> None:
    """The program is told."""
    process = start_ready(any_client, "trap 'stty size; exit' WINCH; ", tty=True)
    process.resize(50, 200)
    assert process.communicate(timeout=WAIT)[0] == b"50 200\r\n"
    process.resize(1, 1)


def test_resize_without_a_terminal(any_client: ExecServerClient) -> None:
    """There is nothing to resize."""
    with start_ready(any_client, "") as process, pytest.raises(ServerError) as caught:
        process.resize(1, 1)
    assert caught.value.kind == "noTerminal"


# ---- the end -------------------------------------------------------------------------------------------------------


def test_program_that_cleans_up(any_client: ExecServerClient) -> None:
    """It is given the time, and its own code counts."""
    process = start_ready(any_client, "trap 'echo clean; exit 3' TERM; ")
    assert process.terminate(grace=WAIT)
    assert process.wait(WAIT) == 3
    assert process.communicate()[0] == b"clean\n"
    assert (process.reason, process.signal) == ("terminated", None)
    assert not process.terminate()


def test_program_that_ignores_to_be_asked(any_client: ExecServerClient) -> None:
    """It is killed when its time is up, with its children."""
    process = any_client.start(["sh", "-c", "trap '' TERM; sleep 1000 & echo $!; " + READY])
    child = int(read_until(process, b"ready").split()[0])
    process.terminate(grace=0.1)
    assert process.wait(WAIT) == 137
    assert (process.reason, process.signal) == ("terminated", "SIGKILL")
    assert gone(child)


def test_kill_asks_nobody(any_client: ExecServerClient) -> None:
    """It is SIGKILL, and comes with no grace."""
    process = start_ready(any_client, "trap 'exit 3' TERM; ")
    assert process.kill()
    assert process.wait(WAIT) == 137
    assert not process.kill()


def test_a_server_that_does_not_answer_holds_no_block_up(
    fake: FakeServer, fake_client: ExecServerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a kill nor the end of a block waits for it for ever."""
    monkeypatch.setattr("execsrv.client.process.KILL_SECONDS", 0.05)
    del fake.handlers["process/terminate"]
    process = fake_client.start(["true"])
    with pytest.raises(CallTimeout, match="no answer to process/terminate within 0.05 s"):
        process.kill()
    with pytest.raises(CallTimeout), process:
        pass


def test_limit_of_time(any_client: ExecServerClient) -> None:
    """The server ends the process, whether or not anybody waits; that is no error for who does."""
    process = any_client.start(["sleep", "1000"], time_limit=0.1)
    assert process.wait(WAIT) == 143
    assert (process.reason, process.signal) == ("timeout", "SIGTERM")
    assert any_client.run(["sleep", "1000"], time_limit=0.1, timeout=WAIT).returncode == 143


def test_timeout_of_waiting_does_nothing(any_client: ExecServerClient) -> None:
    """The process goes on."""
    with any_client.start(["sleep", "1000"]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.05)
        assert process.poll() is None


def test_limit_of_draining(any_client: ExecServerClient) -> None:
    """The output ends though a descendant, which is left alone, holds the streams."""
    process = any_client.start(["sh", "-c", "sleep 1000 & echo $!"], drain_limit=0.1)
    (output,) = process
    os.kill(int(output.chunk), signal.SIGKILL)
    assert process.returncode == 0


def test_run_with_input_out_of_time(any_client: ExecServerClient) -> None:
    """The output until then is in subprocess's own error; the whole group is gone."""
    script = "sleep 1000 & echo $!; wait"
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        any_client.run(["sh", "-c", script], input=bytes(2_000_000), timeout=0.5, text=True)
    assert isinstance(caught.value, ExecServerError)
    assert caught.value.timeout == 0.5
    assert gone(int(caught.value.output))
