"""Reading a file: regular ones only, and never more than the limits."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from own_thread import in_time

from execsrv.errors import InvalidRequest
from execsrv.server.files.read_file import READ_AHEAD_BYTES, ReadLimits, read_file

MIB = 1024 * 1024
WIDE = ReadLimits(file_bytes=64 * MIB, message_bytes=64 * MIB)


def refusal(path: Path | str, limits: ReadLimits = WIDE) -> InvalidRequest:
    """What reading ``path`` is refused with, in time."""
    with pytest.raises(InvalidRequest) as caught:
        in_time(lambda: read_file(os.fsencode(path), limits))
    return caught.value


@pytest.mark.parametrize("size", [0, 1, READ_AHEAD_BYTES, 3 * MIB + 1])
def test_the_content_comes_whole(tmp_path: Path, size: int) -> None:
    """Empty, small and larger than one read."""
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    assert read_file(bytes(tmp_path / "file"), WIDE) == data


def test_a_link_is_followed(tmp_path: Path) -> None:
    """The file at its end is read."""
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "link").symlink_to("file")
    assert read_file(bytes(tmp_path / "link"), WIDE) == b"data"


def test_files_that_tell_no_size_are_read() -> None:
    """Those of /proc say 0 and have content."""
    assert os.stat("/proc/self/status").st_size == 0
    assert b"Pid:" in read_file(b"/proc/self/status", WIDE)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """With its own kind."""
    assert refusal(tmp_path).kind == "isADirectory"


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    """Nobody writes to it, and nothing waits for that."""
    os.mkfifo(tmp_path / "fifo")
    fault = refusal(tmp_path / "fifo")
    assert fault.kind == "invalidInput"
    assert fault.message == f"{tmp_path}/fifo is not a regular file"


def test_a_refused_fifo_does_not_wake_its_writer(tmp_path: Path) -> None:
    """A writer that waits for its reader goes on waiting and then meets that one."""
    os.mkfifo(tmp_path / "fifo")
    writer = threading.Thread(target=lambda: (tmp_path / "fifo").write_bytes(b"for the reader"), daemon=True)
    writer.start()
    refusal(tmp_path / "fifo")
    assert in_time(lambda: (tmp_path / "fifo").read_bytes()) == b"for the reader"
    writer.join(30)
    assert not writer.is_alive()


def test_sockets_and_devices_are_refused(tmp_path: Path) -> None:
    """Also through a link."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    (tmp_path / "zero").symlink_to("/dev/zero")
    for path in (tmp_path / "socket", "/dev/null", tmp_path / "zero"):
        assert refusal(path).kind == "invalidInput"


def test_the_limit_is_the_largest_size(tmp_path: Path) -> None:
    """A file of just the limit is read, one byte more is too large."""
    limits = ReadLimits(file_bytes=1000, message_bytes=MIB)
    (tmp_path / "file").write_bytes(b"x" * 1000)
    assert len(read_file(bytes(tmp_path / "file"), limits)) == 1000
    (tmp_path / "file").write_bytes(b"x" * 1001)
    fault = refusal(tmp_path / "file", limits)
    assert (fault.message, fault.kind) == ("file is too large to read: limit is 1000 bytes", "tooLarge")


def test_the_limit_holds_while_reading() -> None:
    """A file that tells no size is stopped at the limit."""
    fault = refusal("/proc/self/status", ReadLimits(file_bytes=10, message_bytes=MIB))
    assert fault.message == "file is too large to read: limit is 10 bytes"


@pytest.mark.parametrize("message_bytes, largest", [(400, 300), (403, 300), (404, 303)])
def test_the_answer_has_a_limit_too(tmp_path: Path, message_bytes: int, largest: int) -> None:
    """A file is refused when its base64 alone would fill a message."""
    limits = ReadLimits(file_bytes=MIB, message_bytes=message_bytes)
    (tmp_path / "file").write_bytes(b"x" * largest)
    assert len(read_file(bytes(tmp_path / "file"), limits)) == largest
    (tmp_path / "file").write_bytes(b"x" * (largest + 1))
    assert refusal(tmp_path / "file", limits).kind == "tooLarge"


def test_a_size_that_is_told_is_judged_before_reading(tmp_path: Path) -> None:
    """A sparse file of a tebibyte is refused at once."""
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    assert refusal(tmp_path / "sparse").kind == "tooLarge"


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    """As for any link that leads nowhere."""
    (tmp_path / "link").symlink_to("none")
    for name in ("none", "link"):
        with pytest.raises(FileNotFoundError):
            read_file(bytes(tmp_path / name), WIDE)
