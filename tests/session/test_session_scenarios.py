"""What an agent does in a session from its settings on, on each kind of backend."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, open_agent
from endings import gone
from run_program import PATIENCE, Server, eventually
from workspaces import Workspace

from execsrv.session import ConnectionLost, SessionConfig, ToolResult, UnknownSession, read_project_docs

SHELL = "bash --norc -i"

#: The backends with a server, of which those with a program of its own can be killed.
SERVERS = ["in_process", "spawned", "websocket"]

#: The kinds of the events that tell of commands.
KINDS = ("begin", "output_delta", "terminal_interaction", "end")


@pytest.fixture
def agent(session_config: SessionConfig, workspace: Workspace) -> Iterator[Agent]:
    """An agent that works in the workspace."""
    with open_agent(session_config, workspace.path()) as agent:
        yield agent


@pytest.fixture
def lonely_config(backend: str, session_config: SessionConfig) -> Iterator[SessionConfig]:
    """Settings that choose the backend; a websocket server is nobody else's, and may be killed."""
    if backend != "websocket":
        yield session_config
        return
    server = Server()
    yield dataclasses.replace(session_config, experimental_unified_exec_exec_server_websocket_url=server.url)
    server.end()


# ---- interactive shells --------------------------------------------------------------------------------------------


def test_a_shell_keeps_a_variable_between_calls(agent: Agent) -> None:
    """What one call sets, the next one finds."""
    shell = agent.start(SHELL)
    assert agent.call("write_stdin", session_id=shell, chars="total=$((6 * 7))\n").success
    answer = agent.finish(shell, "echo total=$total; exit $total\n").text
    assert "\ntotal=42" in answer and "\nProcess exited with code 42\n" in answer


def test_two_shells_share_no_variable(agent: Agent) -> None:
    """Each has what it was given itself."""
    one, two = agent.start(SHELL), agent.start(SHELL)
    agent.call("write_stdin", session_id=one, chars="kept=7\n")
    assert "\nProcess exited with code 5\n" in agent.finish(two, "exit ${kept:-5}\n").text
    assert "\nProcess exited with code 7\n" in agent.finish(one, "exit ${kept:-5}\n").text


def test_the_id_of_a_finished_command_is_unknown(agent: Agent) -> None:
    """Once its end was reported; the model is told so."""
    shell = agent.start(SHELL)
    assert "\nProcess exited with code 0\n" in agent.finish(shell, "exit\n").text
    assert agent.finish(shell, "echo hello\n") == ToolResult(f"unknown session id {shell}", success=False)


# ---- project docs --------------------------------------------------------------------------------------------------


def write_docs(root: Path, docs: dict[str, str]) -> None:
    """Make ``root`` the root of a project with these files."""
    (root / ".git").mkdir(parents=True)
    for name, content in docs.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def docs_of(agent: Agent, directory: str = "") -> str | None:
    """What an agent is told that works in this directory of the workspace."""
    return read_project_docs(agent.config, os.path.join(agent.cwd, directory), agent.backends.environment)


def test_the_executors_doc_wins_over_the_local_one(agent: Agent, workspace: Workspace, tmp_path: Path) -> None:
    """Also where this machine has a file under the session's very path."""
    write_docs(tmp_path / "session" / "root", {"AGENTS.md": "local doc"})
    write_docs(workspace.place, {"AGENTS.md": "the executor's doc"})
    assert docs_of(agent) == "the executor's doc"


def test_the_executors_docs_go_from_its_root_to_the_directory(agent: Agent, workspace: Workspace) -> None:
    """In this order; those beside the way and below it are left out."""
    docs = {"AGENTS.md": "root", "a/AGENTS.md": "a", "a/b/AGENTS.md": "b", "c/AGENTS.md": "c", "a/b/d/AGENTS.md": "d"}
    write_docs(workspace.place, docs)
    assert docs_of(agent, "a/b") == "root\n\na\n\nb"


# ---- commands and files in one place -------------------------------------------------------------------------------


def test_a_generated_file_is_listed_and_read(agent: Agent, workspace: Workspace) -> None:
    """Tools for files see what commands have made, and it is really there."""
    agent.call("exec_command", cmd="mkdir out; echo made > out/generated.txt", login=False)
    listed = agent.call("list_dir", dir_path=agent.cwd)
    assert listed == ToolResult(f"Absolute path: {agent.cwd}\nout/\n  generated.txt")
    assert agent.call("read_file", file_path=workspace.path("out", "generated.txt")) == ToolResult("L1: made")
    assert (workspace.place / "out" / "generated.txt").read_text() == "made\n"


def test_the_directory_of_a_command_is_in_the_workspace(agent: Agent, workspace: Workspace) -> None:
    """The session's own, one relative to it, one that the session names in full; others stay what they are."""
    (workspace.place / "sub").mkdir()
    inside = {None: workspace.place, "sub": workspace.place / "sub", workspace.path("sub"): workspace.place / "sub"}
    for workdir, real in [*inside.items(), ("/", Path("/"))]:
        answer = agent.call("exec_command", cmd="pwd", login=False, workdir=workdir)
        assert answer.text.endswith(f"Output:\n{real}\n")


# ---- the end of commands -------------------------------------------------------------------------------------------


def test_a_background_job_that_holds_the_pipe_is_not_waited_for(agent: Agent) -> None:
    """The answer comes with the shell's end, while the job goes on; it ends with the session's commands."""
    answer = agent.manager.exec_command("sleep 1000 & echo $!", login=False, yield_time_ms=30_000)
    job = int(answer.output.retained)
    assert answer.exit_code == 0
    assert Path(f"/proc/{job}").exists()
    agent.manager.close()
    assert gone(job)


# ---- events --------------------------------------------------------------------------------------------------------


def take_until(events: queue.SimpleQueue[Any], kind: str) -> list[Any]:
    """The events up to the next one of this kind."""
    taken = [events.get(timeout=PATIENCE)]
    while taken[-1].kind != kind:
        taken.append(events.get(timeout=PATIENCE))
    return taken


def test_events_tell_of_a_command_in_order(agent: Agent) -> None:
    """Its begin, what it writes, what it is given, and its end with all that it wrote."""
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for kind in KINDS:
        agent.manager.events.subscribe(events.put, kind=kind)
    session_id = agent.start("echo ready; read line; echo got $line")
    seen = take_until(events, "output_delta")
    agent.finish(session_id, "it\n")
    seen += take_until(events, "end")
    assert [kind for kind, _ in itertools.groupby(event.kind for event in seen)] == [
        "begin",
        "output_delta",
        "terminal_interaction",
        "output_delta",
        "end",
    ]
    assert {event.process_id for event in seen} == {str(session_id)}
    assert (seen[0].cwd, seen[0].tty) == (agent.cwd, True)
    assert [event.stdin for event in seen if event.kind == "terminal_interaction"] == [b"it\n"]
    written = b"".join(event.chunk for event in seen if event.kind == "output_delta")
    assert written == seen[-1].transcript.retained == b"ready\r\nit\r\ngot it\r\n"
    assert seen[-1].exit_code == 0


# ---- the end of a session ------------------------------------------------------------------------------------------

#: Commands at work when a session ends, and whether on a terminal. Each writes a pid that is to be gone then.
BUSY = [
    (f"echo $$; exec {SHELL}", True),
    ("trap '' HUP TERM INT; sleep 1000 & echo $!; wait", True),
    ("sleep 1000 & echo $!", False),
    ("echo $$; exec yes", False),
]


def start_busy(agent: Agent, commands: Sequence[tuple[str, bool]]) -> list[int]:
    """Start commands, all at the same time, and let them go on; the pids that they write."""
    written: dict[str, bytes] = {}

    def note(event: Any) -> None:
        written.setdefault(event.process_id, event.chunk)

    with agent.manager.events.subscribe(note, kind="output_delta"), ThreadPoolExecutor() as threads:
        for cmd, tty in commands:
            threads.submit(agent.manager.exec_command, cmd, login=False, tty=tty, yield_time_ms=250)
        assert eventually(lambda: len(written) == len(commands))
    return [int(chunk.split()[0]) for chunk in written.values()]


def work(config: SessionConfig, cwd: str, commands: Sequence[tuple[str, bool]]) -> None:
    """A session that ends while ``commands`` are at work: these are gone with it."""
    with open_agent(config, cwd) as agent:
        assert agent.call("list_dir", dir_path=cwd).success
        pids = start_busy(agent, commands)
    assert all(gone(pid) for pid in pids)


def descriptors(pid: int) -> int:
    """How many descriptors a process has."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid: int) -> int:
    """How many children a process has, those that are not reaped included (proc_pid_stat(5))."""
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it is gone meanwhile
            count += stat.read_text(errors="replace").rpartition(")")[2].split()[1] == str(pid)
    return count


def check_nothing_is_left(pid: int, config: SessionConfig, cwd: str) -> None:
    """After a session a process has no more children and descriptors than before."""
    work(config, cwd, BUSY[:1])  # this loads what is loaded once
    before = children(pid), descriptors(pid)
    work(config, cwd, BUSY)
    assert eventually(lambda: children(pid) <= before[0]), (before, children(pid))
    assert eventually(lambda: descriptors(pid) <= before[1]), (before, descriptors(pid))


def test_a_closed_session_leaves_nothing_here(session_config: SessionConfig, workspace: Workspace) -> None:
    """No process and no descriptor."""
    check_nothing_is_left(os.getpid(), session_config, workspace.path())


@pytest.mark.parametrize("backend", ["websocket"], indirect=True)
def test_a_closed_session_leaves_nothing_on_the_server(lonely_config: SessionConfig, workspace: Workspace) -> None:
    """No process and no descriptor, while the server goes on for others."""
    with open_agent(lonely_config, workspace.path()) as agent:
        check_nothing_is_left(server_of(agent), lonely_config, workspace.path())


def server_of(agent: Agent) -> int:
    """The pid of the server's program."""
    return int(agent.manager.exec_command("echo $PPID", login=False).output.retained)


@pytest.fixture
def lose_connection(backend: str) -> Callable[[Agent], None]:
    """Makes an agent lose its server: it is killed, or, where it has no program of its own, closed."""
    if backend == "in_process":
        return lambda agent: agent.backends.close()
    return lambda agent: os.kill(server_of(agent), signal.SIGKILL)


@pytest.mark.parametrize("backend", SERVERS, indirect=True)
def test_a_lost_connection_ends_every_call(
    lonely_config: SessionConfig, workspace: Workspace, lose_connection: Callable[[Agent], None]
) -> None:
    """Those that wait, long before their time, and those that come later; no exit code is made up."""
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with open_agent(lonely_config, workspace.path()) as agent, ThreadPoolExecutor() as threads:
        exec_command, write_stdin = agent.manager.exec_command, agent.manager.write_stdin
        session_id = agent.start("sleep 1000")
        agent.manager.events.subscribe(events.put, kind="output_delta")
        calls = [
            threads.submit(write_stdin, session_id, yield_time_ms=30_000),
            threads.submit(exec_command, "echo; exec sleep 1000", login=False, tty=True, yield_time_ms=30_000),
        ]
        take_until(events, "output_delta")
        lose_connection(agent)
        for call in calls:
            with pytest.raises(ConnectionLost):
                call.result(PATIENCE)
        with pytest.raises(ConnectionLost):
            exec_command("true")
        with pytest.raises(UnknownSession):
            write_stdin(session_id)
        with pytest.raises(ConnectionResetError):
            agent.backends.environment.file_system.read_file(workspace.path("file"))
