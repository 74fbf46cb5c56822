"""Tests of execsrv.client.lifetime: what is dropped or left open ends all the same."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

import pytest
from fake_server import WAIT, FakeServer

from execsrv import ExecServerClient
from execsrv.client.lifetime import when_dropped


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


@pytest.mark.parametrize("keep", [lambda client: client.start(["cmd"]), lambda client: client.event_receiver(WAIT)])
def test_handle_and_receiver_keep_their_client(fake: FakeServer, keep: Callable[[ExecServerClient], object]) -> None:
    """What was given out can be used until it is dropped, too."""
    kept = keep(fake.connect())
    gc.collect()
    fake.send({"method": "still/there"})
    assert not fake.ended.is_set()
    del kept
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


SCRIPT = """
import sys, execsrv
client = execsrv.spawn_local_exec_server()
server = int(client.run(["sh", "-c", "echo $PPID"], text=True).stdout)
process = client.start(["sleep", "1000"])
client.events.subscribe(lambda event: client)
print(server, process.pid, flush=True)
{end}
"""


@pytest.mark.parametrize(
    "end",
    ["", "sys.exit(3)", "raise RuntimeError", "del client, process", "import os; os._exit(0)", "sys.stdin.read()"],
)
def test_end_of_the_interpreter_ends_everything(end: str) -> None:
    """However it comes: regularly, by an error, by brute force, or by SIGKILL."""
    script = [sys.executable, "-c", SCRIPT.format(end=end)]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout
        pids = [int(word) for word in program.stdout.readline().split()]
        watches = [open(os.pidfd_open(pid)) for pid in pids if os.path.exists(f"/proc/{pid}")]
        if "stdin" in end:
            program.send_signal(signal.SIGKILL)
        program.wait(WAIT)
    for watch in watches:
        wait_readable(watch.fileno())
        watch.close()


def wait_readable(fd: int) -> None:
    """A pidfd is readable when its process has ended (pidfd_open(2))."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(WAIT * 1000)
