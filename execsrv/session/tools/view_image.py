"""The tool ``view_image``: an image file as a data URL."""

from __future__ import annotations

import re

from execsrv.config import MIB
from execsrv.session.environment import ExecutorFileSystem
from execsrv.session.tools.result import ToolFault, ToolResult, file_faults
from execsrv.wire import encode_base64

#: What the model is told of an argument that is out of its bounds.
REFUSALS = {"path": "path must be an absolute path"}

#: The largest image that is passed on: models take no larger ones, and it becomes a third longer as a URL. Bytes.
MAX_IMAGE_BYTES = 20 * MIB

#: How the content of each type begins; a file's name may lie.
_SIGNATURES = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}


def view_image(file_system: ExecutorFileSystem, path: str) -> ToolResult:
    """An image, with its type and size as text.

    Raises ToolFault when it can't be read, is longer than MAX_IMAGE_BYTES or of no type that models see.
    """
    with file_faults("failed to read image"):
        content = file_system.read_file(path)
    if len(content) > MAX_IMAGE_BYTES:
        raise ToolFault(f"`{path}` is too large: {len(content)} bytes, and at most {MAX_IMAGE_BYTES} can be shown")
    media_type = _media_type(content)
    if media_type is None:
        raise ToolFault(f"`{path}` is not a PNG, JPEG, GIF or WebP image")
    url = f"data:{media_type};base64,{encode_base64(content)}"
    return ToolResult(f"{path}: {media_type}, {len(content)} bytes", image_url=url)


def _media_type(content: bytes) -> str | None:
    return next((name for name, signature in _SIGNATURES.items() if signature.match(content)), None)
