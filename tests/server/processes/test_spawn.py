"""Starting children: what they get, and what is said when they can't be started."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from execsrv.errors import InternalError
from execsrv.protocol.processes import Size
from execsrv.server.processes.spawn import spawn

if TYPE_CHECKING:
    from execsrv.server.processes.command import Command
    from execsrv.server.processes.spawn import Child

    MakeCommand = Callable[..., Command]
    Run = Callable[..., str]


def read_to_end(fd: int) -> bytes:
    """Everything until the end of a pipe or a terminal."""
    pieces = []
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # EIO: the end of a terminal
            piece = b""
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def release(child: Child) -> None:
    """Reap the child and close what its holder owns."""
    os.waitpid(child.pid, 0)
    for fd in {child.pidfd, child.stdin, *child.outputs.values()} - {None}:
        os.close(fd)
    if child.terminal:
        child.terminal.close()


@pytest.fixture
def run(command: MakeCommand, nothing_left: Callable[[], None]) -> Run:
    """Runs a command on this thread and returns what it wrote to stdout or the terminal."""

    def run(*argv: str, given: bytes = b"", **options: object) -> str:
        child = spawn(command(*argv, **options))
        try:
            if given:
                os.write(child.stdin, given)
            return read_to_end(child.terminal.fd if child.terminal else child.outputs["stdout"]).decode()
        finally:
            release(child)

    return run


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Path]:
    """A directory of small programs that tell which one ran."""
    for folder in ("bin", "other"):
        (tmp_path / folder).mkdir()
        tool = tmp_path / folder / "tool"
        tool.write_text(f"#!/bin/sh\necho {folder} $0 $PWD\n")
        tool.chmod(0o755)
    (tmp_path / "bin" / "plain").write_text("not executable")
    (tmp_path / "bin" / "folder").mkdir()
    yield tmp_path


def test_stdout_and_stderr_are_apart(command: MakeCommand, nothing_left: Callable[[], None]) -> None:
    """Two pipes, each to its end."""
    child = spawn(command("echo out; echo err >&2"))
    assert child.stdin is None
    assert {name: read_to_end(fd) for name, fd in child.outputs.items()} == {"stdout": b"out\n", "stderr": b"err\n"}
    release(child)


def test_stdin_is_at_its_end_unless_a_pipe_is_wanted(run: Run) -> None:
    """So that nobody waits for an input that can't come."""
    assert run("cat") == ""
    assert run("read line; echo $line", given=b"input\n", pipe_stdin=True) == "input\n"


@pytest.mark.parametrize("options", [{}, {"pipe_stdin": True}, {"size": Size()}])
def test_a_child_has_no_descriptor_but_three(run: Run, options: dict[str, object]) -> None:
    """Nothing that the server has open gets through."""
    with open("/dev/null") as inherited:
        os.set_inheritable(inherited.fileno(), True)  # as those are that the server was started with
        assert run("ls", "/proc/self/fd", **options).split() == ["0", "1", "2", "3"]  # 3 is the directory itself


def test_a_terminal_has_its_size_at_the_first_try(run: Run) -> None:
    """It is set before the child runs."""
    assert run("stty", "size", size=Size(50, 200)) == "50 200\r\n"
    assert run("stty", "size", size=Size()) == "24 80\r\n"
    assert run("stty", "size", size=Size(65535, 1)) == "65535 1\r\n"


def test_the_terminal_is_the_controlling_one(run: Run) -> None:
    """/dev/tty can be opened, and the child leads the foreground group."""
    assert run("test -t 0 && test -t 1 && test -t 2 && echo yes > /dev/tty", size=Size()) == "yes\r\n"
    pid, foreground = run("read -r a b c d e f g tpgid rest < /proc/$$/stat; echo $$ $tpgid", size=Size()).split()
    assert pid == foreground


def test_argv0_can_be_another_name(run: Run) -> None:
    """The program is found by the first word."""
    assert run("cat", "/proc/self/cmdline", arg0="other name") == "other name\0/proc/self/cmdline\0"


def test_the_environment_is_exactly_the_given_one(run: Run) -> None:
    """Without a PATH the system's default path serves the look-up."""
    assert run("env", "-u", "X", env={}) == ""
    assert run("env", "-u", "X", env={"A": "ö", "B": ""}) == "A=ö\nB=\n"


def test_the_program_is_looked_up_in_the_childs_own_path(run: Run, tools: Path) -> None:
    """The first entry that has it wins."""
    path = f"/nowhere:{tools}/other:{tools}/bin"
    assert run("tool", env={"PATH": path}).split()[0] == "other"


@pytest.mark.parametrize(
    "path, found", [("bin", "bin"), ("./other:bin", "other"), (":bin", "bin"), ("../T/bin", "bin")]
)
def test_relative_entries_of_the_path_are_relative_to_cwd(run: Run, tools: Path, path: str, found: str) -> None:
    """As the child itself would understand them."""
    path = path.replace("T", tools.name)
    assert run("tool", cwd=str(tools), env={"PATH": path}).split()[0] == found


def test_an_empty_entry_of_the_path_is_cwd(run: Run, tools: Path) -> None:
    """As in a shell."""
    assert run("tool", cwd=f"{tools}/bin", env={"PATH": "/nowhere:"}).split()[0] == "bin"
    assert run("tool", cwd=f"{tools}/bin", env={"PATH": ""}).split()[0] == "bin"


def test_a_program_with_a_slash_is_relative_to_cwd(run: Run, tools: Path) -> None:
    """No look-up."""
    assert run("bin/tool", cwd=str(tools), env={"PATH": f"{tools}/other"}).split()[0] == "bin"
    assert run("./tool", cwd=f"{tools}/other").split()[0] == "other"


def test_cwd_may_be_bytes_that_are_no_utf8(run: Run, tmp_path: Path) -> None:
    """Named by a URI."""
    os.mkdir(bytes(tmp_path) + b"/\xff")
    assert run("/bin/sh", "-c", "pwd | od -An -tx1 | grep -c ff", cwd=f"file://{tmp_path}/%FF") == "1\n"


@pytest.mark.parametrize(
    "argv, cwd, subject, kind, number",
    [
        (["no-such-program"], "/", "no-such-program", "spawnNotFound", errno.ENOENT),
        (["/no/such/program"], "/", "/no/such/program", "spawnNotFound", errno.ENOENT),
        ([""], "/", "program", "spawnNotFound", errno.ENOENT),
        (["plain"], "/", "plain", "spawnPermissionDenied", errno.EACCES),
        (["folder"], "/", "folder", "spawnNotFound", errno.ENOENT),
        (["/"], "/", "program /", "spawnPermissionDenied", errno.EACCES),
        (["/dev/null/x"], "/", "/dev/null/x", "spawnNotFound", errno.ENOTDIR),
        (["true"], "/no/such/directory", "cwd /no/such/directory", "spawnNotFound", errno.ENOENT),
        (["true"], "/dev/null", "cwd /dev/null", "spawnNotFound", errno.ENOTDIR),
        (["no-such-program"], "/no/such/directory", "cwd", "spawnNotFound", errno.ENOENT),
        (["true", "x" * 200_000], "/", "true", "spawnFailed", errno.E2BIG),
    ],
)
def test_a_failure_names_what_is_at_fault(
    command: MakeCommand,
    tools: Path,
    nothing_left: Callable[[], None],
    argv: list[str],
    cwd: str,
    subject: str,
    kind: str,
    number: int,
) -> None:
    """The program or the directory, with the system's words; nothing is left behind."""
    env = {"PATH": f"{tools}/bin:{os.environ['PATH']}"}
    with pytest.raises(InternalError) as caught:
        spawn(command("x", argv=argv, cwd=cwd, env=env))
    assert subject in caught.value.message and os.strerror(number) in caught.value.message
    assert (caught.value.kind, caught.value.data["errno"]) == (kind, number)


def test_a_failed_terminal_leaves_nothing(command: MakeCommand, nothing_left: Callable[[], None]) -> None:
    """Nor does a failed pipe for stdin."""
    for options in ({"size": Size()}, {"pipe_stdin": True}):
        with pytest.raises(InternalError):
            spawn(command("/no/such/program", "x", **options))


def test_a_message_is_always_proper_text(command: MakeCommand) -> None:
    """A directory that is no UTF-8 becomes text that every JSON reader takes."""
    with pytest.raises(InternalError) as caught:
        spawn(command("true", "x", cwd="file:///no/%FF"))
    caught.value.to_wire()["message"].encode()


def test_a_message_does_not_repeat_a_huge_program(command: MakeCommand) -> None:
    """An error stays small however large the params are."""
    with pytest.raises(InternalError) as caught:
        spawn(command("/" + "x" * 1_000_000, "x"))
    assert len(caught.value.to_wire()["message"]) < 2_000


def test_running_out_of_descriptors_is_an_error_and_leaves_nothing(
    command: MakeCommand, nothing_left: Callable[[], None]
) -> None:
    """Wherever it happens; the next start works again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for options in ({}, {"pipe_stdin": True}, {"size": Size()}):
        command("true", "x", **options)
        lowest = os.dup(0)
        os.close(lowest)
        for spare in range(9):
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + spare, hard))
            try:
                release(spawn(command("true", "x", **options)))
            except InternalError as error:
                assert error.kind == "spawnFailed" and error.data["errno"] == errno.EMFILE
                refused = True
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            nothing_left()
    assert refused
    release(spawn(command("true", "x")))


def test_a_child_is_watched_by_a_pidfd(command: MakeCommand, nothing_left: Callable[[], None]) -> None:
    """It tells the status, and signals no stranger."""
    child = spawn(command("sleep", "1000"))
    signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
    status = os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED | os.WNOWAIT)
    assert status is not None and (status.si_pid, status.si_status) == (child.pid, signal.SIGKILL)
    release(child)
