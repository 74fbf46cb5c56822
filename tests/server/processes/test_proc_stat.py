"""What /proc tells, compared with what the system calls tell."""

from __future__ import annotations

import os
import signal
import subprocess

from execsrv.server.processes.proc_stat import all_processes, families, read_stat


def test_a_process_is_told_with_its_numbers() -> None:
    """Our own: parent, group and session; it lives."""
    stat = read_stat(os.getpid())
    assert stat
    assert (stat.pid, stat.parent, stat.group) == (os.getpid(), os.getppid(), os.getpgrp())
    assert (stat.session, stat.is_alive, stat.is_zombie) == (os.getsid(0), True, False)
    assert stat.started > 0


def test_a_zombie_has_ended_and_is_still_there() -> None:
    """Until it is reaped: then there is no such process."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    stat = read_stat(child.pid)
    assert stat
    assert (stat.parent, stat.is_alive, stat.is_zombie) == (os.getpid(), False, True)
    child.wait()
    assert read_stat(child.pid) is None


def test_any_name_is_read_over() -> None:
    """It may hold spaces, parentheses, newlines and what is no text."""
    script = r"import ctypes; ctypes.CDLL(None).prctl(15, b') Z 1\n\xff(x', 0, 0, 0); print(flush=True); input()"
    with subprocess.Popen(["python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdin
        child.stdout.readline()
        stat = read_stat(child.pid)
        assert stat and stat.is_alive and stat.parent == os.getpid()
        child.stdin.close()


def test_the_identity_stays_while_the_state_changes() -> None:
    """And no two processes share it."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as one, subprocess.Popen(["true"]) as other:
        before = read_stat(one.pid)
        assert one.stdin
        one.stdin.close()
        os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
        after, stranger = read_stat(one.pid), read_stat(other.pid)
        assert before and after and before.identity == after.identity and before != after
        assert stranger is None or stranger.identity != before.identity


def test_all_processes_are_found() -> None:
    """Us, and a zombie of ours."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = {stat.pid: stat for stat in all_processes()}
    child.wait()
    assert found[os.getpid()].is_alive and found[child.pid].is_zombie


#: Starts a child from another thread, as a session of its own; tells of it, and goes on until its input ends.
PARENT = """
import subprocess, threading
start = lambda: print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid, flush=True)
threading.Thread(target=start).start()
input()
"""


def test_a_family_is_a_session_with_its_descendants() -> None:
    """Also one that has left it and whose parent is a thread; not who is no relation."""
    with subprocess.Popen(
        ["python3", "-c", PARENT], start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as leader, subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        assert leader.stdout
        child = int(leader.stdout.readline())
        assert {stat.pid for stat in families({leader.pid})} >= {leader.pid, child}
        assert stranger.pid not in {stat.pid for stat in families({leader.pid})}
        assert {stat.pid for stat in families({leader.pid}, [stranger.pid])} >= {leader.pid, child, stranger.pid}
        assert {stat.pid for stat in families(set(), [child])} >= {child}
        for pid in (leader.pid, child, stranger.pid):
            os.kill(pid, signal.SIGKILL)
