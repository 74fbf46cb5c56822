"""Output as text: UTF-8 in chunks that may end in the middle of a character."""

from __future__ import annotations

import codecs
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from execsrv.protocol.common import StreamName
from execsrv.protocol.events import ProcessOutput


@dataclass(frozen=True, slots=True)
class TextOutput:
    """Characters that a process wrote."""

    stream: StreamName
    text: str


def decode(data: bytes) -> str:
    """Decode UTF-8; wrong bytes are replaced and line ends become "\\n"."""
    return _new_decoder().decode(data, final=True)


def decode_outputs(outputs: Iterable[ProcessOutput]) -> Iterator[TextOutput]:
    """Decode each stream by itself, as ``decode`` does; the beginning of a character waits for the rest of it."""
    decoders: defaultdict[StreamName, io.IncrementalNewlineDecoder] = defaultdict(_new_decoder)
    for output in outputs:
        if text := decoders[output.stream].decode(output.chunk):
            yield TextOutput(output.stream, text)
    for stream, decoder in decoders.items():
        if text := decoder.decode(b"", final=True):
            yield TextOutput(stream, text)


def _new_decoder() -> io.IncrementalNewlineDecoder:
    return io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
