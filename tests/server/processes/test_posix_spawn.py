"""The call itself: what the child is like."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from execsrv.server.processes.posix_spawn import FileActions

#: glibc keeps these two for itself and refuses to reset them.
GLIBC_SIGNALS = 1 << (32 - 1) | 1 << (33 - 1)


def run(script: str, cwd: bytes = b"/", env: dict[bytes, bytes] | None = None) -> tuple[int, bytes]:
    """Run a shell script: its exit status, and what it wrote."""
    reading, writing = os.pipe()
    try:
        with FileActions() as actions:
            actions.dup2(writing, 1)
            actions.chdir(cwd)
            pid = actions.spawn(b"/bin/sh", [b"sh", b"-c", script.encode()], env or {})
    finally:
        os.close(writing)
    with open(reading, "rb") as output:
        text = output.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def test_the_child_runs_the_program() -> None:
    """With its arguments and nothing but the given environment."""
    assert run("echo $0 $A; exit 3", env={b"A": b"1"}) == (3, b"sh 1\n")
    assert b"PYTEST" not in run("env")[1]


def test_the_child_has_its_own_directory(tmp_path: Path) -> None:
    """And the server's stays."""
    before = os.getcwd()
    assert run("pwd -P", cwd=bytes(tmp_path))[1] == os.path.realpath(bytes(tmp_path)) + b"\n"
    assert os.getcwd() == before


def test_the_child_leads_a_session() -> None:
    """Pid, group and session are one number, which is not ours."""
    pid, group, session = run("read -r a b c d pgrp sid rest < /proc/$$/stat; echo $$ $pgrp $sid")[1].split()
    assert pid == group == session
    assert int(session) != os.getsid(0)


def test_the_child_has_default_signal_dispositions_and_an_empty_mask() -> None:
    """Whatever the server ignores or blocks."""
    ignored = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
    try:
        status = run("exec cat /proc/self/status")[1].decode()
    finally:
        signal.signal(signal.SIGUSR1, ignored)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert int(fields["SigBlk"], 16) == 0
    assert int(fields["SigIgn"], 16) & ~GLIBC_SIGNALS == 0  # Python itself ignores SIGPIPE and SIGXFSZ


def test_actions_happen_in_order(tmp_path: Path) -> None:
    """A file that is opened as 0 can be copied afterwards."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    reading, writing = os.pipe()
    with FileActions() as actions:
        actions.dup2(writing, 1)
        actions.open(0, bytes(path), os.O_RDONLY)
        pid = actions.spawn(b"/bin/cat", [b"cat"], {})
    os.close(writing)
    with open(reading, "rb") as output:
        assert output.read() == b"content"
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    "program, cwd, number",
    [
        (b"/no/such/program", b"/", errno.ENOENT),
        (b"/", b"/", errno.EACCES),
        (b"/bin/sh", b"/no/such/directory", errno.ENOENT),
        (b"/bin/sh", b"/dev/null", errno.ENOTDIR),
    ],
)
def test_a_failure_is_an_oserror_and_leaves_no_child(
    program: bytes, cwd: bytes, number: int, nothing_left: Callable[[], None]
) -> None:
    """With the number of the step that failed."""
    with FileActions() as actions:
        actions.chdir(cwd)
        with pytest.raises(OSError) as caught:
            actions.spawn(program, [b"x"], {})
    assert caught.value.errno == number
    nothing_left()
