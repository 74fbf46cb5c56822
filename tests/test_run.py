"""``execsrv run`` as shells use it: the real program, with a server of its own and with a remote one."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from endings import gone
from run_program import (
    GROUP,
    PATIENCE,
    PROGRAM,
    STOP_SIGNALS,
    Server,
    children,
    ending,
    eventually,
    fake_server,
    line_of,
    peak_bytes,
    pending,
    read_exactly,
    run,
    running,
)

# ---- output and codes ----------------------------------------------------------------------------------------------


def test_streams_and_code(to: list[str]) -> None:
    """Each stream in its place."""
    done = run(*to, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 3)


def test_bytes_are_the_commands(to: list[str], tmp_path: Path) -> None:
    """5 MB of all kinds, on both streams."""
    data = os.urandom(5_000_001)
    (tmp_path / "data").write_bytes(data)
    done = run(*to, "--cwd", str(tmp_path), "sh", "-c", "cat data; tail -c 1000000 data >&2")
    assert done.stdout == data
    assert done.stderr == data[-1_000_000:]
    assert done.returncode == 0


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["sh", "-c", "kill -KILL $$"], 137, b""),
        (["sh", "-c", "kill -TERM $$"], 143, b""),
        (["--cwd", "/none", "true"], 125, b"execsrv: failed to enter cwd /none: No such file or directory\n"),
        (["/etc/passwd"], 126, b"execsrv: failed to start program /etc/passwd: Permission denied\n"),
        (["/"], 126, b"execsrv: failed to start program /: Permission denied\n"),
        (["./no-program"], 126, b"execsrv: failed to start program ./no-program: Exec format error\n"),
        (["none"], 127, b"execsrv: failed to start program none: No such file or directory\n"),
        (["/etc/passwd/none"], 127, b"execsrv: failed to start program /etc/passwd/none: Not a directory\n"),
    ],
)
def test_codes(server: Server, tmp_path: Path, words: list[str], code: int, message: bytes) -> None:
    """128 + N for signal N, and those of env(1) when the command did not run."""
    (tmp_path / "no-program").write_text("no program")
    (tmp_path / "no-program").chmod(0o755)
    done = run("--url", server.url, "--cwd", str(tmp_path), *words)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.startswith(message)
    assert done.stderr.count(b"\n") == bool(message)


def test_the_environment_is_the_servers(server: Server) -> None:
    """With what ``--env`` lays over it, and nothing of the caller's."""
    env = {**os.environ, "OF_THE_CALLER": "no"}
    script = "echo $OF_THE_SERVER:$OF_THE_CALLER:$A"
    done = run("--url", server.url, "--env", "A=b c", "sh", "-c", script, env=env)
    assert done.stdout == b"yes::b c\n"


def test_the_directory(to: list[str], tmp_path: Path) -> None:
    """The one that was asked for."""
    assert run(*to, "--cwd", str(tmp_path), "pwd").stdout.decode() == f"{tmp_path}\n"


def test_an_exit_code_that_nobody_knows() -> None:
    """It never looks like success, and is told."""
    with fake_server(lambda request: ending(request, -1) if request["method"] == "process/start" else []) as url:
        done = run("--url", url, "true")
    assert done.returncode == 125
    assert done.stderr == b"execsrv: the command has ended, but its exit code can't be known\n"


# ---- stdin ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script, before", [("cat", 0), ("head -c 3000000 /dev/zero; cat", 3_000_000)])
def test_stdin_is_the_commands(to: list[str], script: str, before: int) -> None:
    """5 MB of all kinds there and back, also when the command fills its output before it reads."""
    data = os.urandom(5_000_001)
    done = run(*to, "sh", "-c", script, input=data)
    assert done.stdout == bytes(before) + data
    assert (done.returncode, done.stderr) == (0, b"")


def test_each_piece_of_stdin_is_passed_on_at_once(server: Server) -> None:
    """A conversation; also when stdin is nonblocking."""
    theirs, ours = os.pipe()
    os.set_blocking(theirs, False)
    with open(ours, "wb", buffering=0) as keys, running("--url", server.url, "cat", stdin=theirs) as program:
        os.close(theirs)
        for line in (b"one\n", b"two\n"):
            keys.write(line)
            assert line_of(program) == line
        keys.close()
        assert program.wait(PATIENCE) == 0


@pytest.mark.parametrize("redirection", ["</dev/null", "<&-", "0>/dev/null"])
def test_no_stdin(redirection: str) -> None:
    """The end of file at once; nohup(1) leaves one that is open for writing."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *PROGRAM, "run", "cat"]
    done = subprocess.run(command, input=b"for nobody", capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_stdin_cannot_be_read(server: Server) -> None:
    """A failure of our own, which is told: the command must not take what came so far for everything."""
    with open("/proc/self/mem", "rb") as nothing_at_its_start:
        done = run("--url", server.url, "sh", "-c", "cat; sleep 1000", stdin=nothing_at_its_start)
    assert done.returncode == 125
    assert done.stderr == f"execsrv: {OSError(errno.EIO, os.strerror(errno.EIO))}\n".encode()


@pytest.mark.parametrize("script, output", [("exit 3", b""), ("head -c 5; exit 3", bytes(5))])
def test_stdin_that_never_ends(server: Server, script: str, output: bytes) -> None:
    """The command ends without reading all of it, and so does the program."""
    with open("/dev/zero", "rb") as zero, running("--url", server.url, "sh", "-c", script, stdin=zero) as program:
        assert program.communicate(timeout=PATIENCE) == (output, b"")
        assert program.returncode == 3


def test_stdin_that_stays_silent(to: list[str]) -> None:
    """It holds nothing up."""
    with running(*to, "sh", "-c", "exit 3", stdin=subprocess.PIPE) as program:
        assert program.wait(PATIENCE) == 3


def test_the_command_closes_its_stdin(server: Server, tmp_path: Path) -> None:
    """What it can't get is no failure."""
    script = "exec <&-; echo closed; until [ -e go ]; do sleep 0.01; done; exit 3"
    words = ["--url", server.url, "--cwd", str(tmp_path), "sh", "-c", script]
    with running(*words, stdin=subprocess.PIPE) as program:
        keys = program.stdin
        assert keys and line_of(program) == b"closed\n"
        keys.write(b"too late")
        assert eventually(lambda: pending(keys) == 0)
        (tmp_path / "go").touch()
        assert program.communicate(timeout=PATIENCE) == (b"", b"")
        assert program.returncode == 3


# ---- its end -------------------------------------------------------------------------------------------------------


def test_a_timeout(server: Server) -> None:
    """124; the whole group is gone, and all output until then arrives, also when it is read only after the kill."""
    script = "sleep 1000 & echo $$ $! >&2; head -c 300000 /dev/zero; wait"
    with running("--url", server.url, "--timeout", "1", "sh", "-c", script) as program:
        assert program.stdout and program.stderr
        assert all(gone(int(pid)) for pid in program.stderr.readline().split())
        assert program.communicate(timeout=PATIENCE) == (bytes(300_000), b"")
        assert program.returncode == 124


def test_who_holds_the_output_open_does_not_hold_the_end_up(server: Server) -> None:
    """A command that leaves something behind: it ends, and what it left is gone."""
    done = run("--url", server.url, "sh", "-c", "sleep 300 & echo $!")
    assert done.returncode == 0
    assert gone(int(done.stdout))


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_ends_the_command(number: signal.Signals) -> None:
    """128 + N; the whole group is gone, and the server that was started for it."""
    with running(*GROUP) as program:
        pids = [*map(int, line_of(program).split()), *children(program.pid)]
        program.send_signal(number)
        assert program.wait(PATIENCE) == 128 + number
        assert program.stderr and program.stderr.read() == b""
    assert len(pids) == 3
    assert all(map(gone, pids))


def test_a_signal_ends_the_remote_command(server: Server) -> None:
    """And the server goes on."""
    with running("--url", server.url, *GROUP) as program:
        pids = [*map(int, line_of(program).split())]
        program.terminate()
        assert program.wait(PATIENCE) == 143
    assert all(map(gone, pids))
    assert server.process.poll() is None


def test_what_is_ignored_stays_ignored() -> None:
    """As under nohup(1): of two signals the second ends it."""
    nohup = ["sh", "-c", "trap '' HUP; exec \"$@\"", "nohup", *PROGRAM, "run", *GROUP]
    with subprocess.Popen(nohup, stdout=subprocess.PIPE, bufsize=0) as program:
        line_of(program)
        program.send_signal(signal.SIGHUP)
        program.send_signal(signal.SIGTERM)
        assert program.wait(PATIENCE) == 143


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_it_is_connected(number: signal.Signals) -> None:
    """Ends it at once, without a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with running("--url", f"ws://127.0.0.1:{silent.getsockname()[1]}", "true") as program:
            silent.settimeout(PATIENCE)
            connection, _ = silent.accept()
            program.send_signal(number)
            assert program.wait(PATIENCE) == -number
            assert program.stderr and program.stderr.read() == b""
            connection.close()


def test_no_server_there() -> None:
    """A failure of our own, in one line."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"ws://127.0.0.1:{closed.getsockname()[1]}"
    done = run("--url", url, "true")
    assert done.returncode == 125
    assert done.stderr.startswith(f"execsrv: can't connect to {url}: ".encode())
    assert done.stderr.count(b"\n") == 1


def test_the_server_dies() -> None:
    """It never looks like success."""
    with running("sh", "-c", "echo up; exec yes") as program:
        assert line_of(program) == b"up\n"
        assert line_of(program) == b"y\n"
        [server] = children(program.pid)
        os.kill(server, signal.SIGKILL)
        _, stderr = program.communicate(timeout=PATIENCE)
        assert program.returncode == 125
        assert stderr.startswith(b"execsrv: exec-server transport closed: ")


# ---- where the output goes -----------------------------------------------------------------------------------------


def test_nobody_reads_the_output(to: list[str]) -> None:
    """As in ``| head -1``: the program and the command end."""
    with running(*to, "sh", "-c", "echo $$; exec yes") as program:
        pid = int(line_of(program))
        assert program.stdout
        program.stdout.close()
        assert program.wait(PATIENCE) == 128 + signal.SIGPIPE
        assert program.stderr and program.stderr.read() == b""
    assert gone(pid)


def test_the_output_cannot_be_written() -> None:
    """A failure of our own, which is told."""
    with open("/dev/full", "wb") as full, running("yes", stdout=full) as program:
        _, stderr = program.communicate(timeout=PATIENCE)
        assert program.returncode == 125
        assert stderr == f"execsrv: {OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))}\n".encode()


@pytest.mark.parametrize("redirections, code", [("<&- 2>&-", 0), ("<&- >&-", 125)])
def test_closed_descriptors(redirections: str, code: int) -> None:
    """Nothing of ours takes their place."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", *PROGRAM, "run", "echo", "hi"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (code, b"" if code else b"hi\n")


def test_a_nonblocking_stdout() -> None:
    """Nothing is lost when it is full."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with open(ours, "rb") as output, running("head", "-c", "1000000", "/dev/zero", stdout=theirs) as program:
        os.close(theirs)
        assert eventually(lambda: pending(output) >= 64 * 1024)
        assert output.read() == bytes(1_000_000)
        assert program.wait(PATIENCE) == 0


def test_a_slow_reader() -> None:
    """64 MB in bursts, each when the program waits: all of it is there, and memory does not grow."""
    line = b"0123456789abcde\n"
    with running("sh", "-c", f"yes {line[:-1].decode()} | head -c 64000000") as program:
        output = program.stdout
        assert output
        received = bytearray()
        while len(received) < 56_000_000:
            assert eventually(lambda: pending(output) >= 32 * 1024)  # the pipe is full, save parts of pages
            received += read_exactly(output, 8_000_000)
        used = [peak_bytes(pid) for pid in (program.pid, *children(program.pid))]
        received += output.readall()  # type: ignore[attr-defined]
        assert program.wait(PATIENCE) == 0
    assert received == line * 4_000_000
    assert max(used) < 80 * 1024 * 1024


def test_a_relative_cwd_is_ours_with_a_local_server(tmp_path: Path) -> None:
    """Its files are the same."""
    (tmp_path / "sub").mkdir()
    done = run("--cwd", "sub", "pwd", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/sub\n".encode())
