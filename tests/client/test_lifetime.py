"""Tests of execsrv.client.lifetime: what is dropped or left open ends all the same."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

import pytest
from endings import gone
from fake_server import WAIT, FakeServer
from gevent.threadpool import ThreadPool

from execsrv import ClosedError, ExecServerClient
from execsrv.client.lifetime import close, close_with, when_dropped


class Owner:
    """Something to drop."""


def test_function_runs_on_another_thread_when_the_owner_is_dropped() -> None:
    """Not in the thread that dropped it, which may hold any lock."""
    called = threading.Event()
    threads: list[int] = []

    def note(word: str) -> None:
        assert word == "argument"
        threads.append(threading.get_ident())
        called.set()

    owner = Owner()
    when_dropped(owner, note, "argument")
    assert not called.is_set()
    del owner
    assert called.wait(WAIT)
    assert threads != [threading.get_ident()]


def test_owner_may_be_dropped_on_any_thread() -> None:
    """Also on one of a patched program that never gets to run what is started there."""
    called = threading.Event()
    owners = [Owner()]
    when_dropped(owners[0], called.set)
    pool = ThreadPool(1)
    pool.apply(owners.clear)
    assert called.wait(WAIT)
    pool.kill()


def test_forked_child_has_a_closer_of_its_own() -> None:
    """What it drops is not left to a thread that only its parent has."""
    when_dropped(Owner(), int)
    pid = os.fork()
    if pid == 0:
        called = threading.Event()
        when_dropped(Owner(), called.set)
        os._exit(0 if called.wait(WAIT) else 1)
    assert os.waitpid(pid, 0) == (pid, 0)


def test_dropped_client_ends_its_connection(fake: FakeServer) -> None:
    """As soon as the last reference is gone, without the garbage collector."""
    client = fake.connect()
    client.fs, client.events, client.event_receiver()
    gc.disable()
    try:
        del client
        assert fake.ended.wait(WAIT)
    finally:
        gc.enable()


def test_handle_keeps_its_client(fake: FakeServer) -> None:
    """It can be used until it is dropped, too."""
    process = fake.connect().start(["cmd"], process_id="p")
    gc.collect()
    fake.exited("p", 1)
    assert process.wait(WAIT) == 0
    assert process.kill()
    del process
    assert fake.ended.wait(WAIT)


def test_receiver_keeps_its_client(fake: FakeServer) -> None:
    """For events that are still to come."""
    receiver = fake.connect().event_receiver(WAIT)
    gc.collect()
    assert not fake.ended.wait(0.2)
    fake.notify("process/started", processId="x", pid=1)
    next(receiver)
    del receiver
    assert fake.ended.wait(WAIT)


def test_callback_that_knows_the_client_does_not_keep_it(fake: FakeServer) -> None:
    """It is a cycle without an outer end, which the garbage collector finds."""

    def connect() -> weakref.ref[ExecServerClient]:
        client = fake.connect()
        called = threading.Event()

        def use_client(event: object) -> None:
            assert client.server_info
            called.set()

        client.events.subscribe(use_client)
        fake.notify("process/started", processId="x", pid=1)
        assert called.wait(WAIT)
        return weakref.ref(client)

    gone = connect()
    gc.collect()
    assert fake.ended.wait(WAIT)
    assert gone() is None


def test_forked_child_leaves_the_connection_alone(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Whether it closes its copy of the client or just ends."""
    pid = os.fork()
    if pid == 0:
        fake_client.close()
        os._exit(0)
    assert os.waitpid(pid, 0) == (pid, 0)
    assert fake_client.call("process/terminate") == {"running": True}


@pytest.mark.parametrize("use", ["run", "wait", "read", "listen"])
def test_forked_child_cannot_use_the_connection(fake: FakeServer, fake_client: ExecServerClient, use: str) -> None:
    """It is told so at once, since the threads that would answer it are its parent's."""
    process, receiver = fake_client.start(["cmd"], process_id="p"), fake_client.event_receiver()
    uses: dict[str, Callable[[], object]] = {
        "run": lambda: fake_client.run(["true"]),
        "wait": process.wait,
        "read": lambda: list(process),
        "listen": lambda: list(receiver),
    }
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(WAIT))  # which ends it
        code = 1
        try:
            uses[use]()
        except ClosedError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0) == (pid, 0)
    receiver.close()
    assert fake_client.call("process/terminate") == {"running": True}


class FakeChannel:
    """Counts how often it is closed."""

    closed = 0

    def request(self, *args: object) -> dict[str, object]:
        """Not used."""
        raise NotImplementedError

    def notify(self, *args: object) -> None:
        """Not used."""

    def close(self) -> None:
        """Count."""
        self.closed += 1


def test_closed_channel_is_forgotten() -> None:
    """It is closed once, and not at exit again."""
    owner, channel = Owner(), FakeChannel()
    close_with(owner, channel)
    close(channel)
    close(channel)
    assert channel.closed == 1


SCRIPT = """
import sys, execsrv
client = execsrv.spawn_local_exec_server()
server = int(client.run(["sh", "-c", "echo $PPID"], text=True).stdout)
process = client.start(["sleep", "1000"])
client.events.subscribe(lambda event: client)
print(server, process.pid, flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise RuntimeError", "del client, process"])
def test_interpreter_ends_behind_its_server(end: str) -> None:
    """Once it has ended regularly, or by an error, there is nothing left."""
    script = [sys.executable, "-c", SCRIPT.format(end=end)]
    done = subprocess.run(script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=WAIT)
    assert [pid for pid in done.stdout.split() if os.path.exists(f"/proc/{int(pid)}")] == []


@pytest.mark.parametrize("end", ["import os; os._exit(0)", "sys.stdin.read()"])
def test_interpreter_that_is_cut_off_leaves_nothing(end: str) -> None:
    """The server notices, be it by brute force or by SIGKILL."""
    script = [sys.executable, "-c", SCRIPT.format(end=end)]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout
        pids = [int(word) for word in program.stdout.readline().split()]
        if "stdin" in end:
            program.send_signal(signal.SIGKILL)
        program.wait(WAIT)
    assert [pid for pid in pids if not gone(pid)] == []
