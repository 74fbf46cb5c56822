"""Tests of execsrv.session.unified_exec.manager, with fake processes."""

from __future__ import annotations

import gc
import logging
import re
from collections.abc import Iterator

import pytest
from exec_fakes import WAIT, Collector, FakeFactory, FakeProcess, in_background, in_parallel

from execsrv.session.unified_exec.errors import ConnectionLost, MissingCommand, StartFailed, StdinClosed, UnknownSession
from execsrv.session.unified_exec.manager import UnifiedExecManager, poll_seconds, yield_seconds
from execsrv.session.unified_exec.session_table import MAX_SESSIONS, WARN_SESSIONS

ENVIRONMENT = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "COLORTERM": "",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "EXECSRV_SESSION": "1",
}


@pytest.fixture
def factory() -> FakeFactory:
    """What starts fakes."""
    return FakeFactory()


@pytest.fixture
def manager(factory: FakeFactory) -> Iterator[UnifiedExecManager]:
    """A manager of fakes."""
    with UnifiedExecManager(factory, "/project") as manager:
        yield manager


def prepare(factory: FakeFactory, *chunks: bytes, code: int | None = 0) -> FakeProcess:
    """Let the next command write ``chunks`` and end, or run on when ``code`` is None."""
    process = FakeProcess()
    for chunk in chunks:
        process.says(chunk)
    if code is not None:
        process.ends(code)
    factory.prepared.append(process)
    return process


def test_command_that_ends(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """The answer has its output and its code, and no session id."""
    prepare(factory, b"out\n", b"err\n", code=3)
    answer = manager.exec_command("prog")
    assert (answer.output.retained, answer.exit_code, answer.session_id) == (b"out\nerr\n", 3, None)
    assert answer.warning is None
    assert answer.max_output_tokens == 10_000
    assert re.fullmatch("[0-9a-f]{6}", answer.chunk_id)


def test_command_that_goes_on(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """The answer comes at the deadline with a session id, by which the rest is found."""
    process = prepare(factory, b"one", code=None)
    answer = manager.exec_command("prog", yield_time_ms=0)
    assert (answer.output.retained, answer.exit_code) == (b"one", None)
    assert answer.wall_time >= 0.25
    assert answer.session_id and factory.opened[0].process_id == str(answer.session_id)
    process.says(b"two")
    process.ends(4)
    answer = manager.write_stdin(answer.session_id)
    assert (answer.output.retained, answer.exit_code, answer.session_id) == (b"two", 4, None)


def test_finished_id_is_unknown(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """Once the end was reported; and so is one that never was."""
    process = prepare(factory, code=None)
    session_id = manager.exec_command("prog", yield_time_ms=0).session_id
    assert session_id
    process.ends()
    manager.write_stdin(session_id)
    for unknown in (session_id, 1):
        with pytest.raises(UnknownSession):
            manager.write_stdin(unknown, "in")


def test_two_calls_wait_for_one_command(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """Both learn its end, one of them its output."""
    process = prepare(factory, code=None)
    session_id = manager.exec_command("prog", yield_time_ms=0).session_id
    assert session_id
    calls = [in_background(manager.write_stdin, session_id) for _ in range(2)]
    process.says(b"out")
    process.ends(3)
    answers = [call.result(WAIT) for call in calls]
    assert [answer.exit_code for answer in answers] == [3, 3]
    assert b"".join(answer.output.retained for answer in answers) == b"out"


def test_words_of_the_command(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """The line is the shell's; a directory may be relative to the session's."""
    for arguments in (
        {},
        {"login": False},
        {"shell": "/usr/bin/zsh"},
        {"shell": "sh", "login": False, "workdir": "sub/dir"},
        {"workdir": "/else", "tty": True},
    ):
        prepare(factory)
        manager.exec_command("a | b", **arguments)  # type: ignore[arg-type]
    assert [(*request.argv, request.cwd, request.tty) for request in factory.opened] == [
        ("/bin/bash", "-lc", "a | b", "/project", False),
        ("/bin/bash", "-c", "a | b", "/project", False),
        ("/usr/bin/zsh", "-lc", "a | b", "/project", False),
        ("sh", "-c", "a | b", "/project/sub/dir", False),
        ("/bin/bash", "-lc", "a | b", "/else", True),
    ]


@pytest.mark.parametrize("shell", ["/usr/sbin/nologin", "/usr/bin/fish", ""])
def test_user_without_a_posix_shell(manager: UnifiedExecManager, factory: FakeFactory, shell: str) -> None:
    """Has one here."""
    factory.shell = shell
    prepare(factory)
    manager.exec_command("prog")
    assert factory.opened[0].argv[0] == "/bin/sh"


def test_environment_and_its_marker(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """The owner of the manager may choose the name."""
    prepare(factory)
    manager.exec_command("prog")
    prepare(factory)
    with UnifiedExecManager(factory, "/project", marker="MY_AGENT") as marked:
        marked.exec_command("prog")
    common = {name: value for name, value in ENVIRONMENT.items() if name != "EXECSRV_SESSION"}
    assert [request.env for request in factory.opened] == [ENVIRONMENT, {**common, "MY_AGENT": "1"}]


def test_id_that_somebody_else_has(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """Another one is tried, but not for ever."""
    prepare(factory, code=3)
    factory.taken_ids = 3
    assert manager.exec_command("prog").exit_code == 3
    factory.taken_ids = 1000
    with pytest.raises(StartFailed):
        manager.exec_command("prog")


def test_what_a_backend_must_know(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """Descriptors and sandboxes are for it."""
    prepare(factory)
    manager.exec_command("prog", inherited_fds=[7], sandbox="workspace-write")
    assert (factory.opened[0].inherited_fds, factory.opened[0].sandbox) == ([7], "workspace-write")


@pytest.mark.parametrize("cmd", ["", "  \n"])
def test_missing_command(manager: UnifiedExecManager, factory: FakeFactory, cmd: str) -> None:
    """Nothing is started."""
    with pytest.raises(MissingCommand):
        manager.exec_command(cmd)
    assert factory.opened == []


def test_input(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """It is written as UTF-8, and no half of a pair of surrogates stops it."""
    process = prepare(factory, code=None)
    session_id = manager.exec_command("prog", tty=True, yield_time_ms=0).session_id
    assert session_id
    answer = manager.write_stdin(session_id, "ä\ud800\n", yield_time_ms=0)
    assert answer.session_id == session_id
    assert answer.wall_time >= 0.25
    ((data, timeout),) = process.written
    assert data == b"\xc3\xa4?\n"
    assert 0 < timeout <= 0.25


def test_input_without_a_terminal(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """It is refused at once; the command goes on and may be looked at."""
    process = prepare(factory, code=None)
    session_id = manager.exec_command("prog", yield_time_ms=0).session_id
    assert session_id
    with pytest.raises(StdinClosed):
        manager.write_stdin(session_id, "in")
    process.ends(3)
    assert manager.write_stdin(session_id).exit_code == 3


def test_input_for_one_that_has_ended(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """The answer is its end."""
    process = prepare(factory, code=None)
    seen = Collector()
    manager.events.subscribe(seen)
    session_id = manager.exec_command("prog", tty=True, yield_time_ms=0).session_id
    assert session_id
    process.ends(3)
    seen.wait_for("ExecCommandEnd")
    assert manager.write_stdin(session_id, "in").exit_code == 3
    assert process.written == []


def test_lost_connection(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """An error, after which the id is unknown."""
    factory.prepared += [FakeProcess(), FakeProcess()]
    first, second = factory.prepared
    first.is_lost()
    with pytest.raises(ConnectionLost):
        manager.exec_command("prog")
    session_id = manager.exec_command("prog", yield_time_ms=0).session_id
    assert session_id
    second.is_lost()
    with pytest.raises(ConnectionLost):
        manager.write_stdin(session_id)
    with pytest.raises(UnknownSession):
        manager.write_stdin(session_id)


@pytest.mark.parametrize(
    "asked, seconds", [(-1, 0.25), (0, 0.25), (250, 0.25), (1000, 1), (30_000, 30), (30_001, 30), (10**9, 30)]
)
def test_time_of_a_call(asked: int, seconds: float) -> None:
    """It has its limits."""
    assert yield_seconds(asked) == seconds


@pytest.mark.parametrize(
    "asked, limit, seconds",
    [(0, 300_000, 5), (250, 300_000, 5), (6000, 300_000, 6), (10**9, 300_000, 300), (10**9, 10, 5), (9000, 7000, 7)],
)
def test_time_of_a_look(asked: int, limit: int, seconds: float) -> None:
    """It has others."""
    assert poll_seconds(asked, limit) == seconds


def test_number_of_commands_is_limited(
    manager: UnifiedExecManager, factory: FakeFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """The model is warned; then the one that was used least recently is ended, and the log tells."""

    def start() -> str | None:
        return manager.exec_command("prog", yield_time_ms=0).warning

    assert in_parallel([start] * (WARN_SESSIONS - 1)) == [None] * (WARN_SESSIONS - 1)
    warnings = in_parallel([start] * (MAX_SESSIONS - WARN_SESSIONS + 1))
    assert all(warning and warning.startswith(f"{MAX_SESSIONS} commands are open") for warning in warnings)
    assert not any(process.terminated.is_set() for process in factory.processes)
    with caplog.at_level(logging.WARNING):
        start()
    assert sum(process.terminated.is_set() for process in factory.processes) == 1
    assert "there are more than 64" in caplog.text


def test_close_ends_everything(factory: FakeFactory) -> None:
    """Twice is harmless, and nothing can be started any more."""
    with UnifiedExecManager(factory, "/project") as manager:
        in_parallel([lambda: manager.exec_command("prog", yield_time_ms=0)] * 2)
    manager.close()
    assert all(process.freed.is_set() for process in factory.processes)
    with pytest.raises(StartFailed):
        manager.exec_command("prog")
    assert factory.processes[2].freed.is_set()


def test_a_dropped_manager_ends_everything(factory: FakeFactory) -> None:
    """As if it was closed."""
    manager = UnifiedExecManager(factory, "/project")
    manager.exec_command("prog", yield_time_ms=0)
    del manager
    gc.collect()
    assert factory.processes[0].freed.wait(WAIT)


def test_many_threads(manager: UnifiedExecManager, factory: FakeFactory) -> None:
    """Each gets its own answer."""
    for number in range(32):
        prepare(factory, b"%d" % number, code=number)
    answers = in_parallel([lambda: manager.exec_command("prog")] * 32)
    assert sorted((answer.output.retained, answer.exit_code) for answer in answers) == sorted(
        (b"%d" % number, number) for number in range(32)
    )
