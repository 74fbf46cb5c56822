"""``execsrv run``: one command through a server, as if it ran here."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import sys
import termios
import threading
import tty as terminal_modes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from execsrv.client.client import ExecServerClient
from execsrv.client.errors import ExecServerError, ServerError
from execsrv.client.local import spawn_local_exec_server
from execsrv.client.process import DRAIN_SECONDS, Process
from execsrv.protocol import EnvPolicy, Size

#: Exit codes that are not the command's, as env(1) and timeout(1) have them.
TIMED_OUT, OWN_FAILURE, NOT_EXECUTABLE, NOT_FOUND = 124, 125, 126, 127

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

#: How long the last output of a killed command is waited for, in seconds.
LAST_OUTPUT_SECONDS = 2.0

#: End of file, as a terminal in its usual mode takes it: at the start of a line; within one it ends that (termios(3)).
_END_OF_FILE = b"\x04"

#: How the command ended for us: by itself (None), by a signal to us, or by an error while passing its output on.
Outcome: TypeAlias = signal.Signals | OSError | ExecServerError | None


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
    )


def _follow(process: Process, command: Command) -> int:
    """Pass output on, and keys on a terminal, until the command ends or somebody wants it to."""
    outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    with _stop_signals_put_into(outcomes), _terminal_in_raw_mode(command.tty):
        output = threading.Thread(target=_pass_output_on, args=(process, outcomes), daemon=True)
        output.start()
        if command.tty:
            threading.Thread(target=_pass_input_on, args=(process,), daemon=True).start()
        with contextlib.suppress(queue.Empty):
            return _exit_code(process, outcomes.get(timeout=command.timeout))
    process.kill()
    output.join(LAST_OUTPUT_SECONDS)
    return TIMED_OUT


def _exit_code(process: Process, outcome: Outcome) -> int:
    if isinstance(outcome, signal.Signals):
        return 128 + outcome
    if isinstance(outcome, BrokenPipeError):  # nobody reads our output: end as a command in a pipeline does
        return 128 + signal.SIGPIPE
    if outcome:
        raise outcome
    code = process.wait()
    return code if code >= 0 else OWN_FAILURE


def _pass_output_on(process: Process, outcomes: queue.SimpleQueue[Outcome]) -> None:
    try:
        for output in process.output(DRAIN_SECONDS):
            _write(2 if output.stream == "stderr" else 1, output.chunk)
        outcomes.put(None)
    except (OSError, ExecServerError) as error:
        outcomes.put(error)


def _pass_input_on(process: Process) -> None:
    """Until our stdin or the process ends."""
    last = b"\n"
    with contextlib.suppress(ExecServerError, OSError):
        while keys := os.read(0, 64 * 1024):
            process.write(keys)
            last = keys
        process.write(_END_OF_FILE if last.endswith(b"\n") else 2 * _END_OF_FILE)


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
def _stop_signals_put_into(outcomes: queue.SimpleQueue[Outcome]) -> Iterator[None]:
    """A signal that asks us to end becomes an outcome, so that everything is put in order before.

    One that our parent wants ignored, as nohup(1) does, stays so. The way is the wakeup descriptor, since a Python
    handler waits for the main thread, which may be about to wait for an outcome.
    """
    numbers, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    threading.Thread(target=_pass_signals_on, args=(numbers, outcomes), daemon=True).start()
    signal.set_wakeup_fd(wakeup)
    before = {
        number: signal.signal(number, lambda number, frame: None)
        for number in STOP_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(wakeup)


def _pass_signals_on(numbers: int, outcomes: queue.SimpleQueue[Outcome]) -> None:
    with open(numbers, "rb", buffering=0) as pipe:
        while number := pipe.read(1):
            outcomes.put(signal.Signals(number[0]))
