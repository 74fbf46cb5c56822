"""The file methods, on both transports."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from links import Program
from peer import Json, OpenPeer, Peer
from proc import descriptors, eventually, peak_bytes

MIB = 1024 * 1024


def text_of(data: bytes) -> str:
    """Base64 text of bytes."""
    return base64.b64encode(data).decode()


def read(peer: Peer, path: Path | str) -> bytes:
    """The content of a file, through the server."""
    return base64.b64decode(peer.call("fs/readFile", path=str(path))["dataBase64"], validate=True)


def write(peer: Peer, path: Path | str, data: bytes) -> Json:
    """Write a file through the server."""
    return peer.call("fs/writeFile", path=str(path), dataBase64=text_of(data))


def shut_down(peer: Peer) -> None:
    """End both directions without a word."""
    peer.link.connection.socket.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]


def kind_of(error: Json) -> tuple[int, str]:
    """Code and kind."""
    return error["code"], error["data"]["kind"]


# ---- paths ---------------------------------------------------------------------------------------------------------

METHODS: list[tuple[str, str, dict[str, Any]]] = [
    ("fs/readFile", "path", {}),
    ("fs/writeFile", "path", {"dataBase64": ""}),
    ("fs/createDirectory", "path", {}),
    ("fs/getMetadata", "path", {}),
    ("fs/readDirectory", "path", {}),
    ("fs/remove", "path", {}),
    ("fs/copy", "sourcePath", {"destinationPath": "/tmp"}),
    ("fs/copy", "destinationPath", {"sourcePath": "/tmp"}),
    ("fs/open", "path", {"handleId": "unused"}),
    ("fs/open", "path", {"handleId": "unused", "mode": "write"}),
]


@pytest.mark.parametrize("method, field, params", METHODS)
def test_an_odd_path_is_invalid(peer: Peer, method: str, field: str, params: dict[str, Any]) -> None:
    """Relative, empty, NUL, lone surrogate, a URI with host, query or fragment; the field is named."""
    for path in ("", "relative", "../x", "/a\0b", "/\ud800", "file://host/a", "file:///a?q", "file:///a#f", "file:a"):
        error = peer.refused(method, **{field: path, **params})
        assert kind_of(error) == (-32602, "invalidParams")
        assert error["message"].startswith(f"params.{field}: ")


def test_a_file_uri_is_percent_decoded(peer: Peer, tmp_path: Path) -> None:
    """To bytes that need not be UTF-8; in a native path ``%`` is a plain character."""
    (tmp_path / "a%20b").write_bytes(b"native")
    (tmp_path / "a b").write_bytes(b"uri")
    assert read(peer, f"{tmp_path}/a%20b") == b"native"
    assert read(peer, f"file://{tmp_path}/a%20b") == b"uri"


# ---- readFile and writeFile ----------------------------------------------------------------------------------------


def test_a_file_is_read_as_it_is(peer: Peer, tmp_path: Path) -> None:
    """Every byte, an empty one, one of /proc that tells no size, through links."""
    data = bytes(range(256)) * 1000
    (tmp_path / "file").write_bytes(data)
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "empty").touch()
    assert read(peer, tmp_path / "file") == read(peer, tmp_path / "link") == data
    assert read(peer, tmp_path / "empty") == b""
    assert read(peer, "/proc/self/cmdline").startswith(b"/")


def test_a_write_makes_or_replaces_a_file(peer: Peer, tmp_path: Path) -> None:
    """A new one gets the usual mode; an existing one keeps its own; a link is written through."""
    path, link = tmp_path / "file", tmp_path / "link"
    assert write(peer, path, b"one") == {}
    umask = os.umask(0o022)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o751)
    link.symlink_to("file")
    write(peer, link, b"two")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode), link.is_symlink()) == (b"two", 0o751, True)
    write(peer, path, b"")
    assert path.read_bytes() == b""
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


def test_a_write_is_whole_or_not_at_all(peer: Peer, tmp_path: Path) -> None:
    """Who reads meanwhile finds the old content or the new, never a part."""
    path = tmp_path / "file"
    old, new = b"a" * MIB, b"b" * MIB
    path.write_bytes(old)
    for _ in range(5):
        id = peer.request("fs/writeFile", path=str(path), dataBase64=text_of(new))
        while not peer_has_answer(peer, id):
            assert path.read_bytes() in (old, new)
        old, new = new, old


def peer_has_answer(peer: Peer, id: int) -> bool:
    """Ask for something else and see whether the answer has come meanwhile."""
    peer.call("process/terminate", processId="nobody")
    return any(message.get("id") == id for message in peer.transcript)


@pytest.mark.parametrize("text", ["%", "YQ", "YQ=", "Y Q=", "YQ==YQ==", "Y-_=", "é"])
def test_bad_base64_is_refused(peer: Peer, tmp_path: Path, text: str) -> None:
    """And the file stays as it is."""
    path = tmp_path / "file"
    path.write_bytes(b"before")
    error = peer.refused("fs/writeFile", path=str(path), dataBase64=text)
    assert error["code"] == -32600
    assert error["message"].startswith("fs/writeFile requires valid base64 dataBase64")
    assert path.read_bytes() == b"before"


def test_12_mib_pass_both_ways(peer: Peer, tmp_path: Path) -> None:
    """In one message each."""
    data = os.urandom(12 * MIB)
    write(peer, tmp_path / "big", data)
    assert (tmp_path / "big").read_bytes() == data
    assert read(peer, tmp_path / "big") == data


def test_only_regular_files_are_read(peer: Peer, tmp_path: Path) -> None:
    """A FIFO, a socket, a device and a directory are errors at once."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "fifo", tmp_path / "socket", Path("/dev/zero"), tmp_path):
            assert "error" in peer.answer(peer.request("fs/readFile", path=str(path)))
        for path in (tmp_path / "fifo", tmp_path / "socket"):
            error = peer.refused("fs/writeFile", path=str(path), dataBase64="")
            assert error["data"]["kind"] == "invalidInput"
    assert peer.refused("fs/writeFile", path=str(tmp_path), dataBase64="")["data"]["kind"] == "isADirectory"


def test_a_device_is_written_in_place(peer: Peer) -> None:
    """It can't be replaced."""
    write(peer, "/dev/null", b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_file_above_the_limit_is_not_read(open_peer: OpenPeer, tmp_path: Path) -> None:
    """The limit is told; it holds for files that tell no size, too."""
    peer = open_peer("--max-read-file-bytes", "10").handshake()
    (tmp_path / "ten").write_bytes(b"x" * 10)
    (tmp_path / "eleven").write_bytes(b"x" * 11)
    assert read(peer, tmp_path / "ten") == b"x" * 10
    for path in (str(tmp_path / "eleven"), "/proc/self/status"):
        error = peer.refused("fs/readFile", path=path)
        assert error["message"] == "file is too large to read: limit is 10 bytes"
        assert kind_of(error) == (-32600, "tooLarge")


def test_an_answer_above_the_message_limit_is_refused(open_peer: OpenPeer, tmp_path: Path) -> None:
    """Of a file, and of what is retained of a process."""
    peer = open_peer("--max-message-bytes", "2048").handshake()
    (tmp_path / "file").write_bytes(bytes(2000))
    assert kind_of(peer.refused("fs/readFile", path=str(tmp_path / "file"))) == (-32600, "tooLarge")
    life = peer.run("head", "-c", "2000", "/dev/zero")
    assert life.stdout == bytes(2000)
    process_id = life.exited["processId"]
    assert kind_of(peer.refused("process/read", processId=process_id)) == (-32600, "tooLarge")


# ---- directories and metadata --------------------------------------------------------------------------------------


def test_directories_are_made(peer: Peer, tmp_path: Path) -> None:
    """By default with those above, and one that exists will do; otherwise neither."""
    deep = str(tmp_path / "a" / "b")
    assert kind_of(peer.refused("fs/createDirectory", path=deep, recursive=False)) == (-32004, "notFound")
    assert peer.call("fs/createDirectory", path=deep) == peer.call("fs/createDirectory", path=deep) == {}
    error = peer.refused("fs/createDirectory", path=deep, recursive=False)
    assert kind_of(error) == (-32603, "alreadyExists") and error["data"]["errno"] == 17
    assert peer.call("fs/createDirectory", path=f"{deep}/c", recursive=False) == {}
    assert os.path.isdir(f"{deep}/c")


def test_metadata_follows_links_but_for_one_field(peer: Peer, tmp_path: Path) -> None:
    """Kinds, size, times in milliseconds."""
    (tmp_path / "file").write_bytes(b"12345")
    os.utime(tmp_path / "file", ns=(0, 1_234_567_890_123_456_789))
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    plain = peer.call("fs/getMetadata", path=str(tmp_path / "file"))
    assert (plain["isFile"], plain["isDirectory"], plain["isSymlink"]) == (True, False, False)
    assert (plain["size"], plain["modifiedAtMs"]) == (5, 1_234_567_890_123)
    assert peer.call("fs/getMetadata", path=str(tmp_path / "link")) == {**plain, "isSymlink": True}
    directory = peer.call("fs/getMetadata", path=str(tmp_path))
    assert (directory["isFile"], directory["isDirectory"], directory["isSymlink"]) == (False, True, False)
    assert peer.refused("fs/getMetadata", path=str(tmp_path / "dangling"))["code"] == -32004


def test_a_directory_is_listed_without_following_links(peer: Peer, tmp_path: Path) -> None:
    """Hidden names too; no entry for the directory itself."""
    (tmp_path / "dir").mkdir()
    (tmp_path / ".file").touch()
    (tmp_path / "link").symlink_to("dir")
    os.mkfifo(tmp_path / "fifo")
    entries = peer.call("fs/readDirectory", path=str(tmp_path))["entries"]
    found = {entry["fileName"]: (entry["isDirectory"], entry["isFile"], entry["isSymlink"]) for entry in entries}
    assert found == {
        "dir": (True, False, False),
        ".file": (False, True, False),
        "link": (False, False, True),
        "fifo": (False, False, False),
    }
    assert peer.call("fs/readDirectory", path=str(tmp_path / "link")) == {"entries": []}
    assert peer.refused("fs/readDirectory", path=str(tmp_path / ".file"))["data"]["kind"] == "notADirectory"


def test_a_name_that_is_not_utf8_can_be_read_and_opened(peer: Peer, tmp_path: Path) -> None:
    """It is shown with U+FFFD, its bytes beside it; a URI with %FF opens it."""
    with open(os.fsencode(tmp_path) + b"/a\xffb", "wb") as file:
        file.write(b"odd")
    (entry,) = peer.call("fs/readDirectory", path=str(tmp_path))["entries"]
    assert entry["fileName"] == "a\ufffdb" and base64.b64decode(entry["fileNameBase64"]) == b"a\xffb"
    assert read(peer, f"file://{tmp_path}/a%FFb") == b"odd"


# ---- remove --------------------------------------------------------------------------------------------------------


def test_remove_takes_trees_and_forgives_missing_paths(peer: Peer, tmp_path: Path) -> None:
    """Unless told otherwise."""
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "deep" / "file").touch()
    assert peer.refused("fs/remove", path=str(tree), recursive=False)["code"] in (-32600, -32603)
    assert tree.exists()
    assert peer.call("fs/remove", path=str(tree)) == peer.call("fs/remove", path=str(tree)) == {}
    assert not tree.exists()
    assert kind_of(peer.refused("fs/remove", path=str(tree), force=False)) == (-32004, "notFound")


@pytest.mark.parametrize("slash", ["", "/"])
def test_remove_takes_a_link_and_never_follows_it(peer: Peer, tmp_path: Path, slash: str) -> None:
    """With or without a trailing slash; also inside a tree."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / "tree").mkdir()
    for link in (tmp_path / "link", tmp_path / "tree" / "link"):
        link.symlink_to(kept)
    peer.call("fs/remove", path=f"{tmp_path}/link{slash}")
    peer.call("fs/remove", path=f"{tmp_path}/tree")
    assert os.listdir(tmp_path) == ["kept"] and os.listdir(kept) == ["file"]


def test_remove_refuses_the_root(peer: Peer) -> None:
    """Under any of its names. (Not ``recursive``, so that a bug does no harm.)"""
    for path in ("/", "//", "/./", "file:///", "/.."):
        assert "error" in peer.answer(peer.request("fs/remove", path=path, recursive=False)), path


# ---- copy ----------------------------------------------------------------------------------------------------------


def test_copy_keeps_modes_and_links(peer: Peer, tmp_path: Path) -> None:
    """A file, a link, a tree."""
    tree = tmp_path / "tree"
    tree.mkdir(mode=0o750)
    (tree / "file").write_bytes(b"data")
    (tree / "file").chmod(0o711)
    (tree / "link").symlink_to("nowhere")
    copy = {"sourcePath": str(tree / "file"), "destinationPath": str(tmp_path / "file")}
    assert peer.call("fs/copy", **copy) == {}
    assert (tmp_path / "file").read_bytes() == b"data" and (tmp_path / "file").stat().st_mode & 0o777 == 0o711
    peer.call("fs/copy", sourcePath=str(tree / "link"), destinationPath=str(tmp_path / "link"))
    assert os.readlink(tmp_path / "link") == "nowhere"
    peer.call("fs/copy", sourcePath=str(tree), destinationPath=str(tmp_path / "copy"), recursive=True)
    assert os.readlink(tmp_path / "copy" / "link") == "nowhere"
    assert (tmp_path / "copy" / "file").stat().st_mode & 0o777 == 0o711
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o750


def test_copy_merges_into_an_existing_directory(peer: Peer, tmp_path: Path) -> None:
    """What is there stays, or is replaced by what has its name."""
    for path, text in (("a/x", "new"), ("a/sub/y", "y"), ("b/x", "old"), ("b/sub/z", "z")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    peer.call("fs/copy", sourcePath=str(tmp_path / "a"), destinationPath=str(tmp_path / "b"), recursive=True)
    files = [path for path in (tmp_path / "b").rglob("*") if path.is_file()]
    found = {str(path.relative_to(tmp_path / "b")): path.read_text() for path in files}
    assert found == {"x": "new", "sub/y": "y", "sub/z": "z"}


def test_what_copy_refuses(peer: Peer, tmp_path: Path) -> None:
    """A directory without ``recursive``; into itself or below, whatever the name; a FIFO; nothing is made."""
    tree = tmp_path / "tree"
    tree.mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "alias").symlink_to(tree)
    words = "fs/copy requires recursive: true when sourcePath is a directory"
    assert refused_copy(peer, tree, tmp_path / "new", recursive=False) == (-32600, words)
    words = "fs/copy cannot copy a directory to itself or one of its descendants"
    for destination in (tree, tree / "below", tree / "a" / "b", tmp_path / "alias" / "x", tree / ".." / "tree"):
        assert refused_copy(peer, tree, destination, recursive=True) == (-32600, words)
    words = "fs/copy only supports regular files, directories, and symlinks"
    for source in (tmp_path / "fifo", Path("/dev/null")):
        assert refused_copy(peer, source, tmp_path / "new", recursive=False) == (-32600, words)
    assert sorted(os.listdir(tmp_path)) == ["alias", "fifo", "tree"] and os.listdir(tree) == []


def refused_copy(peer: Peer, source: Path, destination: Path, recursive: bool) -> tuple[int, str]:
    """Code and message of a copy that must fail."""
    params = {"sourcePath": str(source), "destinationPath": str(destination), "recursive": recursive}
    error = peer.refused("fs/copy", **params)
    return error["code"], error["message"]


# ---- blocks --------------------------------------------------------------------------------------------------------


def request_block(peer: Peer, handle: str, offset: int, data: bytes) -> int:
    """Ask for a block to be written."""
    return peer.request("fs/writeBlock", handleId=handle, offset=offset, chunk=text_of(data))


def read_block(peer: Peer, handle: str, offset: int, length: int) -> tuple[bytes, bool]:
    """A block of a file, and whether the file ends there."""
    result = peer.call("fs/readBlock", handleId=handle, offset=offset, len=length)
    return base64.b64decode(result["chunk"], validate=True), result["eof"]


def test_the_server_offers_blocks(open_peer: OpenPeer) -> None:
    """By a name in its capabilities."""
    assert open_peer().call("initialize", clientName="tests")["capabilities"]["fsBlocks"] is True


def test_a_file_is_read_in_blocks(peer: Peer, tmp_path: Path) -> None:
    """Up to 1 MiB each, until eof; reading is what ``fs/open`` does when nothing else is said."""
    data = os.urandom(2 * MIB + 7)
    (tmp_path / "file").write_bytes(data)
    for params in ({}, {"mode": None}, {"mode": "read"}):
        assert peer.call("fs/open", handleId="h", path=str(tmp_path / "file"), **params) == {"handleId": "h"}
        found, eof = b"", False
        while not eof:
            chunk, eof = read_block(peer, "h", len(found), MIB)
            found += chunk
        assert found == data
        assert read_block(peer, "h", 2 * MIB, 7) == (data[2 * MIB :], True)
        assert read_block(peer, "h", 2 * MIB, 6) == (data[2 * MIB : -1], False)
        assert read_block(peer, "h", 2**53 - 1, MIB) == read_block(peer, "h", len(data), 0) == (b"", True)
        assert read_block(peer, "h", 0, 0) == (b"", False)
        assert peer.call("fs/close", handleId="h") == {}


def test_a_file_is_read_as_it_is_now(peer: Peer, tmp_path: Path) -> None:
    """What is appended while it is open is seen."""
    peer.call("fs/writeFile", path=str(tmp_path / "file"), dataBase64=text_of(b"one"))
    peer.call("fs/open", handleId="h", path=str(tmp_path / "file"))
    assert read_block(peer, "h", 0, 10) == (b"one", True)
    with open(tmp_path / "file", "ab") as file:
        file.write(b"two")
    assert read_block(peer, "h", 3, 2) == (b"tw", False)
    peer.call("fs/close", handleId="h")


@pytest.mark.parametrize("commit", [True, False, None])
def test_a_write_is_seen_when_it_is_committed(peer: Peer, tmp_path: Path, commit: bool | None) -> None:
    """And never otherwise; nothing else ever appears in the directory. The mode of the old file stays."""
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o751)
    link.symlink_to("file")
    assert peer.call("fs/open", handleId="h", path=str(link), mode="write") == {"handleId": "h"}
    for offset, data in ((6, b"67"), (0, b"012")):
        assert peer.result(request_block(peer, "h", offset, data)) == {}
    assert path.read_bytes() == b"old" and sorted(os.listdir(tmp_path)) == ["file", "link"]
    assert peer.call("fs/close", handleId="h", commit=commit) == {}
    assert path.read_bytes() == (b"012\0\0\x0067" if commit else b"old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


def test_the_faults_of_handles(peer: Peer, tmp_path: Path) -> None:
    """Each with its kind; what was open before goes on."""
    path = str(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"data")
    os.mkfifo(tmp_path / "fifo")
    peer.call("fs/open", handleId="r", path=path)
    peer.call("fs/open", handleId="w", path=path, mode="write")
    wrong: list[tuple[str, Json, tuple[int, str]]] = [
        ("fs/open", {"handleId": "r", "path": path}, (-32600, "duplicateHandle")),
        ("fs/open", {"handleId": "w", "path": "relative"}, (-32600, "duplicateHandle")),
        ("fs/open", {"handleId": "x", "path": path, "mode": "append"}, (-32602, "invalidParams")),
        ("fs/open", {"path": path}, (-32602, "invalidParams")),
        ("fs/open", {"handleId": "x", "path": str(tmp_path)}, (-32600, "isADirectory")),
        ("fs/open", {"handleId": "x", "path": str(tmp_path), "mode": "write"}, (-32600, "isADirectory")),
        ("fs/open", {"handleId": "x", "path": str(tmp_path / "fifo")}, (-32600, "invalidInput")),
        ("fs/open", {"handleId": "x", "path": str(tmp_path / "fifo"), "mode": "write"}, (-32600, "invalidInput")),
        ("fs/open", {"handleId": "x", "path": "/dev/zero"}, (-32600, "invalidInput")),
        ("fs/readBlock", {"handleId": "x", "offset": 0, "len": 1}, (-32600, "unknownHandle")),
        ("fs/readBlock", {"handleId": "w", "offset": 0, "len": 1}, (-32600, "invalidInput")),
        ("fs/readBlock", {"handleId": "r", "offset": 0, "len": MIB + 1}, (-32602, "invalidParams")),
        ("fs/readBlock", {"handleId": "r", "offset": -1, "len": 1}, (-32602, "invalidParams")),
        ("fs/readBlock", {"handleId": "r", "offset": 0}, (-32602, "invalidParams")),
        ("fs/writeBlock", {"handleId": "x", "offset": 0, "chunk": ""}, (-32600, "unknownHandle")),
        ("fs/writeBlock", {"handleId": "r", "offset": 0, "chunk": ""}, (-32600, "invalidInput")),
        ("fs/writeBlock", {"handleId": "w", "offset": 0, "chunk": "%"}, (-32600, "invalidInput")),
        ("fs/writeBlock", {"handleId": "w", "offset": 2**53, "chunk": ""}, (-32602, "invalidParams")),
        ("fs/close", {"handleId": "x", "commit": True}, (-32600, "unknownHandle")),
        ("fs/close", {"handleId": "r", "commit": 1}, (-32602, "invalidParams")),
    ]
    for method, params, expected in wrong:
        assert kind_of(peer.refused(method, **params)) == expected, (method, params)
    assert read_block(peer, "r", 0, 4) == (b"data", True)
    assert peer.call("fs/close", handleId="w") == peer.call("fs/close", handleId="r") == {}
    assert kind_of(peer.refused("fs/close", handleId="r")) == (-32600, "unknownHandle")


def test_handles_belong_to_their_connection(open_websocket: OpenPeer, tmp_path: Path) -> None:
    """Another one may use the same id, and can't use this one's."""
    (tmp_path / "file").write_bytes(b"data")
    peer, other = open_websocket().handshake(), open_websocket().handshake()
    peer.call("fs/open", handleId="h", path=str(tmp_path / "file"))
    assert kind_of(other.refused("fs/readBlock", handleId="h", offset=0, len=1)) == (-32600, "unknownHandle")
    other.call("fs/open", handleId="h", path=str(tmp_path / "new"), mode="write")
    assert read_block(peer, "h", 0, 9) == (b"data", True)


def test_a_connection_has_only_so_many_handles(open_peer: OpenPeer, tmp_path: Path) -> None:
    """One more is refused, naming the limit, until one is closed."""
    (tmp_path / "file").touch()
    peer = open_peer().handshake()
    path = str(tmp_path / "file")
    for number in range(128):
        peer.call("fs/open", handleId=str(number), path=path, mode=["read", "write"][number % 2])
    error = peer.refused("fs/open", handleId="more", path=path)
    assert kind_of(error) == (-32600, "limitExceeded")
    assert "128" in error["message"] and "handles" in error["message"]
    peer.call("fs/close", handleId="77")
    peer.call("fs/open", handleId="more", path=path)


def test_blocks_sent_at_once_take_effect_in_order(peer: Peer, tmp_path: Path) -> None:
    """From the open to the read of what was committed."""
    path = str(tmp_path / "file")
    ids = [peer.request("fs/open", handleId="h", path=path, mode="write")]
    ids += [request_block(peer, "h", number, b"%d" % (number % 10) * 5) for number in range(100)]
    ids += [peer.request("fs/close", handleId="h", commit=True), peer.request("fs/open", handleId="h", path=path)]
    reading = peer.request("fs/readBlock", handleId="h", offset=0, len=1000)
    ids += [peer.request("fs/close", handleId="h")]
    assert all("result" in peer.answer(id) for id in ids)
    expected = b"".join(b"%d" % (number % 10) for number in range(100)) + b"9999"
    assert peer.result(reading) == {"chunk": text_of(expected), "eof": True}


def test_300_mib_with_holes_take_little_memory(listen: Callable[..., Program], open_websocket: OpenPeer) -> None:
    """From the last block to the first, and back through the blocks."""
    server = listen()
    peer = open_websocket(server).handshake()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "file")
        before = peak_bytes(server.pid)
        peer.call("fs/open", handleId="h", path=str(path), mode="write")
        blocks = {offset * MIB: os.urandom(MIB) for offset in range(299, 0, -13)}
        for offset, data in blocks.items():
            peer.result(request_block(peer, "h", offset, data))
        peer.call("fs/close", handleId="h", commit=True)
        assert os.listdir(directory) == ["file"]
        assert path.stat().st_size == 300 * MIB
        assert path.stat().st_blocks * 512 < 100 * MIB
        peer.call("fs/open", handleId="h", path=str(path))
        for offset, data in blocks.items():
            assert read_block(peer, "h", offset, MIB) == (data, offset == 299 * MIB)
            assert read_block(peer, "h", offset - MIB, MIB) == (bytes(MIB), False)
        assert peak_bytes(server.pid) - before < 64 * MIB


def open_drafts(pid: int) -> int:
    """How many files a program has open that have no name."""
    found = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/{pid}/fd/{fd}").endswith(" (deleted)")
    return found


@pytest.mark.parametrize("end", [Peer.close, shut_down], ids=lambda end: str(end.__name__))
def test_the_end_of_a_connection_leaves_nothing_open(
    listen: Callable[..., Program], open_websocket: OpenPeer, tmp_path: Path, end: Callable[[Peer], None]
) -> None:
    """What was not committed is gone, also in the middle of a stream of blocks; an old file stays as it was."""
    server = listen()
    watcher = open_websocket(server).handshake()
    watcher.call("fs/getMetadata", path="/")
    path = tmp_path / "file"
    path.write_bytes(b"old")
    bare = descriptors(server.pid)
    for _ in range(3):
        peer = open_websocket(server).handshake()
        for number in range(40):
            peer.call("fs/open", handleId=str(number), path=str(path), mode=["read", "write"][number % 2])
        assert eventually(lambda: open_drafts(server.pid) == 20)  # those of the connection before are going
        for number in range(1, 40, 2):
            request_block(peer, str(number), 0, b"new" * 100_000)
        end(peer)
    assert eventually(lambda: descriptors(server.pid) <= bare), descriptors(server.pid)
    assert open_drafts(server.pid) == 0
    assert (os.listdir(tmp_path), path.read_bytes()) == (["file"], b"old")


def test_a_server_that_is_killed_leaves_no_draft(listen: Callable[..., Program], open_websocket: OpenPeer) -> None:
    """Files without a name go with it."""
    server = listen()
    peer = open_websocket(server).handshake()
    with tempfile.TemporaryDirectory() as directory:
        peer.call("fs/open", handleId="h", path=f"{directory}/file", mode="write")
        peer.result(request_block(peer, "h", 0, b"data"))
        server.process.kill()
        server.wait()
        assert os.listdir(directory) == []


def test_at_the_end_of_stdin_blocks_read_before_are_written(open_stdio: OpenPeer, tmp_path: Path) -> None:
    """And committed when that was asked for; the rest is discarded."""
    peer = open_stdio().handshake()
    ids = []
    for name in ("kept", "lost"):
        ids.append(peer.request("fs/open", handleId=name, path=str(tmp_path / name), mode="write"))
        ids += [request_block(peer, name, number * 1000, b"x" * 1000) for number in range(50)]
    ids.append(peer.request("fs/close", handleId="kept", commit=True))
    peer.link.end_input()  # type: ignore[attr-defined]
    peer.end()
    assert all("result" in peer.answer(id) for id in ids)
    assert peer.program.wait() == 0
    assert os.listdir(tmp_path) == ["kept"]
    assert (tmp_path / "kept").read_bytes() == b"x" * 50_000


# ---- errors and order ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method, field, params", METHODS)
def test_what_is_missing_is_not_found(peer: Peer, tmp_path: Path, method: str, field: str, params: Json) -> None:
    """One code for all methods that need it to be there."""
    if method in ("fs/createDirectory", "fs/remove") or field == "destinationPath":
        return
    error = peer.refused(method, **{**params, field: str(tmp_path / "no" / "such")})
    assert kind_of(error) == (-32004, "notFound")


def test_errors_of_the_system_carry_kind_and_errno(peer: Peer, tmp_path: Path) -> None:
    """A file in place of a directory, a loop of links, a name that is too long."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    error = peer.refused("fs/readFile", path=str(tmp_path / "file" / "x"))
    assert (*kind_of(error), error["data"]["errno"]) == (-32603, "notADirectory", 20)
    for path in (tmp_path / "loop", tmp_path / ("x" * 300)):
        error = peer.refused("fs/readFile", path=str(path))
        assert (*kind_of(error), type(error["data"]["errno"])) == (-32603, "ioError", int)


def test_file_requests_take_effect_in_order(peer: Peer, tmp_path: Path) -> None:
    """Sent at once: each read finds what the write before it wrote."""
    path = str(tmp_path / "file")
    reads = []
    for number in range(100):
        peer.request("fs/writeFile", path=path, dataBase64=text_of(b"%d" % number))
        reads.append(peer.request("fs/readFile", path=path))
        if number % 10 == 0:
            peer.request("fs/remove", path=path)
    found = [base64.b64decode(peer.result(id)["dataBase64"]) for id in reads]
    assert found == [b"%d" % number for number in range(100)]


def test_files_hold_up_neither_processes_nor_other_connections(
    listen: Callable[..., Program], open_websocket: OpenPeer, tmp_path: Path
) -> None:
    """More is asked for than can wait to be sent, so that reads are pending while processes run from start to end."""
    server = listen()
    peer, other = open_websocket(server).handshake(), open_websocket(server).handshake()
    (tmp_path / "file").write_bytes(bytes(MIB // 4))
    reads = [peer.request("fs/readFile", path=str(tmp_path / "file")) for _ in range(200)]
    other_life, life = other.run("echo", "other"), peer.run("echo", "hi")
    assert (other_life.stdout, life.stdout) == (b"other\n", b"hi\n")
    assert all(peer.result(id) for id in reads)
