"""Tests of execsrv.session.unified_exec.local_process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from endings import gone
from exec_fakes import WAIT, descriptors, in_background

from execsrv.session.unified_exec.errors import SandboxUnsupported, StartFailed, WriteFailed
from execsrv.session.unified_exec.kernel_session import living_groups
from execsrv.session.unified_exec.local_process import LocalProcess, LocalSessionFactory
from execsrv.session.unified_exec.request import MAX_INPUT_BYTES, ExecRequest, Size


@pytest.fixture(params=[False, True], ids=["pipe", "terminal"])
def tty(request: pytest.FixtureRequest) -> bool:
    """Is the process on a terminal?"""
    return bool(request.param)


def request_of(line: str, **options: Any) -> ExecRequest:
    """A line for sh."""
    return ExecRequest("1234", ["sh", "-c", line], "/", **options)


@contextmanager
def started(line: str, **options: Any) -> Iterator[LocalProcess]:
    """A process, of which nothing is left afterwards."""
    process = LocalSessionFactory().open(request_of(line, **options))
    try:
        yield process
    finally:
        process.terminate(WAIT)
        if process.exit_code is None:
            for _ in process.output():
                pass
        process.linger()


def run(line: str, **options: Any) -> tuple[bytes, int | None]:
    """All output of a command, and its code."""
    with started(line, **options) as process:
        return b"".join(process.output()), process.exit_code


def read_until(output: Iterator[bytes], end: bytes) -> bytes:
    """What comes until ``end`` is there."""
    data = b""
    while end not in data:
        data += next(output)
    return data


def test_output_in_order_and_code(tty: bool) -> None:
    """Stdout and stderr come as they were written."""
    line_end = b"\r\n" if tty else b"\n"
    expected = b"".join(b"%d%s" % (number, line_end) for number in (1, 2, 3, 4))
    assert run("echo 1; echo 2 >&2; echo 3; echo 4 >&2; exit 3", tty=tty) == (expected, 3)


def test_all_bytes(tmp_path: Path) -> None:
    """More than a pipe holds, as they are."""
    data = os.urandom(3_000_001)
    (tmp_path / "data").write_bytes(data)
    assert run(f"cat {tmp_path}/data") == (data, 0)


def test_all_bytes_of_a_terminal() -> None:
    """None is missing at the end."""
    output, code = run("seq 20000", tty=True)
    assert (output.split(), code) == ([b"%d" % number for number in range(1, 20001)], 0)


@pytest.mark.parametrize("name", ["TERM", "KILL", "HUP"])
def test_code_of_a_signal(tty: bool, name: str) -> None:
    """128 and its number."""
    assert run(f"kill -{name} $$", tty=tty)[1] == 128 + getattr(signal, f"SIG{name}")


def test_there_is_no_code_before_the_end() -> None:
    """Not even an invented one."""
    with started("echo; exec sleep 1000") as process:
        next(process.output())
        assert process.exit_code is None


def test_what_it_runs_with(tmp_path: Path) -> None:
    """Its directory, its environment over this program's, a session of its own, and an empty stdin."""
    request = ExecRequest("1", ["sh", "-c", "pwd; echo $HOME$NEW; ps -o sid= $$; cat"], str(tmp_path), {"NEW": "new"})
    process = LocalSessionFactory().open(request)
    output = b"".join(process.output())
    process.linger()
    directory, variables, session = output.decode().splitlines()
    assert (directory, variables) == (str(tmp_path), os.environ["HOME"] + "new")
    assert int(session) != os.getsid(0)


def test_terminal() -> None:
    """It controls the session, and has the size that was asked for."""
    line = "stty size < /dev/tty; test -t 0 && test -t 1 && test -t 2 && echo all; ps -o tpgid= -p $$; echo $$"
    rows, columns, streams, foreground, own = run(line, tty=True, size=Size(33, 99))[0].split()
    assert (rows, columns, streams) == (b"33", b"99", b"all")
    assert foreground == own


def test_input_of_a_terminal() -> None:
    """It is echoed and read; Ctrl-C interrupts."""
    with started("while read -r line; do echo got $line; done", tty=True) as process:
        output = process.output()
        process.write(b"one\n", WAIT)
        assert read_until(output, b"got one\r\n") == b"one\r\ngot one\r\n"
        process.write(b"two\n", WAIT)
        read_until(output, b"got two")
        process.write(b"\x03", WAIT)
        for _ in output:
            pass
        assert process.exit_code == 130


def test_large_input() -> None:
    """More than a terminal takes at once arrives in order, while its echo comes."""
    lines = b"".join(b"%d\n" % number for number in range(20_000))
    with started("stty -echo; echo ready; head -n 20000 | md5sum", tty=True) as process:
        output = process.output()
        read_until(output, b"ready")
        for start in range(0, len(lines), 1000):
            process.write(lines[start : start + 1000], 0)
        digest = read_until(output, b"-").split()[0]
    expected = subprocess.run(["md5sum"], input=lines, capture_output=True, check=True).stdout.split()[0]
    assert digest == expected


def test_input_that_nobody_reads_is_bounded() -> None:
    """It is refused when too much waits, and nobody waits for that."""
    with started("echo; exec sleep 1000", tty=True) as process:
        next(process.output())
        process.write(bytes(MAX_INPUT_BYTES // 2), WAIT)
        with pytest.raises(WriteFailed):
            process.write(bytes(MAX_INPUT_BYTES), WAIT)


def test_descendants_that_hold_the_stream_are_not_waited_for(tty: bool) -> None:
    """All that the process itself wrote is there; they live, and can write, until it is terminated."""
    line = "trap '' HUP; (while echo x; do sleep 0.01; done) & echo $!; echo own"
    with started(line, tty=tty) as process:
        output = b"".join(process.output())
        assert b"own" in output and process.exit_code == 0
        left = next(int(word) for word in output.split() if word.isdigit())
        end_after_termination(process, left)


def test_descendant_that_writes_all_the_time(tty: bool) -> None:
    """What it writes is cut off at the end of the process."""
    output, code = run("trap '' HUP; yes & sleep 0.01; exit 3", tty=tty)
    assert code == 3
    assert set(output.split()) <= {b"y"}


def test_descendants_without_a_stream_are_ended_too() -> None:
    """They live until then; so long nobody else gets the number of the process."""
    with started("sleep 1000 >/dev/null 2>&1 & echo $! $$") as process:
        left, own = map(int, b"".join(process.output()).split())
        assert os.waitid(os.P_PID, own, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        end_after_termination(process, left)


def end_after_termination(process: LocalProcess, left: int) -> None:
    """The process lingers for the descendant ``left``, until both are ended."""
    lingering = in_background(process.linger)
    with pytest.raises(TimeoutError):
        lingering.result(0.1)
    os.kill(left, 0)
    process.terminate(WAIT)
    lingering.result(WAIT)
    assert gone(left)


def test_linger_ends_with_the_last_descendant(tmp_path: Path) -> None:
    """Nobody need be terminated; then the process is reaped."""
    os.mkfifo(tmp_path / "fifo")
    with started(f"read line < {tmp_path}/fifo & echo $$") as process:
        pid = int(b"".join(process.output()))
        lingering = in_background(process.linger)
        assert living_groups(pid) == {pid}
        (tmp_path / "fifo").write_text("go\n")
        lingering.result(WAIT)
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_terminate(tty: bool) -> None:
    """The process and its jobs are killed, whatever they ignore; twice is harmless, and so it is after the end."""
    with started("trap '' TERM HUP INT; sleep 1000 & echo $!; wait", tty=tty) as process:
        output = process.output()
        job = int(next(output))
        process.terminate(WAIT)
        process.terminate(WAIT)
        for _ in output:
            pass
        assert process.exit_code == 137
        assert gone(job)
    process.terminate(WAIT)
    process.write(b"late", 0)


def test_stream_that_is_closed_early() -> None:
    """The end of the process is waited for all the same."""
    assert run("echo out; exec >&- 2>&-; sleep 0.1; exit 3") == (b"out\n", 3)


@pytest.mark.parametrize(
    "argv, cwd",
    [(["/none/such"], "/"), (["no-such-program"], "/"), (["/etc"], "/"), (["sh"], "/none"), (["a\0b"], "/")],
)
def test_start_that_fails(tty: bool, argv: list[str], cwd: str) -> None:
    """An error says why, and nothing is left."""
    before = descriptors()
    with pytest.raises(StartFailed) as caught:
        LocalSessionFactory().open(ExecRequest("1", argv, cwd, tty=tty))
    assert caught.value.reason
    assert descriptors() == before


def test_sandbox() -> None:
    """It is never left out."""
    with pytest.raises(SandboxUnsupported):
        LocalSessionFactory().open(request_of("echo", sandbox="read-only"))


def test_inherited_descriptors(tty: bool) -> None:
    """The process has those that it was promised under their numbers, and no other."""
    read, write = os.pipe()
    try:
        assert run(f"echo hi > /dev/fd/{write}", tty=tty, inherited_fds=[write])[1] == 0
        assert os.read(read, 100) == b"hi\n"
        assert run(f"echo hi > /dev/fd/{write}", tty=tty)[1] != 0
    finally:
        os.close(read)
        os.close(write)


def test_descriptors_are_closed(tty: bool) -> None:
    """Nothing is left of a process."""
    run("echo", tty=tty)
    before = descriptors()
    for _ in range(5):
        run("echo", tty=tty)
    assert descriptors() == before


def test_child_that_somebody_else_reaps() -> None:
    """Its code is unknown, not 0, and its number is left alone."""
    with started("echo $$; read line", tty=True) as process:
        output = process.output()
        pid = int(next(output))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for _ in output:
            pass
        assert process.exit_code == -1


def test_shell_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the environment says, or the user's entry."""
    monkeypatch.setenv("SHELL", "/bin/zsh")
    assert LocalSessionFactory().shell == "/bin/zsh"
    monkeypatch.delenv("SHELL")
    assert os.path.isabs(LocalSessionFactory().shell)


def test_events_end_with_the_factory() -> None:
    """Its bus has a thread only as long as need be."""
    def dispatchers() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "execsrv-events"}

    before = dispatchers()
    factory = LocalSessionFactory()
    factory.events.subscribe(print)
    assert dispatchers() - before
    factory.close()
    factory.close()
    assert dispatchers() <= before


def test_the_end_of_the_program_ends_its_commands() -> None:
    """Also without a close."""
    script = """
from execsrv.session.unified_exec.local_process import LocalSessionFactory
from execsrv.session.unified_exec.manager import UnifiedExecManager
manager = UnifiedExecManager(LocalSessionFactory(), "/")
answer = manager.exec_command("trap '' HUP; sleep 1000 & echo $!", login=False)
print(answer.output.retained.decode())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=WAIT, check=True)
    assert gone(int(done.stdout))
