"""The file methods as the protocol has them: params in, results or the protocol's errors out."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from execsrv.config import ExecServerConfig
from execsrv.errors import InternalError, InvalidParams, InvalidRequest, NotFound, RpcError
from execsrv.protocol import (
    CopyParams,
    CreateDirectoryParams,
    Empty,
    Metadata,
    PathParams,
    RemoveParams,
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
]


@pytest.fixture
def files() -> FileSystem:
    """A file system with the default limits."""
    return FileSystem(ExecServerConfig())


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
                "fileNameBase64": encode_base64(b"\xff"),
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
