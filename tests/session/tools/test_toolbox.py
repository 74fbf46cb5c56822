"""The tools of a session, called as a model calls them, on every kind of backend."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import re
from collections.abc import Iterator

import pytest
from fake_files import FakeFiles
from workspaces import Workspace

from execsrv import ExecServerClient
from execsrv.client.errors import ClosedError
from execsrv.session.config import SessionConfig
from execsrv.session.environment import Environment
from execsrv.session.path_mapper import PathMapper
from execsrv.session.tools.arguments import tool_names
from execsrv.session.tools.result import ToolResult
from execsrv.session.tools.toolbox import Toolbox, tools_for
from execsrv.session.unified_exec.local_process import LocalSessionFactory
from execsrv.session.unified_exec.manager import UnifiedExecManager
from execsrv.session.unified_exec.server_process import ExecServerSessionFactory

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")


@pytest.fixture
def manager(
    client: ExecServerClient | None, path_mapper: PathMapper | None, workspace: Workspace
) -> Iterator[UnifiedExecManager]:
    """The backend's commands."""
    with contextlib.closing(LocalSessionFactory()) as local:
        factory = ExecServerSessionFactory(client, path_mapper, local) if client else local
        with UnifiedExecManager(factory, workspace.path()) as manager:
            yield manager


@pytest.fixture
def toolbox(environment: Environment, manager: UnifiedExecManager) -> Toolbox:
    """The tools over the backend."""
    return Toolbox(environment, manager)


@pytest.fixture
def one_toolbox(tmp_path: os.PathLike[str]) -> Iterator[Toolbox]:
    """The tools over no files, and commands of this machine."""
    with contextlib.closing(LocalSessionFactory()) as factory:
        with UnifiedExecManager(factory, os.fspath(tmp_path)) as manager:
            yield Toolbox(Environment(FakeFiles({})), manager)


# ---- the choice ----------------------------------------------------------------------------------------------------


def configured(*tools: str) -> SessionConfig:
    """A configuration with these tools."""
    return SessionConfig(experimental_supported_tools=tools)


def test_configured_tools_come_after_those_of_the_model() -> None:
    """Each once, where it is named first."""
    model = ["list_dir", "view_image", "list_dir"]
    assert tools_for(model, configured("read_file", "list_dir", "read_file")) == ["list_dir", "view_image", "read_file"]
    assert tools_for([], configured()) == []


def test_an_unknown_tool_stays_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It may be the caller's own; a known one is not worth a line."""
    with caplog.at_level(logging.DEBUG):
        assert tools_for(["grep_files"], configured("read_file", "wrong")) == ["grep_files", "read_file", "wrong"]
    assert [record.getMessage() for record in caplog.records] == [
        "there is no tool 'grep_files' here",
        "there is no tool 'wrong' here",
    ]


def test_every_tool_is_specified(one_toolbox: Toolbox) -> None:
    """In the order asked for; one that is not here is left out."""
    names = [*tool_names()[::-1], "grep_files"]
    assert [told["name"] for told in one_toolbox.specifications(names)] == tool_names()[::-1]


# ---- files ---------------------------------------------------------------------------------------------------------


def test_a_tool_is_called_with_an_object_or_its_json(toolbox: Toolbox, workspace: Workspace) -> None:
    """The result is the same."""
    (workspace.place / "a").write_bytes(b"one\r\ntwo\n")
    arguments = {"file_path": workspace.path("a"), "offset": 2}
    for form in (arguments, json.dumps(arguments)):
        assert toolbox.call("read_file", form) == ToolResult("L2: two")


def test_a_directory_is_listed(toolbox: Toolbox, workspace: Workspace) -> None:
    """Every kind of entry, a link to a directory, and a name that is not UTF-8."""
    (workspace.place / "sub" / "deeper").mkdir(parents=True)
    (workspace.place / "sub" / "file").touch()
    (workspace.place / "link").symlink_to("sub")
    os.mkfifo(workspace.place / "pipe")
    os.close(os.open(bytes(workspace.place) + b"/\xff", os.O_CREAT))
    expected = [f"Absolute path: {workspace.path()}", "link@", "pipe?", "sub/", "  deeper/", "  file", "\ufffd"]
    assert toolbox.call("list_dir", {"dir_path": workspace.path()}) == ToolResult("\n".join(expected))


def test_a_link_to_a_directory_is_listed_when_it_is_named(toolbox: Toolbox, workspace: Workspace) -> None:
    """Only those that are met on the way are not followed."""
    (workspace.place / "sub").mkdir()
    (workspace.place / "sub" / "file").touch()
    (workspace.place / "link").symlink_to("sub")
    link = workspace.path("link")
    assert toolbox.call("list_dir", {"dir_path": link}) == ToolResult(f"Absolute path: {link}\nfile")


def test_an_image_is_part_of_the_result(toolbox: Toolbox, workspace: Workspace) -> None:
    """As a URL that can be passed on."""
    (workspace.place / "a.png").write_bytes(PIXEL)
    path = workspace.path("a.png")
    url = "data:image/png;base64," + base64.b64encode(PIXEL).decode()
    expected = ToolResult(f"{path}: image/png, {len(PIXEL)} bytes", image_url=url)
    assert toolbox.call("view_image", {"path": path}) == expected


@pytest.mark.parametrize(
    "name, arguments, words",
    [
        ("read_file", {"file_path": "{}/no"}, "failed to read file: No such file or directory"),
        ("read_file", {"file_path": "{}/d"}, "failed to read file: Is a directory"),
        ("read_file", {"file_path": "{}/f/x"}, "failed to read file: Not a directory"),
        ("read_file", {"file_path": "{}/" + "x" * 300}, "failed to read file: File name too long"),
        ("read_file", {"file_path": "{}/\0"}, "failed to read file: not an absolute path: "),
        ("read_file", {"file_path": "{}/pipe"}, "failed to read file: "),
        ("list_dir", {"dir_path": "{}/no"}, "unable to access `{}/no`: No such file or directory"),
        ("list_dir", {"dir_path": "{}/f"}, "`{}/f` is not a directory"),
        ("list_dir", {"dir_path": "{}/\ud800"}, "unable to access `{}/\ufffd`: "),
        ("view_image", {"path": "{}/f"}, "`{}/f` is not a PNG, JPEG, GIF or WebP image"),
        ("view_image", {"path": "{}/no"}, "failed to read image: No such file or directory"),
    ],
)
def test_what_is_wrong_with_files_is_told_to_the_model(
    toolbox: Toolbox, workspace: Workspace, name: str, arguments: dict[str, str], words: str
) -> None:
    """As a result without success, in words that can be sent; {} stands for the workspace."""
    (workspace.place / "f").write_bytes(b"x")
    (workspace.place / "d").mkdir()
    os.mkfifo(workspace.place / "pipe")
    result = toolbox.call(name, {argument: value.format(workspace.path()) for argument, value in arguments.items()})
    assert result.text.startswith(words.format(workspace.path()))
    assert not result.success and result.image_url is None
    assert result.text.encode()


# ---- commands ------------------------------------------------------------------------------------------------------


def test_a_command_is_run_in_the_workspace(toolbox: Toolbox, workspace: Workspace) -> None:
    """An exit code is a success whatever it is."""
    result = toolbox.call("exec_command", {"cmd": "echo made > file; cat file; exit 3", "login": False})
    assert result.success and result.image_url is None
    assert re.search(r"^Process exited with code 3$", result.text, re.MULTILINE)
    assert result.text.endswith("Output:\nmade\n")
    assert toolbox.call("read_file", {"file_path": workspace.path("file")}) == ToolResult("L1: made")


def test_a_command_is_given_input(toolbox: Toolbox) -> None:
    """By the session id that its first answer names; the last answer ends the session."""
    begun = toolbox.call("exec_command", '{"cmd": "read a; echo got $a", "tty": true, "yield_time_ms": 250.0}')
    found = re.search(r"^Process running with session ID (\d+)$", begun.text, re.MULTILINE)
    assert begun.success and found
    more = {"session_id": int(found[1]), "chars": "x\n", "yield_time_ms": 30_000}
    answer = toolbox.call("write_stdin", more)
    assert answer.success and "got x" in answer.text and "Process exited with code 0" in answer.text
    assert toolbox.call("write_stdin", more) == ToolResult(f"unknown session id {found[1]}", success=False)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"cmd": "  "}, "the command to run is missing"),
        ({"cmd": "true", "shell": "/no/shell"}, "failed to start the command: "),
        ({"cmd": "true", "workdir": "no"}, "failed to start the command: "),
        ({"cmd": "echo \0"}, "failed to start the command: "),
        ({"cmd": "echo \ud800"}, "failed to start the command: "),
        ({"cmd": "true", "workdir": "\ud800"}, "failed to start the command: "),
    ],
)
def test_what_keeps_a_command_from_running_is_told_to_the_model(
    toolbox: Toolbox, arguments: dict[str, str], words: str
) -> None:
    """As a result without success, in words that can be sent."""
    result = toolbox.call("exec_command", arguments)
    assert result.text.startswith(words) and not result.success
    assert result.text.encode()


# ---- all tools -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, arguments, words",
    [
        ("read_file", {"file_path": "f"}, "file_path must be an absolute path"),
        ("read_file", {"file_path": "/f", "offset": 0}, "offset must be a 1-indexed line number"),
        ("read_file", "{", "arguments are not JSON: "),
        ("list_dir", {"dir_path": "/", "offset": 0}, "offset must be a 1-indexed entry number"),
        ("list_dir", {"dir_path": "/", "depth": 0}, "depth must be greater than zero"),
        ("view_image", {"path": "/f", "detail": "high"}, "arguments.detail: is not known"),
        ("exec_command", {"command": "true"}, "arguments.command: is not known"),
        ("exec_command", {"cmd": ["true"]}, "arguments.cmd: ['true'] is not of type 'string'"),
        ("exec_command", {"cmd": "true", "sandbox": "none"}, "arguments.sandbox: is not known"),
        ("exec_command", {"cmd": "true", "inherited_fds": [0]}, "arguments.inherited_fds: is not known"),
        ("write_stdin", {"session_id": "5"}, "arguments.session_id: '5' is not of type 'integer'"),
        ("write_stdin", {"session_id": 5, "yield_time_ms": -1}, "arguments.yield_time_ms: -1 is less than"),
        ("grep_files", {}, "there is no tool `grep_files`"),
        ("gr\ud800", {}, "there is no tool `gr\ufffd`"),
    ],
)
def test_wrong_arguments_are_told_to_the_model(
    one_toolbox: Toolbox, name: str, arguments: dict[str, object] | str, words: str
) -> None:
    """Each tool has its own words for them, and none takes what its schema does not name."""
    result = one_toolbox.call(name, arguments)
    assert result.text.startswith(words) and not result.success and result.image_url is None
    assert result.text.encode()


class LostFiles(FakeFiles):
    """Files whose connection is lost."""

    def read_file(self, path: str) -> bytes:
        """See ExecutorFileSystem."""
        raise ClosedError("gone")


@pytest.mark.parametrize("backend", ["local"], indirect=True)
def test_what_is_not_for_the_model_is_raised(manager: UnifiedExecManager) -> None:
    """Such as a lost connection, from files that tell of it as the client does."""
    with pytest.raises(ClosedError):
        Toolbox(Environment(LostFiles({})), manager).call("read_file", {"file_path": "/a"})
