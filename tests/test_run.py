"""``execsrv run`` as people and shells use it: the real program, with a server of its own and with a remote one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

#: Longest wait for anything, in seconds.
PATIENCE = 20.0

PROGRAM = [sys.executable, "-m", "execsrv"]
STOP_SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


class Server:
    """A websocket server with a variable of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "--listen", "ws://127.0.0.1:0"],
            stderr=subprocess.PIPE,
            env={**os.environ, "OF_THE_SERVER": "yes"},
        )
        assert self.process.stderr
        self.url = self.process.stderr.readline().decode().split()[-1]

    def end(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for all tests."""
    server = Server()
    yield server
    server.end()


@pytest.fixture(params=["local", "url"])
def to(request: pytest.FixtureRequest) -> list[str]:
    """Options that choose the server: none for one of its own."""
    return ["--url", request.getfixturevalue("server").url] if request.param == "url" else []


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run to the end with these words; stdout and stderr are collected."""
    return subprocess.run([*PROGRAM, "run", *words], capture_output=True, timeout=PATIENCE, **options)


def gone(pid: int) -> bool:
    """Wait until the process has ended; False when it goes on for PATIENCE seconds."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], PATIENCE)[0])
    finally:
        os.close(pidfd)


@contextlib.contextmanager
def running(*words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The program at work, with pipes; killed at the end if it still runs."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen([*PROGRAM, "run", *words], bufsize=0, **pipes) as program:
        try:
            yield program
        finally:
            program.kill()


def eventually(condition: Callable[[], bool]) -> bool:
    """Look again and again, for what nothing tells, until it holds; False after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def line_of(program: subprocess.Popen[bytes]) -> bytes:
    """The next line of its stdout."""
    assert program.stdout
    return program.stdout.readline()


def pending(stream: IO[bytes]) -> int:
    """Bytes that wait in a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))[0])


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """So many bytes, fewer only at the end."""
    data = bytearray()
    while len(data) < size and (piece := stream.read(size - len(data))):
        data += piece
    return bytes(data)


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def children(pid: int) -> list[int]:
    """The children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


#: Prints the pids of itself and of a child in its group, then goes on for long.
GROUP = ["sh", "-c", "sleep 1000 & echo $$ $!; wait"]


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
        (["--cwd", "/none", "true"], 125, b"execsrv: failed to start cwd /none: No such file or directory\n"),
        (["--cwd", "relative", "true"], 125, b"execsrv: params.cwd: must be an absolute path"),
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


def test_stdin_is_empty_without_a_terminal(server: Server) -> None:
    """The command reads to the end at once."""
    assert run("--url", server.url, "cat", input=b"for nobody").stdout == b""


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


# ---- on a terminal -------------------------------------------------------------------------------------------------


class Terminal:
    """A pseudoterminal: the test has the user's end of it, the program runs on the other."""

    def __init__(self, rows: int, columns: int) -> None:
        self._fd, self._programs_end = pty.openpty()
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._seen = b""

    def running(self, *words: str, **streams: Any) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        """The program with ``--tty`` as the leader of a session on this terminal."""
        end = self._programs_end
        on_terminal = {"stdin": end, "stdout": end, "stderr": end, **streams}

        def control() -> None:
            fcntl.ioctl(end, termios.TIOCSCTTY, 0)

        return running("--tty", *words, **on_terminal, start_new_session=True, pass_fds=[end], preexec_fn=control)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._fd, keys)

    def read_until(self, end: bytes) -> bytes:
        """What is shown up to, and without, ``end``."""
        while end not in self._seen:
            assert select.select([self._fd], [], [], PATIENCE)[0], self._seen
            self._seen += os.read(self._fd, 4096)
        shown, _, self._seen = self._seen.partition(end)
        return shown

    def is_raw(self) -> bool:
        """Do all keys go through?"""
        return not self.modes()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def modes(self) -> list[Any]:
        """See tcgetattr."""
        return termios.tcgetattr(self._programs_end)

    def hang_up(self) -> None:
        """Close the user's end."""
        os.close(self._fd)
        self._fd = -1

    def close(self) -> None:
        """Free both ends."""
        os.close(self._programs_end)
        if self._fd >= 0:
            os.close(self._fd)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """One of an uncommon size, in the usual modes, which it must have at the end again."""
    terminal = Terminal(33, 77)
    modes = terminal.modes()
    yield terminal
    assert terminal.modes() == modes
    terminal.close()


def test_a_terminal_for_a_terminal(terminal: Terminal, to: list[str]) -> None:
    """The size is ours from the first moment, keys reach the command, and modes are raw only while it runs."""
    with terminal.running(*to, "sh", "-c", "stty size; read line; echo got $line; exit 3") as program:
        assert terminal.read_until(b"\r\n") == b"33 77"
        assert terminal.is_raw()
        terminal.type(b"it\r")
        assert terminal.read_until(b"got it\r\n") == b"it\r\n"
        assert program.wait(PATIENCE) == 3


def test_keys_typed_ahead(server: Server, terminal: Terminal) -> None:
    """They wait for the command."""
    terminal.type(b"early\r")
    with terminal.running("--url", server.url, "sh", "-c", "read line; echo got $line") as program:
        terminal.read_until(b"got early\r\n")
        assert program.wait(PATIENCE) == 0


def test_ctrl_c_is_a_key(server: Server, terminal: Terminal) -> None:
    """It interrupts the remote command, which may go on, and not us."""
    script = "trap 'echo caught; exit 9' INT; echo up; while :; do :; done"
    with terminal.running("--url", server.url, "sh", "-c", script) as program:
        terminal.read_until(b"up\r\n")
        terminal.type(b"\x03")
        terminal.read_until(b"caught\r\n")
        assert program.wait(PATIENCE) == 9


def test_the_command_on_a_terminal_is_killed(server: Server, terminal: Terminal) -> None:
    """128 + N, and the modes are back."""
    with terminal.running("--url", server.url, "sh", "-c", "kill -KILL $$") as program:
        assert program.wait(PATIENCE) == 137


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_ends_the_command_on_a_terminal(
    server: Server, terminal: Terminal, number: signal.Signals
) -> None:
    """The modes are back and the command is gone."""
    with terminal.running("--url", server.url, *GROUP) as program:
        pids = terminal.read_until(b"\r\n").split()
        assert terminal.is_raw()
        program.send_signal(number)
        assert program.wait(PATIENCE) == 128 + number
    assert all(gone(int(pid)) for pid in pids)


def test_the_server_dies_on_a_terminal(terminal: Terminal) -> None:
    """The modes are back before the message is shown."""
    server = Server()
    with terminal.running("--url", server.url, *GROUP) as program:
        pids = terminal.read_until(b"\r\n").split()
        server.process.kill()
        terminal.read_until(b"execsrv: exec-server transport closed: ")
        assert not terminal.is_raw()
        assert program.wait(PATIENCE) == 125
    server.end()
    assert all(gone(int(pid)) for pid in pids)


def test_the_terminal_hangs_up(server: Server) -> None:
    """The command is gone; there are no modes to put back, and no traceback about that."""
    terminal = Terminal(24, 80)
    with terminal.running("--url", server.url, *GROUP, stderr=subprocess.PIPE) as program:
        pids = terminal.read_until(b"\r\n").split()
        terminal.hang_up()
        assert program.wait(PATIENCE) == 128 + signal.SIGHUP
        assert program.stderr and program.stderr.read() == b""
    terminal.close()
    assert all(gone(int(pid)) for pid in pids)


@pytest.mark.parametrize(
    "given, shown",
    [(b"line\n", b"line\r\nline\r\n"), (b"part", b"partpart"), (b"a\npart", b"a\r\na\r\npartpart")],
)
def test_a_terminal_without_a_terminal(server: Server, given: bytes, shown: bytes) -> None:
    """What stdin holds is typed, and then the end of file, also within a line."""
    done = run("--url", server.url, "--tty", "sh", "-c", "stty -echoctl; cat", input=given)
    assert done.returncode == 0
    assert sorted(done.stdout) == sorted(shown)  # what is echoed may come in between


def test_the_size_is_unknown(server: Server) -> None:
    """Then it is 24 x 80, also where a terminal says 0 x 0."""
    assert run("--url", server.url, "--tty", "stty", "size").stdout == b"24 80\r\n"
    terminal = Terminal(0, 0)
    with terminal.running("--url", server.url, "stty", "size") as program:
        assert terminal.read_until(b"\r\n") == b"24 80"
        assert program.wait(PATIENCE) == 0
    terminal.close()
