"""The faults that every dialect words alike."""

from __future__ import annotations

from execsrv.errors import InvalidParams, InvalidRequest
from execsrv.wire import decode_base64


def duplicate_process(process_id: str) -> InvalidRequest:
    """The id belongs to another process."""
    return InvalidRequest(f"process {process_id} already exists", kind="duplicateProcess")


def unknown_process(process_id: str) -> InvalidRequest:
    """No process ever had the id."""
    return InvalidRequest(f"unknown process id {process_id}", kind="unknownProcess")


def forgotten_process(process_id: str, exit_code: int, exited_at_ms: int) -> InvalidRequest:
    """The process was closed so long ago that only its end is known."""
    return InvalidRequest(
        f"unknown process id {process_id}", kind="processForgotten", exitCode=exit_code, exitedAtMs=exited_at_ms
    )


def stdin_closed(process_id: str) -> InvalidRequest:
    """The process has no input, or none any more."""
    return InvalidRequest(f"stdin is closed for process {process_id}", kind="stdinClosed")


def process_exited(process_id: str) -> InvalidRequest:
    """The process has ended, so nothing can be done to it."""
    return InvalidRequest(f"process {process_id} has exited", kind="processExited")


def no_terminal(process_id: str) -> InvalidRequest:
    """The process was started with pipes."""
    return InvalidRequest(f"process {process_id} has no terminal", kind="noTerminal")


def limit_exceeded(limit: int, what: str) -> InvalidRequest:
    """One more would be above ``limit``."""
    return InvalidRequest(f"limit exceeded: at most {limit} {what}", kind="limitExceeded")


def decode_chunk(chunk: str) -> bytes:
    """The bytes of ``params.chunk``. Raises InvalidParams."""
    try:
        return decode_base64(chunk)
    except ValueError as error:
        raise InvalidParams(f"params.chunk: not base64: {error}") from None
