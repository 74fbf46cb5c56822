"""Blocks of files, and the handles that a connection has open."""

from __future__ import annotations

import errno
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from deep_paths import long_path
from descriptors import open_descriptors
from own_thread import in_time

from execsrv.errors import InvalidRequest
from execsrv.server.files.handles import MAX_HANDLES, BlockReader, BlockWriter, Handle, Handles


@pytest.fixture
def handles() -> Iterator[Handles]:
    """A table; at its end no descriptor is left that was not there before."""
    before = open_descriptors()
    handles = Handles()
    yield handles
    handles.end()
    handles.close_all()
    assert open_descriptors() <= before


def is_open(handle: Handle) -> bool:
    """Has it a descriptor, and not merely a number that was one?"""
    fd = handle._fd if isinstance(handle, BlockReader) else handle._draft
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(os.fsdecode(os.path.dirname(handle.path)))
    except FileNotFoundError:
        return False


def refusal(function: Callable[[], object]) -> tuple[str, str]:
    """Kind and message of what ``function`` is refused with, in time."""
    with pytest.raises(InvalidRequest) as caught:
        in_time(function)
    return caught.value.kind, caught.value.message


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A write beyond ``size`` bytes fails with EFBIG (Python ignores SIGXFSZ)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# ---- reading -------------------------------------------------------------------------------------------------------


def test_a_block_is_what_is_there(tmp_path: Path) -> None:
    """From any offset, as long as asked, shorter at the end, nothing beyond it."""
    data = bytes(range(256))
    (tmp_path / "file").write_bytes(data)
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        with closing(BlockReader(bytes(tmp_path / name))) as reader:
            for offset, length in ((0, 0), (0, 256), (0, 1000), (255, 1), (100, 5), (256, 1), (2**53 - 1, 1 << 20)):
                assert reader.read(offset, length) == data[offset : offset + length]


def test_a_file_is_read_as_it_is_now(tmp_path: Path) -> None:
    """It may grow and shrink; one that took its place is another file."""
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    with closing(BlockReader(bytes(path))) as reader:
        assert reader.read(0, 10) == b"12345"
        with open(path, "ab") as file:
            file.write(b"678")
        assert reader.read(3, 10) == b"45678"
        os.truncate(path, 2)
        assert reader.read(0, 10) == b"12"
        path.unlink()
        path.write_bytes(b"another")
        assert reader.read(0, 10) == b"12"


def test_files_that_tell_no_size_are_read() -> None:
    """Those of /proc come in pieces, which make one block."""
    if not os.path.exists("/proc/kallsyms"):
        pytest.skip("no long file of /proc")
    with closing(BlockReader(b"/proc/kallsyms")) as reader:
        first, both = reader.read(0, 10_000), reader.read(0, 20_000)
        assert (len(first), len(both)) == (10_000, 20_000)
        assert first + reader.read(10_000, 10_000) == both


def test_only_regular_files_are_opened_to_read(tmp_path: Path) -> None:
    """Anything else is an error at once."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    kinds = {".": "isADirectory", "fifo": "invalidInput", "socket": "invalidInput", "/dev/zero": "invalidInput"}
    for name, kind in kinds.items():
        assert refusal(lambda name=name: BlockReader(bytes(tmp_path / name)))[0] == kind  # type: ignore[misc]
    with pytest.raises(FileNotFoundError):
        BlockReader(bytes(tmp_path / "none"))


# ---- writing -------------------------------------------------------------------------------------------------------


def test_blocks_come_in_any_order(tmp_path: Path) -> None:
    """They may overlap; what none of them meets is zeros. The last write to a byte wins."""
    with closing(BlockWriter(bytes(tmp_path / "file"))) as writer:
        for offset, data in ((10, b"abcdef"), (3, b"x"), (12, b"CD"), (14, b""), (100, b"")):
            writer.write(offset, data)
        assert os.listdir(tmp_path) == []
        writer.commit()
    assert (tmp_path / "file").read_bytes() == b"\0\0\0x\0\0\0\0\0\0abCDef"


def test_without_a_commit_nothing_happens(tmp_path: Path) -> None:
    """The old file stays, and a new one is never seen."""
    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "new"):
        with closing(BlockWriter(bytes(tmp_path / name))) as writer:
            writer.write(0, b"lost")
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_a_block_that_failed_spoils_the_whole(tmp_path: Path) -> None:
    """Blocks after it are written, and a commit tells the fault again: the file stays as it was."""
    (tmp_path / "file").write_bytes(b"old")
    with closing(BlockWriter(bytes(tmp_path / "file"))) as writer:
        attempts: list[Callable[[], None]] = [lambda: writer.write(500, b"x" * 1000), writer.commit]
        for attempt in attempts:
            with largest_file(1000), pytest.raises(OSError) as caught:
                attempt()
            assert caught.value.errno == errno.EFBIG
            writer.write(0, b"more")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_an_offset_beyond_the_largest_file_is_an_error(tmp_path: Path) -> None:
    """The largest that a client may send, at least on common file systems."""
    with closing(BlockWriter(bytes(tmp_path / "file"))) as writer:
        try:
            writer.write(2**53 - 1, b"x" * 1000)
        except OSError as error:
            assert error.errno == errno.EFBIG


def test_what_can_not_be_opened_leaves_no_descriptor(tmp_path: Path, long_tree: Path) -> None:
    """Neither to read nor to write, also behind a long path."""
    os.mkfifo(tmp_path / "fifo")
    before = open_descriptors()
    long = long_path(long_tree)
    for path in (b"/no/such", bytes(tmp_path), bytes(tmp_path / "fifo"), long, long + b"/none/x"):
        for kind in (BlockReader, BlockWriter):
            with pytest.raises((OSError, InvalidRequest)):
                kind(path)
    with closing(BlockReader(long + b"/leaf")) as reader, closing(BlockWriter(long + b"/leaf")) as writer:
        assert reader.read(0, 10) == b"deep"
        writer.write(0, b"new")
        writer.commit()
    assert open_descriptors() <= before


# ---- the table -----------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> bytes:
    """A file to open."""
    (tmp_path / "file").write_bytes(b"data")
    return bytes(tmp_path / "file")


def test_an_id_is_taken_until_its_handle_is_removed(handles: Handles, path: bytes) -> None:
    """Then it is free again."""
    for _ in range(2):
        handles.check_free("h")
        handles.add("h", BlockReader(path))
        assert refusal(lambda: handles.check_free("h")) == ("duplicateHandle", "handle h already exists")
        with handles.taken("h", BlockReader) as reader:
            assert reader.read(0, 10) == b"data"
        assert refusal(lambda: handles.check_free("h"))[0] == "duplicateHandle"
        handles.remove("h").close()


def test_an_unknown_id_is_refused(handles: Handles) -> None:
    """Wherever one is wanted."""
    unknown = ("unknownHandle", "unknown handle id h")
    assert refusal(lambda: handles.remove("h")) == unknown
    assert refusal(lambda: handles.taken("h", BlockReader).__enter__()) == unknown


def test_a_handle_of_the_other_kind_is_refused(handles: Handles, path: bytes) -> None:
    """And goes on as before, as it does after a fault."""
    handles.add("r", BlockReader(path))
    handles.add("w", BlockWriter(path))
    read = handles.taken("w", BlockReader)
    assert refusal(read.__enter__) == ("invalidInput", "handle w is not open to read")
    write = handles.taken("r", BlockWriter)
    assert refusal(write.__enter__) == ("invalidInput", "handle r is not open to write")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), handles.taken("r", BlockReader):
            raise ZeroDivisionError
        with handles.taken("w", BlockWriter) as writer:
            writer.write(0, b"x")


def test_there_are_only_so_many(handles: Handles, path: bytes) -> None:
    """One more is refused until one is removed; the limit is named."""
    assert MAX_HANDLES == 128
    for number in range(MAX_HANDLES):
        handles.check_free(str(number))
        handles.add(str(number), (BlockReader, BlockWriter)[number % 2](path))
    kind, message = refusal(lambda: handles.check_free("more"))
    assert kind == "limitExceeded" and "handles" in message and "128" in message
    assert refusal(lambda: handles.check_free("0"))[0] == "duplicateHandle"
    handles.remove("5").close()
    handles.check_free("more")


# ---- the end -------------------------------------------------------------------------------------------------------


def test_the_end_closes_everything(handles: Handles, path: bytes) -> None:
    """Drafts are discarded. Twice is harmless."""
    opened: list[Handle] = [BlockReader(path), BlockWriter(path), BlockWriter(path + b"2")]
    for number, handle in enumerate(opened):
        handles.add(str(number), handle)
        assert is_open(handle)
    assert handles.end()
    handles.close_all()
    assert not any(is_open(handle) for handle in opened)
    assert not handles.end()
    handles.close_all()
    assert os.listdir(os.path.dirname(path)) == [b"file"]


def test_what_is_opened_after_the_end_is_closed_at_once(handles: Handles, path: bytes) -> None:
    """As by a request that was in work for long."""
    assert not handles.end()
    late = BlockWriter(path)
    handles.add("h", late)
    assert not is_open(late)


def test_a_handle_that_is_worked_on_is_closed_afterwards(handles: Handles, path: bytes) -> None:
    """The end waits for nobody: by whoever works on it, and the others at once."""
    busy, idle = BlockReader(path), BlockReader(path)
    handles.add("busy", busy)
    handles.add("idle", idle)
    began, ended = threading.Event(), threading.Event()

    def work() -> bytes:
        with handles.taken("busy", BlockReader) as reader:
            began.set()
            assert ended.wait(30)
            return reader.read(0, 10)

    read: list[bytes] = []
    worker = threading.Thread(target=lambda: read.append(work()), daemon=True)
    worker.start()
    assert began.wait(30)
    assert handles.end()
    handles.close_all()
    assert (is_open(busy), is_open(idle)) == (True, False)
    assert not handles.end()
    ended.set()
    worker.join(30)
    assert read == [b"data"] and not is_open(busy)
