"""Tests of execsrv.client.remote_file, and of what FileSystem does with it, on real files."""

from __future__ import annotations

import filecmp
import gc
import io
import os
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import WAIT

from execsrv import ClosedError, ExecServerClient, ServerError
from execsrv.client.filesystem import ONE_MESSAGE_BYTES, FileSystem
from execsrv.client.remote_file import BLOCK_BYTES, BlockHandle
from execsrv.config import KIB, MIB, ExecServerConfig

#: Several blocks, of which the last is not full.
DATA = os.urandom(2 * BLOCK_BYTES) + b"the end"


@pytest.fixture
def fs(any_client: ExecServerClient) -> FileSystem:
    """The files of a real server."""
    return any_client.fs


class SpyingClient:
    """Passes calls on and notes them; ``before`` is called with the method before each."""

    def __init__(self, client: ExecServerClient, before: Callable[[str], None] = lambda method: None) -> None:
        self._client = client
        self._before = before
        self._changed = threading.Condition()
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def call(self, method: str, params: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Note a call and make it."""
        with self._changed:
            self.calls.append((method, params))
            self._changed.notify_all()
        self._before(method)
        return self._client.call(method, params, timeout)

    def wait_for_close(self) -> dict[str, Any]:
        """The params of the first call of fs/close, once there is one."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.of("fs/close"), WAIT)
            return self.of("fs/close")[0]

    def of(self, method: str) -> list[dict[str, Any]]:
        """The params of the calls of a method."""
        return [params for called, params in self.calls if called == method]


@pytest.fixture
def spy(local_client: ExecServerClient) -> SpyingClient:
    """A client that notes its calls."""
    return SpyingClient(local_client)


@pytest.fixture
def spied_fs(spy: SpyingClient) -> FileSystem:
    """The files that it sees."""
    return FileSystem(spy, has_blocks=True)


# ---- reading -------------------------------------------------------------------------------------------------------


def test_read_binary(fs: FileSystem, tmp_path: Path) -> None:
    """All of it, a part, and from any place."""
    (tmp_path / "file").write_bytes(DATA)
    with fs.open(tmp_path / "file", "rb") as file:
        assert (file.read(3), file.tell()) == (DATA[:3], 3)
        assert file.read() == DATA[3:]
        assert file.read() == b""
        assert (file.seek(-7, os.SEEK_END), file.read()) == (len(DATA) - 7, b"the end")
        assert (file.seek(10), file.seek(5, os.SEEK_CUR), file.read(2)) == (10, 15, DATA[15:17])
        with pytest.raises(ValueError):
            file.seek(-1)
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"")
    assert file.closed


def test_read_text(fs: FileSystem, tmp_path: Path) -> None:
    """In lines, as ``open`` does it."""
    (tmp_path / "file").write_bytes("grüße\r\nlast".encode())
    with fs.open(tmp_path / "file") as file:
        assert list(file) == ["grüße\n", "last"]
    (tmp_path / "file").write_bytes(b"\xe9")
    with fs.open(tmp_path / "file", encoding="latin-1") as file:
        assert file.read() == "é"


def test_other_libraries_can_read_it(fs: FileSystem, tmp_path: Path) -> None:
    """An archive is searched from its end."""
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("name", "content")
    with fs.open(tmp_path / "zip", "rb") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("name") == b"content"


def test_file_that_grows(fs: FileSystem, tmp_path: Path) -> None:
    """Its end is where it is at the time."""
    with open(tmp_path / "file", "wb") as growing, fs.open(tmp_path / "file", "rb") as file:
        assert file.read() == b""
        growing.write(b"more")
        growing.flush()
        assert file.read() == b"more"


def test_file_keeps_its_client(tmp_path: Path) -> None:
    """It can be read though it is all that is left of the connection."""
    (tmp_path / "file").write_bytes(DATA)
    file = ExecServerClient.connect_in_process().fs.open(tmp_path / "file", "rb")
    gc.collect()
    assert file.read() == DATA


def test_small_reads_are_not_small_requests(spied_fs: FileSystem, spy: SpyingClient, tmp_path: Path) -> None:
    """They come from a block."""
    (tmp_path / "file").write_bytes(b"x\n" * 1000)
    with spied_fs.open(tmp_path / "file") as file:
        assert len(list(file)) == 1000
    assert len(spy.calls) <= 4


# ---- writing -------------------------------------------------------------------------------------------------------


def test_write_binary(fs: FileSystem, tmp_path: Path) -> None:
    """Nobody sees anything before it is whole."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with fs.open(path, "wb") as file:
        for start in range(0, len(DATA), 300_001):
            file.write(DATA[start : start + 300_001])
        assert path.read_bytes() == b"old"
        with pytest.raises(io.UnsupportedOperation):
            file.read()
    assert path.read_bytes() == DATA
    assert os.listdir(tmp_path) == ["file"]


def test_write_text(fs: FileSystem, tmp_path: Path) -> None:
    """Line ends stay as they are."""
    with fs.open(tmp_path / "file", "w") as file:
        file.write("grüße\r\n")
        file.write("last\n")
    assert (tmp_path / "file").read_bytes() == "grüße\r\nlast\n".encode()


def test_nothing_written_is_an_empty_file(fs: FileSystem, tmp_path: Path) -> None:
    """Also without a with block."""
    fs.open(tmp_path / "file", "wb").close()
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_error_in_the_block_discards(fs: FileSystem, tmp_path: Path, mode: Any) -> None:
    """Half a file is none; the error is not hidden."""
    with pytest.raises(KeyError), fs.open(tmp_path / "file", mode) as file:
        file.write("x" if mode == "w" else DATA)
        raise KeyError
    assert file.closed
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", ["r", "rb", "w", "wb"])
def test_dropped_file_is_closed_without_effect(
    spied_fs: FileSystem, spy: SpyingClient, tmp_path: Path, mode: Any
) -> None:
    """On another thread: whoever drops it does not wait."""
    if mode.startswith("r"):
        (tmp_path / "file").touch()
    file = spied_fs.open(tmp_path / "file", mode)
    if mode.startswith("w"):
        file.write("x" if mode == "w" else b"x" * 2 * BLOCK_BYTES)
    del file
    assert spy.wait_for_close()["commit"] is False
    assert spied_fs.exists(tmp_path / "file") == mode.startswith("r")


def test_file_that_lacks_a_block_is_not_committed(local_client: ExecServerClient, tmp_path: Path) -> None:
    """Whatever interrupted it, and though the rest could be written."""

    def interrupt_once(method: str) -> None:
        if method == "fs/writeBlock" and len(spy.of(method)) == 1:
            raise KeyboardInterrupt

    spy = SpyingClient(local_client, interrupt_once)
    file = FileSystem(spy).open(tmp_path / "file", "wb")
    with pytest.raises(KeyboardInterrupt):
        file.write(b"x" * 2 * BLOCK_BYTES)
    with pytest.raises(OSError, match="not everything could be written"):
        file.close()
    assert file.closed
    assert spy.wait_for_close()["commit"] is False
    assert os.listdir(tmp_path) == []


def test_interrupted_open_leaves_no_handle(local_client: ExecServerClient, tmp_path: Path) -> None:
    """The server may open it all the same, and is told to close it."""
    (tmp_path / "file").touch()

    def interrupt(method: str) -> None:
        if method == "fs/open":
            raise KeyboardInterrupt

    spy = SpyingClient(local_client, interrupt)
    with pytest.raises(KeyboardInterrupt):
        BlockHandle(spy, tmp_path / "file", "read")
    assert spy.of("fs/open")[0]["handleId"] == spy.wait_for_close()["handleId"]


def test_lost_connection(tmp_path: Path) -> None:
    """Closing says that nothing was written."""
    with ExecServerClient.connect_in_process() as client:
        file = client.fs.open(tmp_path / "file", "wb")
        reader = client.fs.open("/etc/passwd", "rb")
        file.write(b"x")
    with pytest.raises(ClosedError):
        file.close()
    reader.close()
    assert os.listdir(tmp_path) == []


# ---- errors --------------------------------------------------------------------------------------------------------


def test_errors_are_those_of_the_system(fs: FileSystem, tmp_path: Path) -> None:
    """They come when it is opened."""
    for mode in ("rb", "w"):
        with pytest.raises(FileNotFoundError) as caught:
            fs.open(tmp_path / "missing" / "file", mode)  # type: ignore[call-overload]
        assert caught.value.filename == tmp_path / "missing" / "file"
    with pytest.raises((IsADirectoryError, ServerError)):
        fs.open(tmp_path, "rb")


@pytest.mark.parametrize("mode", ["a", "r+", "x", "rt", "", "br"])
def test_other_modes(fs: FileSystem, tmp_path: Path, mode: Any) -> None:
    """There are none, and nothing is opened."""
    with pytest.raises(ValueError, match="mode is"):
        fs.open(tmp_path / "file", mode)


def test_handles_are_given_back(fs: FileSystem, tmp_path: Path) -> None:
    """More files than may be open at a time can be opened one after the other, whatever happens to them."""
    for _ in range(70):
        with fs.open(tmp_path / "file", "wb") as file:
            file.write(b"x")
        fs.open(tmp_path / "file", "rb").close()
        with pytest.raises(KeyError), fs.open(tmp_path / "other", "w"):
            raise KeyError


# ---- whole files ---------------------------------------------------------------------------------------------------


def test_large_content_is_written_in_blocks(spied_fs: FileSystem, spy: SpyingClient, tmp_path: Path) -> None:
    """And what is not large in one message."""
    data = bytes(ONE_MESSAGE_BYTES + 1)
    spied_fs.write_bytes(tmp_path / "file", data[1:])
    assert [method for method, _ in spy.calls] == ["fs/writeFile"]
    spied_fs.write_bytes(tmp_path / "file", data)
    assert len(spy.of("fs/writeBlock")) == 9
    assert (tmp_path / "file").read_bytes() == data


def test_server_without_blocks(spy: SpyingClient, tmp_path: Path) -> None:
    """It gets everything in one message."""
    FileSystem(spy).write_bytes(tmp_path / "file", bytes(ONE_MESSAGE_BYTES + 1))
    assert [method for method, _ in spy.calls] == ["fs/writeFile"]


def test_what_is_too_large_is_read_in_blocks(tmp_path: Path) -> None:
    """As the server sees it; text, too."""
    (tmp_path / "file").write_bytes(DATA)
    config = ExecServerConfig(max_read_file_bytes=100 * KIB)
    with ExecServerClient.connect_in_process(config=config) as client:
        assert client.fs.read_bytes(tmp_path / "file") == DATA
        assert client.fs.read_text(tmp_path / "file", "latin-1") == DATA.decode("latin-1")
        with pytest.raises(ServerError) as caught:
            FileSystem(client).read_bytes(tmp_path / "file")
        assert caught.value.kind == "tooLarge"


def test_upload_and_download(fs: FileSystem, tmp_path: Path) -> None:
    """An empty file, and one of several blocks."""
    for data in (b"", DATA):
        (tmp_path / "here").write_bytes(data)
        fs.upload(tmp_path / "here", tmp_path / "there")
        fs.download(tmp_path / "there", tmp_path / "back")
        assert (tmp_path / "there").read_bytes() == (tmp_path / "back").read_bytes() == data


def test_upload_of_what_is_not_there(fs: FileSystem, tmp_path: Path) -> None:
    """Nothing is changed."""
    with pytest.raises(FileNotFoundError):
        fs.upload(tmp_path / "missing", tmp_path / "there")
    with pytest.raises(FileNotFoundError):
        fs.download(tmp_path / "missing", tmp_path / "here")
    assert os.listdir(tmp_path) == []


def peak_kib(pid: int) -> int:
    """The most memory that a process has had since ``forget_peak`` (proc_pid_status(5), VmHWM)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def forget_peak(pid: int) -> None:
    """Let the peak be what is in use now (proc_pid_clear_refs(5))."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@pytest.mark.parametrize("megabytes", [64, pytest.param(700, marks=pytest.mark.soak)])
def test_memory_is_bounded(local_client: ExecServerClient, tmp_path: Path, megabytes: int) -> None:
    """On both sides, whatever the size of the file."""
    with open(tmp_path / "here", "wb") as file:
        for number in range(megabytes):
            file.write(number.to_bytes(8, "big") * (MIB // 8))
    server = int(local_client.run(["sh", "-c", "echo $PPID"], text=True).stdout)
    before = {}
    for pid in (server, os.getpid()):
        forget_peak(pid)
        before[pid] = peak_kib(pid)
    local_client.fs.upload(tmp_path / "here", tmp_path / "there")
    local_client.fs.download(tmp_path / "there", tmp_path / "back")
    grown = {pid: peak_kib(pid) - before[pid] for pid in before}
    assert max(grown.values()) < 32 * KIB, grown
    assert filecmp.cmp(tmp_path / "here", tmp_path / "back", shallow=False)
    for name in ("here", "there", "back"):
        (tmp_path / name).unlink()
