"""Images as data URLs."""

from __future__ import annotations

import base64

import pytest
from fake_files import FakeFiles

from execsrv.session.tools.result import ToolFault
from execsrv.session.tools.view_image import MAX_IMAGE_BYTES, view_image

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    "content, media_type",
    [
        (PNG + bytes(range(256)), "image/png"),
        (b"\xff\xd8\xff\xe0...", "image/jpeg"),
        (b"GIF87a...", "image/gif"),
        (b"GIF89a...", "image/gif"),
        (b"RIFF\n\0\0\0WEBPVP8 ...", "image/webp"),
    ],
)
def test_an_image_is_given_with_the_type_of_its_content(content: bytes, media_type: str) -> None:
    """Whatever its name says; the bytes are those of the file."""
    result = view_image(FakeFiles({"a.txt": content}), "/a.txt")
    assert result.success and result.image_url
    assert result.text == f"/a.txt: {media_type}, {len(content)} bytes"
    head, _, data = result.image_url.partition(",")
    assert head == f"data:{media_type};base64"
    assert base64.b64decode(data, validate=True) == content


@pytest.mark.parametrize("content", [b"", b"text", PNG[:-1], b"GIF88a", b"RIFF\0\0\0\0WAVE", b"BM....", b" " + PNG])
def test_what_is_no_image_is_a_fault(content: bytes) -> None:
    """Nor an image of another type, even with the right name."""
    with pytest.raises(ToolFault, match="^`/a.png` is not a PNG, JPEG, GIF or WebP image$"):
        view_image(FakeFiles({"a.png": content}), "/a.png")


def test_an_image_has_a_largest_size() -> None:
    """One byte more is a fault."""
    largest = PNG.ljust(MAX_IMAGE_BYTES, b"\0")
    assert view_image(FakeFiles({"a": largest}), "/a").success
    words = f"^`/a` is too large: {MAX_IMAGE_BYTES + 1} bytes, and at most {MAX_IMAGE_BYTES} can be shown$"
    with pytest.raises(ToolFault, match=words):
        view_image(FakeFiles({"a": largest + b"\0"}), "/a")


def test_what_keeps_a_file_from_being_read_is_told() -> None:
    """One that is not there, and a directory."""
    for path, words in {"/x": "No such file or directory", "/d": "Is a directory"}.items():
        with pytest.raises(ToolFault, match=f"^failed to read image: {words}$"):
            view_image(FakeFiles({"d": {}}), path)
