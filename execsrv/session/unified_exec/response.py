"""The answer to a call, and its text for the model."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from execsrv.session.unified_exec.head_tail_buffer import RetainedOutput

#: What a token is taken for; only the model knows how many there are.
BYTES_PER_TOKEN = 4

#: A character of UTF-8 has at most so many bytes behind its first one.
_CONTINUATION_BYTES = 3


@dataclass(frozen=True, slots=True)
class ExecCommandResponse:
    """What a command wrote since the last answer, and how it is.

    chunk_id: a name for this piece of output. wall_time: how long the call took, in seconds.
    exit_code: see ExecProcess; None for a command that runs on, as ``session_id``, which is None otherwise.
    max_output_tokens: how much of the output the text may show. warning: a remark for the model.
    """

    chunk_id: str
    wall_time: float
    output: RetainedOutput
    exit_code: int | None
    session_id: int | None
    max_output_tokens: int
    warning: str | None = None

    @property
    def original_token_count(self) -> int:
        """How much the command wrote, in tokens."""
        return _tokens(self.output.total_bytes)

    @property
    def text(self) -> str:
        """All of this for the model; bytes that are not UTF-8 are replaced, and only here."""
        return "\n".join([*self._heading(), "Output:", readable(self.output, self.max_output_tokens)])

    def _heading(self) -> list[str]:
        lines = [f"Chunk ID: {self.chunk_id}", f"Wall time: {self.wall_time:.4f} seconds"]
        if self.exit_code is not None:
            lines.append(f"Process exited with code {self.exit_code}")
        if self.session_id is not None:
            lines.append(f"Process running with session ID {self.session_id}")
        if self.warning:
            lines.append(f"Warning: {self.warning}")
        return [*lines, f"Original token count: {self.original_token_count}"]


def readable(output: RetainedOutput, max_tokens: int) -> str:
    """``output`` as text of about ``max_tokens`` tokens; what is too much is cut out of its middle, which says so."""
    budget = max(0, max_tokens) * BYTES_PER_TOKEN
    if output.total_bytes <= budget and not output.omitted_bytes:
        return _decode(output.retained)
    head, tail = (output.head, output.tail) if output.omitted_bytes else (output.retained, output.retained)
    head = head[: budget // 2]
    tail = tail[max(0, len(tail) - (budget - len(head))) :]
    head = head[: len(head) - unfinished(head)]
    tail = tail[_continued(tail) :]
    cut_out = output.total_bytes - len(head) - len(tail)
    return f"{_decode(head)}…{_tokens(cut_out)} tokens truncated…{_decode(tail)}"


def unfinished(data: bytes) -> int:
    """How many bytes at the end of ``data`` begin a character of UTF-8 that may still be completed."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-_CONTINUATION_BYTES:])
    return len(decoder.getstate()[0])


def _continued(data: bytes) -> int:
    """How many bytes at the start of ``data`` are the rest of a character."""
    start = data[:_CONTINUATION_BYTES]
    return len(start) - len(start.lstrip(bytes(range(0x80, 0xC0))))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)
