"""What an agent does with commands, on each kind of backend."""

from __future__ import annotations

import functools

import pytest
from endings import gone
from exec_fakes import in_parallel
from workspaces import Workspace

from execsrv.session.unified_exec.errors import StartFailed
from execsrv.session.unified_exec.manager import UnifiedExecManager


def start_shell(manager: UnifiedExecManager) -> int:
    """The session id of an interactive shell."""
    session_id = manager.exec_command("bash --norc -i", login=False, tty=True, yield_time_ms=250).session_id
    assert session_id
    return session_id


def test_command(manager: UnifiedExecManager, workspace: Workspace) -> None:
    """It runs in the workspace; the answer has all of it."""
    answer = manager.exec_command("echo hi > file; pwd; exit 3", login=False)
    assert (answer.output.retained.decode(), answer.exit_code) == (f"{workspace.place}\n", 3)
    assert (workspace.place / "file").read_text() == "hi\n"


def test_directory(manager: UnifiedExecManager, workspace: Workspace) -> None:
    """Relative to the workspace, or the session's name for one in it."""
    (workspace.place / "sub").mkdir()
    for workdir in ("sub", workspace.path("sub")):
        assert manager.exec_command("pwd", workdir, login=False).output.retained.decode() == f"{workspace.place}/sub\n"


def test_long_command_is_looked_at_until_its_end(manager: UnifiedExecManager, workspace: Workspace) -> None:
    """Its output comes once, whenever it was written."""
    line = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two"
    answer = manager.exec_command(line, login=False, yield_time_ms=250)
    assert answer.session_id
    (workspace.place / "go").touch()
    rest = manager.write_stdin(answer.session_id, yield_time_ms=30_000)
    assert answer.output.retained + rest.output.retained == b"one\ntwo\n"
    assert rest.exit_code == 0


def test_interrupt(manager: UnifiedExecManager) -> None:
    """Ctrl-C ends what is in the foreground of a terminal."""
    session_id = manager.exec_command("sleep 1000", login=False, tty=True, yield_time_ms=250).session_id
    assert session_id
    assert manager.write_stdin(session_id, "\x03", yield_time_ms=30_000).exit_code == 130


def test_background_job_is_not_waited_for(manager: UnifiedExecManager) -> None:
    """It goes on until the manager is closed."""
    answer = manager.exec_command("sleep 1000 & echo $!", login=False)
    assert answer.exit_code == 0
    assert answer.wall_time < 10
    manager.close()
    assert gone(int(answer.output.retained))


def test_login(manager: UnifiedExecManager) -> None:
    """A shell is a login shell unless it is told."""
    for login, expected in ((True, b"yes\n"), (False, b"")):
        answer = manager.exec_command("shopt -q login_shell && echo yes", shell="bash", login=login)
        assert answer.output.retained.endswith(expected) and bool(answer.output.retained) == login


def test_environment(manager: UnifiedExecManager) -> None:
    """Plain text is wanted."""
    names = "NO_COLOR TERM LANG LC_CTYPE LC_ALL COLORTERM PAGER GIT_PAGER GH_PAGER EXECSRV_SESSION HOME".split()
    line = "echo " + ",".join(f"${name}" for name in names)
    values = manager.exec_command(line, login=False).output.retained.decode().strip().split(",")
    assert values[:-1] == ["1", "dumb", "C.UTF-8", "C.UTF-8", "C.UTF-8", "", "cat", "cat", "cat", "1"]
    assert values[-1].startswith("/")


def test_flood(manager: UnifiedExecManager) -> None:
    """Its beginning and its end are kept, and the text is short."""
    answer = manager.exec_command("seq 1000000", login=False, max_output_tokens=10, yield_time_ms=30_000)
    assert answer.exit_code == 0
    assert answer.output.total_bytes == 6_888_896
    assert len(answer.output.retained) == 1024 * 1024
    shown = answer.text.partition("Output:\n")[2]
    assert shown == "1\n2\n3\n4\n5\n6\n7\n8\n9\n10…1722214 tokens truncated…9998\n999999\n1000000\n"


def test_start_that_fails(manager: UnifiedExecManager) -> None:
    """An error of its own."""
    with pytest.raises(StartFailed):
        manager.exec_command("true", workdir="none")
    with pytest.raises(StartFailed):
        manager.exec_command("true", shell="/none/such")


def test_many_at_the_same_time(manager: UnifiedExecManager) -> None:
    """Each call gets its own answer."""

    def run(number: int) -> tuple[bytes, int | None]:
        answer = manager.exec_command(f"echo {number}; exit {number}", login=False)
        return answer.output.retained, answer.exit_code

    answers = in_parallel([functools.partial(run, number) for number in range(16)])
    assert answers == [(b"%d\n" % number, number) for number in range(16)]
