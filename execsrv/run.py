"""``execsrv run``: one command through a server, as if it ran here."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import select
import signal
import sys
import termios
import threading
import tty as terminal_modes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from execsrv.client.client import ExecServerClient
from execsrv.client.errors import ExecServerError, ServerError
from execsrv.client.local import spawn_local_exec_server
from execsrv.client.process import DRAIN_SECONDS, Process
from execsrv.protocol.processes import EnvPolicy, Size

#: Exit codes that are not the command's, as env(1) and timeout(1) have them.
TIMED_OUT, OWN_FAILURE, NOT_EXECUTABLE, NOT_FOUND = 124, 125, 126, 127

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

#: How long the last output of a killed command is waited for, in seconds.
LAST_OUTPUT_SECONDS = 2.0

#: Most that is read of our stdin, and written to the command, at one time.
INPUT_BYTES = 256 * 1024

#: How the command ended for us: by itself (None), by a signal to us, or by an error while passing data on.
Outcome: TypeAlias = signal.Signals | OSError | ExecServerError | None

#: What to call, and on which signals.
Receivers: TypeAlias = dict[signal.Signals, Callable[[signal.Signals], None]]


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: ``cwd`` None is the server's own, ``env`` is laid over the server's, ``timeout`` is in seconds."""

    argv: Sequence[str]
    tty: bool = False
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    timeout: float | None = None


def run_command(command: Command, url: str | None = None) -> int:
    """Run ``command`` on the server at ``url``, or on one of its own; return the exit code for the program."""
    _open_standard_descriptors()
    try:
        with ExecServerClient.connect_websocket(url) if url else spawn_local_exec_server() as client:
            process = _start(client, command)
            with process:
                return _follow(process, command)
    except ServerError as error:
        print(f"execsrv: {error}", file=sys.stderr)
        if isinstance(error.data, dict) and error.data.get("subject") == "program":
            return NOT_FOUND if error.kind == "spawnNotFound" else NOT_EXECUTABLE
        return OWN_FAILURE
    except (ExecServerError, OSError) as error:
        print(f"execsrv: {error}", file=sys.stderr)
        return OWN_FAILURE


def _start(client: ExecServerClient, command: Command) -> Process:
    return client.start(
        command.argv,
        cwd=command.cwd,
        env=command.env,
        env_policy=EnvPolicy(ignore_default_excludes=True),
        tty=command.tty,
        size=_window_size(),
        pipe_stdin=_passes_input_on(command),
    )


def _passes_input_on(command: Command) -> bool:
    """Our terminal's keys are for a command on a terminal only: others may run in the background, and many at once."""
    return command.tty or not os.isatty(0)


def _follow(process: Process, command: Command) -> int:
    """Pass data on in both directions until the command ends or somebody wants it to."""
    outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    resized = threading.Event()
    receivers: Receivers = {number: outcomes.put for number in STOP_SIGNALS}
    if command.tty:
        receivers[signal.SIGWINCH] = lambda number: resized.set()
    with _signals_passed_to(receivers), _terminal_in_raw_mode(command.tty):
        output = _in_background(_pass_output_on, process, outcomes)
        if _passes_input_on(command):
            _in_background(_pass_input_on, process, outcomes)
        if command.tty:
            resized.set()  # it may have been, since the start
            _in_background(_pass_size_on, process, resized)
        with contextlib.suppress(queue.Empty):
            return _exit_code(process, outcomes.get(timeout=command.timeout))
    process.kill()
    output.join(LAST_OUTPUT_SECONDS)
    return TIMED_OUT


def _in_background(work: Callable[..., None], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=args, daemon=True)
    thread.start()
    return thread


def _exit_code(process: Process, outcome: Outcome) -> int:
    if isinstance(outcome, signal.Signals):
        return 128 + outcome
    if isinstance(outcome, BrokenPipeError):  # nobody reads our output: end as a command in a pipeline does
        return 128 + signal.SIGPIPE
    if outcome:
        raise outcome
    code = process.wait()
    if code < 0:
        raise ExecServerError("the command has ended, but its exit code can't be known")
    return code


def _pass_output_on(process: Process, outcomes: queue.SimpleQueue[Outcome]) -> None:
    try:
        for output in process.output(DRAIN_SECONDS):
            _write(2 if output.stream == "stderr" else 1, output.chunk)
        outcomes.put(None)
    except (OSError, ExecServerError) as error:
        outcomes.put(error)


def _pass_input_on(process: Process, outcomes: queue.SimpleQueue[Outcome]) -> None:
    """Until our stdin ends, or the command takes no more."""
    is_terminal = os.isatty(0)
    try:
        while data := _read():
            process.write(data)
        process.close_stdin()
    except ExecServerError:
        pass  # if that is the end of more than the command's stdin, its output's end tells
    except OSError as error:
        if not is_terminal:  # which fails when it hangs up, and that is a signal's to tell
            outcomes.put(error)


def _pass_size_on(process: Process, resized: threading.Event) -> None:
    """Until the process ends; of several changes at once the last counts."""
    with contextlib.suppress(ExecServerError):
        while resized.wait():
            resized.clear()
            if size := _window_size():
                process.resize(size.rows, size.cols)


def _read() -> bytes:
    """What our stdin has next, also when somebody made it nonblocking; nothing at its end."""
    while True:
        try:
            return os.read(0, INPUT_BYTES)
        except BlockingIOError:
            select.select([0], [], [])
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            return b""  # it is open for writing only: that is how nohup(1) takes a terminal away


def _write(fd: int, data: bytes) -> None:
    """Write all of ``data``, also when somebody made the descriptor nonblocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select([], [fd], [])


def _open_standard_descriptors() -> None:
    """Fill those that our parent has closed, or a pipe of ours would become our stdout. Writes go on to fail."""
    while (fd := os.open(os.devnull, os.O_RDONLY)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def _window_size() -> Size | None:
    """That of our terminal, if we have one."""
    for fd in (0, 1, 2):
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(fd)
            if size.lines and size.columns:
                return Size(size.lines, size.columns)
    return None


@contextlib.contextmanager
def _terminal_in_raw_mode(wanted: bool) -> Iterator[None]:
    """Let every key through to the command; put the modes back on every way out."""
    if not wanted or not os.isatty(0):
        yield
        return
    modes = termios.tcgetattr(0)
    try:
        terminal_modes.setraw(0, termios.TCSADRAIN)  # keys that were typed ahead stay
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(0, termios.TCSADRAIN, modes)


@contextlib.contextmanager
def _signals_passed_to(receivers: Receivers) -> Iterator[None]:
    """Call the receiver of each signal that comes, on another thread; so everything can be put in order before we end.

    One that our parent wants ignored, as nohup(1) does, stays so. The way is the wakeup descriptor, since a Python
    handler waits for the main thread, which may be about to wait for an outcome.
    """
    numbers, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    _in_background(_pass_signals_on, numbers, receivers)
    signal.set_wakeup_fd(wakeup)
    before = {
        number: signal.signal(number, lambda number, frame: None)
        for number in receivers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(wakeup)


def _pass_signals_on(numbers: int, receivers: Receivers) -> None:
    with open(numbers, "rb", buffering=0) as pipe:
        while byte := pipe.read(1):
            number = signal.Signals(byte[0])
            receivers[number](number)
