"""Tests of execsrv.session.project_docs, on every backend."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from workspaces import Workspace

from execsrv.session.config import SessionConfig
from execsrv.session.environment import Environment, FileMetadata
from execsrv.session.local_file_system import LocalFileSystem
from execsrv.session.project_docs import read_project_docs

Read: TypeAlias = Callable[..., str | None]


@pytest.fixture
def read(environment: Environment, workspace: Workspace) -> Read:
    """Reads the docs for a directory of the workspace with these settings; the workspace is a project's root."""
    (workspace.place / ".git").mkdir()

    def read(cwd: str = ".", user_instructions: str | None = None, **settings: Any) -> str | None:
        return read_project_docs(SessionConfig(**settings), workspace.path(cwd), environment, user_instructions)

    return read


@pytest.fixture
def write(workspace: Workspace) -> Callable[[str, str | bytes], None]:
    """Writes a file of the workspace."""

    def write(name: str, content: str | bytes) -> None:
        path = workspace.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return write


Write: TypeAlias = Callable[[str, str | bytes], None]


def test_without_docs_there_are_none(read: Read) -> None:
    """The user's instructions are all then, if there are any."""
    assert read() is None
    assert read(user_instructions="") is None
    assert read(user_instructions="be kind") == "be kind"


def test_the_users_instructions_come_first(read: Read, write: Write) -> None:
    """A line tells them from the project's."""
    write("AGENTS.md", "use tabs")
    assert read() == "use tabs"
    assert read(user_instructions="") == "use tabs"
    assert read(user_instructions="be kind") == "be kind\n\n--- project-doc ---\n\nuse tabs"


def test_the_docs_of_the_machine_with_the_files_win(read: Read, write: Write, workspace: Workspace) -> None:
    """Over one that lies here under the same path."""
    workspace.root.mkdir(parents=True, exist_ok=True)
    (workspace.root / "AGENTS.md").write_text("local doc")
    write("AGENTS.md", "remote doc")
    assert read() == "remote doc"


def test_docs_go_from_the_root_down_to_the_directory(read: Read, write: Write) -> None:
    """Each directory on the way has its say, no other."""
    write("AGENTS.md", "root")
    write("workspace/AGENTS.md", "workspace")
    write("workspace/crate_a/AGENTS.md", "crate")
    write("workspace/crate_a/src/AGENTS.md", "below")
    write("workspace/crate_b/AGENTS.md", "beside")
    assert read("workspace/crate_a") == "root\n\nworkspace\n\ncrate"
    assert read("workspace/crate_b/../crate_a/.") == "root\n\nworkspace\n\ncrate"
    assert read("workspace") == "root\n\nworkspace"


def test_the_root_is_the_nearest_directory_with_a_marker(read: Read, write: Write) -> None:
    """A file or a directory, one of several; the default is that of git."""
    write("AGENTS.md", "outer")
    write("inner/.git", "gitdir: elsewhere")
    write("inner/AGENTS.md", "inner")
    write("inner/deep/AGENTS.md", "deep")
    write("inner/deep/.hg/store", "")
    assert read("inner/deep") == "inner\n\ndeep"
    assert read("inner/deep", project_root_markers=(".hg",)) == "deep"
    assert read("inner/deep", project_root_markers=(".svn", ".git")) == "inner\n\ndeep"


@pytest.mark.parametrize("markers", [(), (".not-there",)])
def test_without_a_root_the_directory_stands_alone(markers: tuple[str, ...], read: Read, write: Write) -> None:
    """When no marker is found, and when none is wanted."""
    write("AGENTS.md", "outer")
    write("inner/AGENTS.md", "inner")
    assert read("inner", project_root_markers=markers) == "inner"


def test_each_directory_gives_its_first_file(read: Read, write: Write) -> None:
    """The override before the usual name, and that before others in their order."""
    fallbacks = ("", "NOTES.md", "docs/agents.md")
    for name in ("docs/agents.md", "NOTES.md", "AGENTS.md", "AGENTS.override.md"):
        write(name, f"from {name}")
        assert read(project_doc_fallback_filenames=fallbacks) == f"from {name}"


def test_a_directory_with_the_name_of_a_doc_is_passed_over(read: Read, write: Write, workspace: Workspace) -> None:
    """And so is a link that leads nowhere; one that leads to a file counts."""
    (workspace.place / "AGENTS.override.md").mkdir()
    (workspace.place / "AGENTS.md").symlink_to("nowhere")
    write("real.md", "real")
    (workspace.place / "NOTES.md").symlink_to("real.md")
    assert read(project_doc_fallback_filenames=("NOTES.md",)) == "real"
    (workspace.place / "AGENTS.override.md").rmdir()
    os.mkfifo(workspace.place / "AGENTS.override.md")
    assert read(project_doc_fallback_filenames=("NOTES.md",)) == "real"


def test_a_directory_that_is_not_there_yet_has_no_docs(read: Read, write: Write) -> None:
    """Those above it count."""
    write("AGENTS.md", "root")
    assert read("not/yet") == "root"


def test_too_much_is_cut(read: Read, write: Write, caplog: pytest.LogCaptureFixture) -> None:
    """All docs share the bytes; what joins them is not counted. The log says of each what is missing."""
    write("AGENTS.md", "1234567890")
    write("a/AGENTS.md", "abcdefghij")
    write("a/b/AGENTS.md", "ABC")
    assert read("a", project_doc_max_bytes=20) == "1234567890\n\nabcdefghij"
    assert caplog.records == []
    assert read("a", project_doc_max_bytes=13) == "1234567890\n\nabc"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "of the 10 bytes" in caplog.text and "/a/AGENTS.md only 3" in caplog.text
    caplog.clear()
    assert read("a/b", project_doc_max_bytes=4) == "1234"
    assert len(caplog.records) == 3


def test_a_cut_leaves_whole_characters(read: Read, write: Write) -> None:
    """And what is no UTF-8 is replaced."""
    write("AGENTS.md", "aüb")
    assert [read(project_doc_max_bytes=size) for size in (1, 2, 3, 4)] == ["a", "a", "aü", "aüb"]
    write("AGENTS.md", b"a\xffb")
    assert read() == "a\ufffdb"


def test_no_bytes_are_no_docs(environment: Environment, workspace: Workspace) -> None:
    """Nothing is even looked for."""

    class Forbidden(LocalFileSystem):
        def get_metadata(self, path: str) -> FileMetadata:
            raise AssertionError(path)

    (workspace.place / "AGENTS.md").write_text("x")
    config = SessionConfig(project_doc_max_bytes=0)
    assert read_project_docs(config, "/", Environment(Forbidden())) is None
    assert read_project_docs(config, workspace.path(), environment, "be kind") == "be kind"


def test_a_blank_doc_costs_nothing(read: Read, write: Write, caplog: pytest.LogCaptureFixture) -> None:
    """But it stands for its directory, so an override can silence one."""
    write("AGENTS.override.md", " \n\t\u3000" * 100)
    write("AGENTS.md", "silenced")
    write("a/AGENTS.md", "abc")
    write("a/b/AGENTS.md", " " * 100)
    assert read("a/b", project_doc_max_bytes=3) == "abc"
    assert caplog.records == []


def test_a_directory_that_is_none_is_an_error(read: Read, write: Write) -> None:
    """Not the same as one that is not there."""
    write("file", "")
    with pytest.raises(NotADirectoryError):
        read("file")


@pytest.mark.parametrize("cwd", ["", "relative"])
def test_the_directory_is_absolute(cwd: str) -> None:
    """Else nobody knows where it is."""
    with pytest.raises(ValueError, match="absolute"):
        read_project_docs(SessionConfig(), cwd, Environment(LocalFileSystem()))


class Fickle(LocalFileSystem):
    """Files that can be looked at, but then not read."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    def read_file(self, path: str) -> bytes:
        """Fail."""
        raise self._error


def test_only_what_is_not_there_is_passed_over(tmp_path: Path) -> None:
    """A doc may vanish after it was found; any other error is the caller's to know."""
    (tmp_path / "AGENTS.md").write_text("x")
    config = SessionConfig(project_root_markers=())
    assert read_project_docs(config, str(tmp_path), Environment(Fickle(FileNotFoundError()))) is None
    with pytest.raises(PermissionError):
        read_project_docs(config, str(tmp_path), Environment(Fickle(PermissionError())))
