"""``execsrv run`` as people use it: at a terminal, which is a pseudoterminal of the test's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from typing import Any

import pytest
from endings import gone
from run_program import (
    GROUP,
    PATIENCE,
    STOP_SIGNALS,
    Message,
    Server,
    ending,
    fake_server,
    run,
    running,
)


class Terminal:
    """A pseudoterminal: the test has the user's end of it, the program runs on the other."""

    def __init__(self, rows: int, columns: int) -> None:
        self._fd, self._programs_end = pty.openpty()
        self.resize(rows, columns)
        self._seen = b""

    def running(self, *words: str, **streams: Any) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        """The program as the leader of a session on this terminal."""
        end = self._programs_end
        on_terminal = {"stdin": end, "stdout": end, "stderr": end, **streams}

        def control() -> None:
            fcntl.ioctl(end, termios.TIOCSCTTY, 0)

        return running(*words, **on_terminal, start_new_session=True, pass_fds=[end], preexec_fn=control)

    def resize(self, rows: int, columns: int) -> None:
        """Drag the window's corner."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

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

    def typed(self) -> bytes:
        """Take the line that waits for the program."""
        return os.read(self._programs_end, 4096)

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
    with terminal.running("--tty", *to, "sh", "-c", "stty size; read line; echo got $line; exit 3") as program:
        assert terminal.read_until(b"\r\n") == b"33 77"
        assert terminal.is_raw()
        terminal.type(b"it\r")
        assert terminal.read_until(b"got it\r\n") == b"it\r\n"
        assert program.wait(PATIENCE) == 3


def test_keys_typed_ahead(server: Server, terminal: Terminal) -> None:
    """They wait for the command."""
    terminal.type(b"early\r")
    with terminal.running("--tty", "--url", server.url, "sh", "-c", "read line; echo got $line") as program:
        terminal.read_until(b"got early\r\n")
        assert program.wait(PATIENCE) == 0


def test_ctrl_c_is_a_key(server: Server, terminal: Terminal) -> None:
    """It interrupts the remote command, which may go on, and not us."""
    script = "trap 'echo caught; exit 9' INT; echo up; while :; do :; done"
    with terminal.running("--tty", "--url", server.url, "sh", "-c", script) as program:
        terminal.read_until(b"up\r\n")
        terminal.type(b"\x03")
        terminal.read_until(b"caught\r\n")
        assert program.wait(PATIENCE) == 9


def test_the_command_on_a_terminal_is_killed(server: Server, terminal: Terminal) -> None:
    """128 + N, and the modes are back."""
    with terminal.running("--tty", "--url", server.url, "sh", "-c", "kill -KILL $$") as program:
        assert program.wait(PATIENCE) == 137


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_ends_the_command_on_a_terminal(
    server: Server, terminal: Terminal, number: signal.Signals
) -> None:
    """The modes are back and the command is gone."""
    with terminal.running("--tty", "--url", server.url, *GROUP) as program:
        pids = terminal.read_until(b"\r\n").split()
        assert terminal.is_raw()
        program.send_signal(number)
        assert program.wait(PATIENCE) == 128 + number
    assert all(gone(int(pid)) for pid in pids)


def test_the_server_dies_on_a_terminal(terminal: Terminal) -> None:
    """The modes are back before the message is shown."""
    server = Server()
    with terminal.running("--tty", "--url", server.url, *GROUP) as program:
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
    with terminal.running("--tty", "--url", server.url, *GROUP, stderr=subprocess.PIPE) as program:
        pids = terminal.read_until(b"\r\n").split()
        terminal.hang_up()
        assert program.wait(PATIENCE) == 128 + signal.SIGHUP
        assert program.stderr and program.stderr.read() == b""
    terminal.close()
    assert all(gone(int(pid)) for pid in pids)


def test_the_window_changes(server: Server, terminal: Terminal) -> None:
    """So does the command's, each time."""
    script = "trap 'stty size; n=$n+; [ $n != ++ ] || exit 4' WINCH; sleep 1000 & echo up; while :; do wait; done"
    with terminal.running("--tty", "--url", server.url, "sh", "-c", script) as program:
        terminal.read_until(b"up\r\n")
        for rows, columns in [(40, 100), (11, 22)]:
            terminal.resize(rows, columns)
            assert terminal.read_until(b"\r\n") == b"%d %d" % (rows, columns)
        assert program.wait(PATIENCE) == 4


def test_the_window_changes_while_the_command_is_started(terminal: Terminal) -> None:
    """The command has the first size then, and gets the second."""
    sizes = []

    def further(request: Message) -> list[Message]:
        if request["method"] == "process/start":
            terminal.resize(44, 88)
        if request["method"] in ("process/start", "process/resize"):
            sizes.append(request["params"]["size"])
        return ending(request, 0) if request["method"] == "process/resize" else []

    with fake_server(further) as url, terminal.running("--tty", "--url", url, "true") as program:
        assert program.wait(PATIENCE) == 0
    assert sizes == [{"rows": 33, "cols": 77}, {"rows": 44, "cols": 88}]


def test_keys_are_for_a_command_on_a_terminal_only(server: Server, terminal: Terminal) -> None:
    """Without ``--tty`` it finds the end of file; what was typed is for who reads next."""
    terminal.type(b"for the shell\r")
    with terminal.running("--url", server.url, "cat") as program:
        assert program.wait(PATIENCE) == 0
    terminal.read_until(b"for the shell\r\n")
    assert terminal.typed() == b"for the shell\n"


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
    with terminal.running("--tty", "--url", server.url, "stty", "size") as program:
        assert terminal.read_until(b"\r\n") == b"24 80"
        assert program.wait(PATIENCE) == 0
    terminal.close()
