"""Commands on this machine, as children of this program. Linux only.

gevent's subprocess, which a program has that ``gevent.monkey`` has patched, may take an exit code away: it is -1 then.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import functools
import os
import pwd
import select
import subprocess
import termios
import threading
from collections.abc import Iterator
from typing import Any

from execsrv.client.client import CALLBACK_SECONDS
from execsrv.client.events import EventBus
from execsrv.config import KIB
from execsrv.session.unified_exec.errors import StartFailed
from execsrv.session.unified_exec.kernel_session import kill_kernel_session, living_groups
from execsrv.session.unified_exec.request import UNKNOWN_EXIT_CODE, ExecRequest, check_room

#: Output that is handed on in one piece.
CHUNK_BYTES = 64 * KIB

#: What a terminal may still hold when its process has ended: the kernel keeps less, and writers may go on.
TERMINAL_REST_BYTES = 64 * KIB

#: How often one looks whether descendants live that hold no stream, in seconds: nothing tells of their end.
LOOK_SECONDS = 5.0


class LocalSessionFactory:
    """Starts commands here, without any server. Its bus is its own; ``close`` ends that."""

    def __init__(self) -> None:
        self._events = EventBus({})

    @property
    def shell(self) -> str:
        """The user's shell."""
        return os.environ.get("SHELL") or _login_shell()

    @property
    def events(self) -> EventBus:
        """The bus for its commands."""
        return self._events

    def open(self, request: ExecRequest) -> LocalProcess:
        """Start a command. Raises StartFailed when the system refuses, and SandboxUnsupported."""
        request.refuse_sandbox()
        try:
            return LocalProcess(request)
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # ValueError: a NUL in a word, for instance
            raise StartFailed(str(error)) from error

    def close(self) -> None:
        """End the bus; wait until the callbacks have had all that came before. Twice is harmless."""
        self._events.end(None)
        self._events.join(CALLBACK_SECONDS)


class LocalProcess:
    """A child that leads a session of its own, on a pipe or a terminal. See ExecProcess.

    It is reaped when nothing is left of it: until then its number is also that of its session, and nobody else's.
    Raises OSError and ValueError when it can't be started.
    """

    def __init__(self, request: ExecRequest) -> None:
        self.exit_code: int | None = None
        self._is_terminal = request.tty
        self._at_end = False  # of the stream
        self._input = bytearray()
        self._lock = threading.Lock()  # guards what follows, and the descriptors against being closed while in use
        self._terminated = False
        self._is_child = True
        with contextlib.ExitStack() as owned:
            self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            owned.callback(os.close, self._wakeup)
            self._child, self._stream = _start(request, owned)
            os.set_blocking(self._stream, False)
            self._pidfd = os.pidfd_open(self._child.pid)
            owned.callback(os.close, self._pidfd)
            self._owned = owned.pop_all()

    def output(self) -> Iterator[bytes]:
        """Yield what it writes, until its end."""
        while self._pidfd not in self._wait(self._pidfd):
            if chunk := self._read(CHUNK_BYTES):
                yield chunk
        if rest := self._read(TERMINAL_REST_BYTES if self._is_terminal else self._pending()):
            yield rest
        self.exit_code = self._find_exit_code()

    def linger(self) -> None:
        """Drop what descendants write, until all are gone or ``terminate`` is called; then free everything."""
        while self._is_child and not self._terminated:
            if self._at_end and not living_groups(self._child.pid):
                break
            self._wait(timeout=LOOK_SECONDS if self._at_end else None)
            self._read(CHUNK_BYTES)
        with self._lock:
            self._is_child = False
            self._owned.close()

    def write(self, data: bytes, timeout: float) -> None:
        """Let the thread that follows the process write ``data``; that needs no waiting here.

        Raises WriteFailed when too much waits already.
        """
        with self._lock:
            check_room(len(self._input) + len(data))
            if self._is_child:
                self._input += data
                os.eventfd_write(self._wakeup, 1)

    def terminate(self, timeout: float) -> None:
        """Kill all of its session, which takes no time."""
        with self._lock:
            self._terminated = True
            if self._is_child:
                kill_kernel_session(self._child.pid)
                os.eventfd_write(self._wakeup, 1)

    def _wait(self, *others: int, timeout: float | None = None) -> set[int]:
        """Wait until there is output, room for input that waits, a wakeup or one of ``others`` is ready: those."""
        poll = select.poll()
        for fd in (self._wakeup, *others):
            poll.register(fd, select.POLLIN)
        if not self._at_end:
            poll.register(self._stream, select.POLLIN | (select.POLLOUT if self._input else 0))
        ready = dict(poll.poll(timeout and timeout * 1000))
        if self._wakeup in ready:
            os.eventfd_read(self._wakeup)
        if ready.get(self._stream, 0) & select.POLLOUT:
            self._feed()
        return set(ready)

    def _read(self, limit: int) -> bytes:
        """Read what is there, up to ``limit`` bytes: a terminal gives it in small pieces."""
        data = bytearray()
        while len(data) < limit and (piece := self._read_piece(limit - len(data))):
            data += piece
        return bytes(data)

    def _read_piece(self, limit: int) -> bytes:
        try:
            piece = os.read(self._stream, limit)
        except BlockingIOError:
            return b""
        except OSError:  # EIO: nobody holds the terminal's other side any more
            piece = b""
        self._at_end = not piece
        return piece

    def _pending(self) -> int:
        """The bytes that the pipe holds (FIONREAD, ioctl_pipe(2)): all of what the dead process wrote is among them."""
        count = array.array("i", [0])
        fcntl.ioctl(self._stream, termios.FIONREAD, count)
        return count[0]

    def _feed(self) -> None:
        with self._lock:
            try:
                del self._input[: os.write(self._stream, self._input[:CHUNK_BYTES])]
            except BlockingIOError:
                pass
            except OSError:  # EIO, as above
                self._input.clear()

    def _find_exit_code(self) -> int:
        """The status of the dead child, which stays a zombie."""
        try:
            status = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # somebody else in this program reaped it: its number may be a stranger's
            with self._lock:
                self._is_child = False
            return UNKNOWN_EXIT_CODE
        assert status
        return status.si_status if status.si_code == os.CLD_EXITED else 128 + status.si_status


def _start(request: ExecRequest, owned: contextlib.ExitStack) -> tuple[subprocess.Popen[bytes], int]:
    """Start the child; ``owned`` ends it and closes our side of its stream, which is returned too."""
    if not request.tty:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        child = _spawn(request, start_new_session=True, **pipes)
        assert child.stdout
        stream = owned.enter_context(child.stdout)
    else:
        master, slave = os.openpty()
        stream = owned.enter_context(open(master, "rb", buffering=0))
        with open(slave, "rb", buffering=0):
            termios.tcsetwinsize(slave, (request.size.rows, request.size.cols))
            child = _spawn(request, preexec_fn=functools.partial(os.login_tty, slave))
    owned.callback(_reap, child)
    return child, stream.fileno()


def _spawn(request: ExecRequest, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(request.argv),
        bufsize=0,
        cwd=request.cwd,
        env={**os.environ, **request.env},
        pass_fds=request.inherited_fds,
        **options,
    )


def _reap(child: subprocess.Popen[bytes]) -> None:
    child.kill()  # which does nothing to one that is dead
    child.wait()


def _login_shell() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:  # a container's user without an entry
        return ""
