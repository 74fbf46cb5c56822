"""A model's turns in a session whose workspace is on a server, under another root.

``EXECSRV_TEST_WS_URL`` names a server to work on, and ``EXECSRV_TEST_REMOTE_ROOT`` a directory of it in which a new
one can be made; without them the test has a server of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from agents import Agent, open_agent, session_id_of

from execsrv import ExecServerClient
from execsrv.session import ToolResult, load_config, tools_for

URL_VARIABLE = "EXECSRV_TEST_WS_URL"
ROOT_VARIABLE = "EXECSRV_TEST_REMOTE_ROOT"

#: What a model yields, a tool and its arguments, and what it is sent, the answer's text.
Turns: TypeAlias = Generator[tuple[str, dict[str, Any]], str, None]


@pytest.fixture
def executor(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The URL of a server, and the workspace root there."""
    url = os.environ.get(URL_VARIABLE, "").strip()
    if url:
        return url, os.environ[ROOT_VARIABLE]
    (tmp_path / "workspace").mkdir()
    return request.getfixturevalue("server_url"), str(tmp_path / "workspace")


@pytest.fixture
def other(executor: tuple[str, str]) -> Iterator[ExecServerClient]:
    """Another client of the server, which sees what is really there."""
    with ExecServerClient.connect_websocket(executor[0]) as client:
        yield client


@pytest.fixture
def remote_cwd(executor: tuple[str, str], other: ExecServerClient) -> Iterator[str]:
    """A new directory in the workspace root."""
    path = posixpath.join(executor[1], f"execsrv-{uuid.uuid4().hex}")
    other.fs.mkdir(path)
    yield path
    other.fs.remove(path, recursive=True)


@pytest.fixture
def agent(executor: tuple[str, str], remote_cwd: str, tmp_path: Path) -> Iterator[Agent]:
    """An agent that works in the new directory, which its settings lead to."""
    url, remote_root = executor
    local_root = tmp_path / "local"
    settings = f"""
        experimental_unified_exec_use_exec_server = true
        experimental_unified_exec_exec_server_websocket_url = {json.dumps(url)}
        experimental_unified_exec_exec_server_workspace_root = {json.dumps(remote_root)}
        experimental_unified_exec_exec_server_local_root = {json.dumps(str(local_root))}
        experimental_supported_tools = ["read_file", "list_dir"]
    """
    with open_agent(load_config(settings), str(local_root / posixpath.basename(remote_cwd))) as agent:
        yield agent


def scripted_model(cwd: str) -> Turns:
    """A model that writes a program, tries it in a shell, and looks at what came of it."""
    program = "def total():\\n    return 6 * 7\\n"
    yield "exec_command", {"cmd": f"mkdir src; printf '{program}' > src/total.py; pwd", "login": False}
    answer = yield "exec_command", {"cmd": "sh -i", "login": False, "tty": True, "yield_time_ms": 250}
    shell = session_id_of(answer)
    yield "write_stdin", {"session_id": shell, "chars": "name=result; cd src\n"}
    leave = "echo 42 > ../$name.txt; exit 3\n"
    yield "write_stdin", {"session_id": shell, "chars": leave, "yield_time_ms": 30_000}
    yield "write_stdin", {"session_id": shell, "chars": "echo again\n"}
    yield "read_file", {"file_path": f"{cwd}/src/total.py"}
    yield "read_file", {"file_path": f"{cwd}/result.txt"}
    yield "read_file", {"file_path": f"{cwd}/missing.txt"}
    yield "list_dir", {"dir_path": cwd}


def run_turns(agent: Agent, turns: Turns) -> list[ToolResult]:
    """What the calls of a model give, until it is done; it knows two of the tools, and is offered the settings'."""
    offered = tools_for(["exec_command", "write_stdin"], agent.config)
    results: list[ToolResult] = []
    with contextlib.suppress(StopIteration):
        tool, arguments = next(turns)
        while True:
            assert tool in offered
            results.append(agent.call(tool, **arguments))
            tool, arguments = turns.send(results[-1].text)
    return results


def test_the_turns_of_a_model_leave_their_files(agent: Agent, remote_cwd: str, other: ExecServerClient) -> None:
    """Each call is answered in the session's names; what was written is in the server's directory."""
    made, started, _, left, again, program, result, missing, listed = run_turns(agent, scripted_model(agent.cwd))
    assert made.text.endswith(f"\nOutput:\n{remote_cwd}\n")
    assert "\nProcess exited with code 3\n" in left.text
    assert again == ToolResult(f"unknown session id {session_id_of(started.text)}", success=False)
    assert program == ToolResult("L1: def total():\nL2:     return 6 * 7")
    assert result == ToolResult("L1: 42")
    assert missing == ToolResult("failed to read file: No such file or directory", success=False)
    assert listed == ToolResult(f"Absolute path: {agent.cwd}\nresult.txt\nsrc/\n  total.py")
    assert not os.path.exists(agent.cwd)
    assert other.fs.read_text(f"{remote_cwd}/result.txt") == "42\n"
    assert other.fs.read_text(f"{remote_cwd}/src/total.py") == "def total():\n    return 6 * 7\n"
