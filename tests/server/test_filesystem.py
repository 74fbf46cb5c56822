"""The file methods as the protocol has them: params in, results or the protocol's errors out."""

from __future__ import annotations

import errno
import os
import queue
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from descriptors import open_descriptors

from execsrv.config import ExecServerConfig
from execsrv.errors import InternalError, InvalidParams, InvalidRequest, NotFound, RpcError
from execsrv.protocol.common import Empty
from execsrv.protocol.files import (
    CloseParams,
    CopyParams,
    CreateDirectoryParams,
    Metadata,
    OpenParams,
    OpenResult,
    PathParams,
    ReadBlockParams,
    ReadBlockResult,
    RemoveParams,
    WriteBlockParams,
    WriteFileParams,
)
from execsrv.server.filesystem import FileSystem
from execsrv.wire import encode_base64, to_wire

EVERY_METHOD: list[tuple[str, Callable[[str], Any]]] = [
    ("read_file", PathParams),
    ("write_file", lambda path: WriteFileParams(path, "")),
    ("create_directory", CreateDirectoryParams),
    ("get_metadata", PathParams),
    ("read_directory", PathParams),
    ("remove", RemoveParams),
    ("copy", lambda path: CopyParams("/", path)),
    ("copy", lambda path: CopyParams(path, "/")),
    ("open", lambda path: OpenParams("h", path)),
    ("open", lambda path: OpenParams("h", path, "write")),
]


@pytest.fixture
def files() -> Iterator[FileSystem]:
    """A file system with the default limits; what is open at the end is closed."""
    files = FileSystem(ExecServerConfig())
    yield files
    files.handles.close_all()


def fault_of(call: Callable[[], object]) -> RpcError:
    """The error that ``call`` raises."""
    with pytest.raises(RpcError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("method, params", EVERY_METHOD)
@pytest.mark.parametrize("path", ["", "relative", "/a\0b", "file://elsewhere/a", "file:///%zz", "/\ud800"])
def test_odd_paths_are_bad_params(files: FileSystem, method: str, params: Callable[[str], Any], path: str) -> None:
    """In every method, before anything is touched; the message names the field."""
    fault = fault_of(lambda: getattr(files, method)(params(path)))
    assert isinstance(fault, InvalidParams)
    assert fault.message.startswith("params.")


def test_the_field_of_a_bad_path_is_named(files: FileSystem) -> None:
    """By its name on the wire."""
    for source, destination, field in (("a", "/b", "sourcePath"), ("/a", "b", "destinationPath")):
        message = fault_of(lambda: files.copy(CopyParams(source, destination))).message
        assert message.startswith(f"params.{field}: must be an absolute path")
    assert fault_of(lambda: files.read_file(PathParams("a"))).message.startswith("params.path: ")


@pytest.mark.parametrize(
    "method, params",
    [
        ("read_file", PathParams("/no/such/file")),
        ("write_file", WriteFileParams("/no/such/file", "")),
        ("create_directory", CreateDirectoryParams("/no/such/file", recursive=False)),
        ("get_metadata", PathParams("/no/such/file")),
        ("read_directory", PathParams("/no/such/file")),
        ("remove", RemoveParams("/no/such/file", force=False)),
        ("copy", CopyParams("/no/such/file", "/no/such/copy")),
        ("open", OpenParams("h", "/no/such/file")),
        ("open", OpenParams("h", "/no/such/file", "write")),
    ],
)
def test_a_missing_file_is_not_found(files: FileSystem, method: str, params: Any) -> None:
    """With a code of its own, the path and the system's words."""
    fault = fault_of(lambda: getattr(files, method)(params))
    assert isinstance(fault, NotFound)
    assert (fault.kind, fault.data) == ("notFound", {"errno": errno.ENOENT})
    assert "/no/such/file" in fault.message and fault.message.endswith(": No such file or directory")


@pytest.mark.parametrize(
    "method, params, kind, number",
    [
        ("read_file", lambda d: PathParams(f"{d}/f/x"), "notADirectory", errno.ENOTDIR),
        ("read_file", lambda d: PathParams(f"{d}/loop"), "ioError", errno.ELOOP),
        ("write_file", lambda d: WriteFileParams("/dev/full", "eA=="), "ioError", errno.ENOSPC),
        ("create_directory", lambda d: CreateDirectoryParams(f"{d}/f"), "notADirectory", errno.ENOTDIR),
        ("create_directory", lambda d: CreateDirectoryParams(d, recursive=False), "alreadyExists", errno.EEXIST),
        ("read_directory", lambda d: PathParams(f"{d}/f"), "notADirectory", errno.ENOTDIR),
        ("remove", lambda d: RemoveParams(d, recursive=False), "directoryNotEmpty", errno.ENOTEMPTY),
        ("copy", lambda d: CopyParams(d, f"{d}/../f", recursive=True), "notADirectory", errno.ENOTDIR),
        ("open", lambda d: OpenParams("h", f"{d}/loop"), "ioError", errno.ELOOP),
        ("open", lambda d: OpenParams("h", f"{d}/f/x", "write"), "notADirectory", errno.ENOTDIR),
    ],
)
def test_other_faults_of_the_system_have_kinds(
    files: FileSystem, tmp_path: Path, method: str, params: Callable[[str], Any], kind: str, number: int
) -> None:
    """They are internal errors that carry errno."""
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / "f").touch()
    (tmp_path / "f").touch()
    (directory / "loop").symlink_to("loop")
    fault = fault_of(lambda: getattr(files, method)(params(str(directory))))
    assert isinstance(fault, InternalError)
    assert (fault.kind, fault.data) == (kind, {"errno": number})


def test_a_file_is_written_and_read(files: FileSystem, tmp_path: Path) -> None:
    """Any bytes, by path and by URI."""
    data = bytes(range(256))
    uri = (tmp_path / "a b").as_uri()
    assert files.write_file(WriteFileParams(uri, encode_base64(data))) == Empty()
    assert files.read_file(PathParams(f"{tmp_path}/a b")).data_base64 == data


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    """The message tells the limit."""
    files = FileSystem(ExecServerConfig(max_read_file_bytes=10))
    (tmp_path / "file").write_bytes(b"x" * 11)
    fault = fault_of(lambda: files.read_file(PathParams(f"{tmp_path}/file")))
    assert (fault.code, fault.kind) == (-32600, "tooLarge")
    assert fault.message == "file is too large to read: limit is 10 bytes"


def test_an_answer_above_the_message_limit_is_not_made(tmp_path: Path) -> None:
    """Neither of a file nor of a directory."""
    files = FileSystem(ExecServerConfig(max_message_bytes=100))
    (tmp_path / "file").write_bytes(b"x" * 76)
    (tmp_path / "other").touch()
    for call in (files.read_file, files.read_directory):
        fault = fault_of(lambda: call(PathParams(f"{tmp_path}/file" if call == files.read_file else f"{tmp_path}")))
        assert (fault.code, fault.kind) == (-32600, "tooLarge")


@pytest.mark.parametrize("text", ["!", "eA", "eA==\n", "e A==", "eA=", "-_-_", "é", "\ud800"])
def test_bad_base64_is_refused_and_nothing_written(files: FileSystem, tmp_path: Path, text: str) -> None:
    """Only standard, padded base64 is taken."""
    fault = fault_of(lambda: files.write_file(WriteFileParams(f"{tmp_path}/file", text)))
    assert (fault.code, fault.kind) == (-32600, "invalidInput")
    assert fault.message.startswith("fs/writeFile requires valid base64 dataBase64")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", ["!", "eA", "eA==\n", "-_-_", "\ud800"])
def test_bad_base64_of_a_block_is_refused_and_nothing_written(files: FileSystem, tmp_path: Path, text: str) -> None:
    """In the words of fs/writeFile; the handle goes on, and may be committed."""
    files.open(OpenParams("h", f"{tmp_path}/file", "write"))
    fault = fault_of(lambda: files.write_block(WriteBlockParams("h", 0, text)))
    assert (fault.code, fault.kind) == (-32600, "invalidInput")
    assert fault.message.startswith("fs/writeBlock requires valid base64 chunk")
    files.close(CloseParams("h", commit=True))
    assert (tmp_path / "file").read_bytes() == b""


def test_the_path_is_judged_before_the_base64(files: FileSystem) -> None:
    """When both are bad."""
    assert isinstance(fault_of(lambda: files.write_file(WriteFileParams("relative", "!"))), InvalidParams)


def test_directories_are_created(files: FileSystem, tmp_path: Path) -> None:
    """With those above, by default; what is there already is fine then."""
    for _ in range(2):
        assert files.create_directory(CreateDirectoryParams(f"{tmp_path}/a/b/c")) == Empty()
    assert files.create_directory(CreateDirectoryParams(f"{tmp_path}/d", recursive=False)) == Empty()
    assert (tmp_path / "a/b/c").is_dir() and (tmp_path / "d").is_dir()
    with pytest.raises(NotFound):
        files.create_directory(CreateDirectoryParams(f"{tmp_path}/x/y", recursive=False))


def test_metadata_follow_links(files: FileSystem, tmp_path: Path) -> None:
    """Everything is of the target, save that the path itself is a link."""
    (tmp_path / "file").write_bytes(b"12345")
    os.utime(tmp_path / "file", ns=(0, 1_700_000_000_123_999_999))
    (tmp_path / "link").symlink_to("file")
    for name, is_symlink in (("file", False), ("link", True)):
        found = files.get_metadata(PathParams(f"{tmp_path}/{name}"))
        created = found.created_at_ms
        assert found == Metadata(False, True, is_symlink, 5, created, 1_700_000_000_123)
        assert created == 0 or created > 1_700_000_000_123


def test_metadata_tell_directories_and_neither(files: FileSystem, tmp_path: Path) -> None:
    """A FIFO is neither file nor directory, and is not waited for."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(".")
    kinds = []
    for name in (".", "link", "fifo"):
        found = files.get_metadata(PathParams(f"{tmp_path}/{name}"))
        kinds.append((found.is_directory, found.is_file, found.is_symlink))
    assert kinds == [(True, False, False), (True, False, True), (False, False, False)]


def test_metadata_of_a_link_that_leads_nowhere_are_not_found(files: FileSystem, tmp_path: Path) -> None:
    """There is nothing whose size and times could be told."""
    (tmp_path / "link").symlink_to("none")
    with pytest.raises(NotFound):
        files.get_metadata(PathParams(f"{tmp_path}/link"))


@pytest.mark.parametrize("seconds", [-1, -(2**31)])
def test_a_time_before_the_epoch_is_unknown(files: FileSystem, tmp_path: Path, seconds: int) -> None:
    """It is told as 0."""
    (tmp_path / "file").touch()
    os.utime(tmp_path / "file", (seconds, seconds))
    assert files.get_metadata(PathParams(f"{tmp_path}/file")).modified_at_ms == 0


def test_a_time_beyond_telling_is_unknown(files: FileSystem) -> None:
    """JSON's integers are safe to 2**53 only; file systems in memory keep later times."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no file system in memory")
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        for milliseconds, told in ((2**53 - 1, 2**53 - 1), (2**53, 0)):
            os.utime(file.name, ns=(0, milliseconds * 1_000_000))
            assert files.get_metadata(PathParams(file.name)).modified_at_ms == told


def test_a_time_that_nobody_keeps_is_unknown(files: FileSystem) -> None:
    """Files of /proc have no time of birth."""
    assert files.get_metadata(PathParams("/proc/self/status")).created_at_ms == 0


def test_a_directory_is_listed(files: FileSystem, tmp_path: Path) -> None:
    """A name that is not UTF-8 comes with its bytes, and a URI with these opens it."""
    open(bytes(tmp_path) + b"/\xff", "w").close()
    (tmp_path / "a").symlink_to("none")
    result = files.read_directory(PathParams(str(tmp_path)))
    assert to_wire(result) == {
        "entries": [
            {"fileName": "a", "isDirectory": False, "isFile": False, "isSymlink": True},
            {
                "fileName": "\ufffd",
                "isDirectory": False,
                "isFile": True,
                "isSymlink": False,
                "fileNameBase64": b"\xff",
            },
        ]
    }
    assert files.read_file(PathParams(f"{tmp_path.as_uri()}/%FF")).data_base64 == b""


def test_remove_takes_trees_and_missing_paths_by_default(files: FileSystem, tmp_path: Path) -> None:
    """Without force a missing one is not found."""
    (tmp_path / "a/b").mkdir(parents=True)
    for _ in range(2):
        assert files.remove(RemoveParams(f"{tmp_path}/a")) == Empty()
    assert os.listdir(tmp_path) == []
    with pytest.raises(NotFound):
        files.remove(RemoveParams(f"{tmp_path}/a", force=False))


def test_force_hides_no_other_fault(files: FileSystem, tmp_path: Path) -> None:
    """A directory that is not empty stays, with or without force."""
    (tmp_path / "a/b").mkdir(parents=True)
    for force in (True, False):
        fault = fault_of(lambda: files.remove(RemoveParams(f"{tmp_path}/a", recursive=False, force=force)))
        assert fault.kind == "directoryNotEmpty"


@pytest.mark.parametrize("path", ["/", "//", "/.", "file:///", "file:////", "file:///tmp/..", "/tmp/.."])
def test_the_root_is_never_removed(files: FileSystem, path: str) -> None:
    """By whatever name; recursion is left out here in case it were."""
    fault = fault_of(lambda: files.remove(RemoveParams(path, recursive=False)))
    assert isinstance(fault, InvalidRequest)
    assert fault.kind == "invalidInput"


def test_copy_takes_files_by_default_and_directories_when_asked(files: FileSystem, tmp_path: Path) -> None:
    """The messages of wrong use are those of the protocol."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/f").write_bytes(b"data")
    assert files.copy(CopyParams(f"{tmp_path}/a/f", f"{tmp_path}/f")) == Empty()
    fault = fault_of(lambda: files.copy(CopyParams(f"{tmp_path}/a", f"{tmp_path}/b")))
    assert (fault.code, fault.kind) == (-32600, "invalidInput")
    assert fault.message == "fs/copy requires recursive: true when sourcePath is a directory"
    assert files.copy(CopyParams(f"{tmp_path}/a", f"{tmp_path}/b", recursive=True)) == Empty()
    assert (tmp_path / "f").read_bytes() == (tmp_path / "b/f").read_bytes() == b"data"


def test_a_file_is_written_and_read_in_blocks(files: FileSystem, tmp_path: Path) -> None:
    """A commit shows it, and the id is free again."""
    path = f"{tmp_path}/file"
    assert files.open(OpenParams("h", path, "write")) == OpenResult("h")
    for offset, data in ((4, b"45"), (0, b"01")):
        assert files.write_block(WriteBlockParams("h", offset, encode_base64(data))) == Empty()
    assert os.listdir(tmp_path) == []
    assert files.close(CloseParams("h", commit=True)) == Empty()
    assert files.open(OpenParams("h", path)) == OpenResult("h")
    blocks = [
        (0, 5, b"01\0\x004", False),
        (0, 6, b"01\0\x0045", True),
        (5, 9, b"5", True),
        (3, 0, b"", False),
        (6, 0, b"", True),
        (99, 9, b"", True),
    ]
    for offset, length, data, eof in blocks:
        assert files.read_block(ReadBlockParams("h", offset, length)) == ReadBlockResult(data, eof)
    assert files.close(CloseParams("h", commit=True)) == Empty()


def test_the_end_of_a_file_that_tells_no_size_is_told(files: FileSystem) -> None:
    """Those of /proc say 0."""
    whole = Path("/proc/self/cmdline").read_bytes()
    files.open(OpenParams("h", "/proc/self/cmdline"))
    for length, eof in ((len(whole) - 1, False), (len(whole), True), (1 << 20, True)):
        assert files.read_block(ReadBlockParams("h", 0, length)) == ReadBlockResult(whole[:length], eof)


@pytest.mark.parametrize("commit", [False, None])
def test_without_a_commit_a_close_discards(files: FileSystem, tmp_path: Path, commit: bool | None) -> None:
    """The old content stays."""
    (tmp_path / "file").write_bytes(b"old")
    files.open(OpenParams("h", f"{tmp_path}/file", "write"))
    files.write_block(WriteBlockParams("h", 0, encode_base64(b"new")))
    assert files.close(CloseParams("h") if commit is None else CloseParams("h", commit)) == Empty()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_faults_of_a_handle_have_kinds(files: FileSystem, tmp_path: Path) -> None:
    """They come before those of the path and of the base64; the handles go on."""
    (tmp_path / "file").write_bytes(b"data")
    files.open(OpenParams("r", f"{tmp_path}/file"))
    files.open(OpenParams("w", f"{tmp_path}/file", "write"))
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: files.open(OpenParams("r", "relative")), "duplicateHandle"),
        (lambda: files.open(OpenParams("w", f"{tmp_path}/file")), "duplicateHandle"),
        (lambda: files.read_block(ReadBlockParams("none", 0, 1)), "unknownHandle"),
        (lambda: files.write_block(WriteBlockParams("none", 0, "!")), "unknownHandle"),
        (lambda: files.close(CloseParams("none", commit=True)), "unknownHandle"),
        (lambda: files.read_block(ReadBlockParams("w", 0, 1)), "invalidInput"),
        (lambda: files.write_block(WriteBlockParams("r", 0, "!")), "invalidInput"),
    ]
    for call, kind in calls:
        fault = fault_of(call)
        assert (fault.code, fault.kind) == (-32600, kind)
    assert files.read_block(ReadBlockParams("r", 0, 4)).chunk == b"data"
    assert files.write_block(WriteBlockParams("w", 0, "eA==")) == Empty()


def test_a_failed_open_takes_no_id(files: FileSystem, tmp_path: Path) -> None:
    """It can be used at once."""
    for mode in ("read", "write"):
        with pytest.raises(NotFound):
            files.open(OpenParams("h", f"{tmp_path}/none/file", mode))
        assert fault_of(lambda: files.close(CloseParams("h"))).kind == "unknownHandle"


def test_too_many_handles_are_refused(files: FileSystem, tmp_path: Path) -> None:
    """The limit is told; what is refused first is an id in use, and last the path."""
    (tmp_path / "file").touch()
    for number in range(128):
        files.open(OpenParams(str(number), f"{tmp_path}/file"))
    fault = fault_of(lambda: files.open(OpenParams("more", "relative")))
    assert (fault.code, fault.kind) == (-32600, "limitExceeded") and "128" in fault.message
    assert fault_of(lambda: files.open(OpenParams("5", "relative"))).kind == "duplicateHandle"


def test_a_commit_that_fails_frees_the_id_and_leaves_nothing(files: FileSystem, tmp_path: Path) -> None:
    """A directory in the way, a device that is full, a block that was refused before."""
    before = open_descriptors()
    files.open(OpenParams("a", f"{tmp_path}/file", "write"))
    (tmp_path / "file").mkdir()
    files.open(OpenParams("b", "/dev/full", "write"))
    files.write_block(WriteBlockParams("b", 0, "eA=="))
    files.open(OpenParams("c", f"{tmp_path}/new", "write"))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        fault = fault_of(lambda: files.write_block(WriteBlockParams("c", 1000, "eA==")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (fault.kind, fault.data["errno"]) == ("ioError", errno.EFBIG) and f"{tmp_path}/new" in fault.message
    for handle_id, code, kind in (("a", -32600, "isADirectory"), ("b", -32603, "ioError"), ("c", -32603, "ioError")):
        fault = fault_of(lambda: files.close(CloseParams(handle_id, commit=True)))
        assert (fault.code, fault.kind) == (code, kind)
        assert fault_of(lambda: files.close(CloseParams(handle_id))).kind == "unknownHandle"
    assert open_descriptors() <= before
    assert os.listdir(tmp_path) == ["file"] and os.listdir(tmp_path / "file") == []


def test_the_end_breaks_off_a_copy(files: FileSystem, tmp_path: Path) -> None:
    """Which may read from a file that has no end in a lifetime."""
    source = tmp_path / "source"
    with open(source, "wb") as file:
        file.truncate(1 << 42)
    outcome: queue.SimpleQueue[RpcError] = queue.SimpleQueue()

    def copy() -> None:
        with pytest.raises(RpcError) as caught:
            files.copy(CopyParams(str(source), "/dev/null"))
        outcome.put(caught.value)

    threading.Thread(target=copy, daemon=True).start()
    deadline = time.monotonic() + 20
    while str(source) not in {target for _, target in open_descriptors()}:
        assert time.monotonic() < deadline
    assert not files.end()
    assert outcome.get(timeout=20).message.endswith(": Operation canceled")
