"""gunicorn with our workers: both serve by our rules, and whatever ends them ends their processes."""

from __future__ import annotations

import hashlib
import os
import resource
import select
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from endings import gone
from gunicorn_program import DESCRIPTORS, Gunicorn, worker_of
from links import PATIENCE, ask_for_upgrade
from peer import OpenPeer, Peer
from proc import children, eventually, is_alive

StartGunicorn = Callable[..., Gunicorn]

#: Two workers with room for one connection each, so that two connections are never on the same.
APART = {"MAX_CONNECTIONS": "1"}

#: How many lines.
FLOOD = 400_000

#: The lowest of the signals, as a bit of a mask, that glibc keeps for itself (nptl(7)) and nobody can change.
GLIBCS_OWN = 1 << (32 - 1)

#: On SIGTERM it takes longer to end than gunicorn's time for that would be.
SLOW_TO_END = "trap 'sleep 2; echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture
def start_gunicorn(tmp_path: Path) -> Iterator[StartGunicorn]:
    """Starts gunicorn with two workers, and with the options given; stops it at the end."""
    with ExitStack() as stack:

        def start(*options: str, **more: Any) -> Gunicorn:
            program = Gunicorn(tmp_path, "--workers", "2", *options, **more)
            stack.callback(program.end)
            return program

        yield start


@pytest.fixture(scope="module")
def gunicorn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gunicorn]:
    """For the tests that leave it as it is; its workers have room for one connection each."""
    program = Gunicorn(tmp_path_factory.mktemp("gunicorn"), "--workers", "2", variables=APART)
    yield program
    program.end()


@pytest.fixture
def pair(gunicorn: Gunicorn, open_websocket: OpenPeer) -> tuple[Peer, Peer]:
    """Two peers of one port, each on a worker of its own."""
    return open_websocket(gunicorn).handshake(), open_websocket(gunicorn).handshake()


@pytest.fixture
def last_pair(start_gunicorn: StartGunicorn, open_websocket: OpenPeer) -> tuple[Peer, Peer]:
    """Two such peers of a gunicorn that the test may end."""
    gunicorn = start_gunicorn(variables=APART)
    return open_websocket(gunicorn).handshake(), open_websocket(gunicorn).handshake()


def start_stubborn(peer: Peer) -> list[int]:
    """Start processes that do not end by themselves; their pids."""
    ids = [
        peer.start("sh", "-c", "trap '' TERM HUP; sleep 1000"),
        peer.start("sh", "-c", "trap '' TERM HUP; sleep 1000 & sleep 1000", tty=True),
        peer.start("yes"),
    ]
    return [peer.event("process/started", id)["pid"] for id in ids]


# ---- serving -------------------------------------------------------------------------------------------------------


def test_both_workers_serve_one_port(pair: tuple[Peer, Peer]) -> None:
    """A worker that is full leaves a connection to the other; both are children of the master."""
    workers = {worker_of(peer) for peer in pair}
    assert workers == set(children(pair[0].program.pid)) and len(workers) == 2


def test_who_finds_all_workers_full_waits(pair: tuple[Peer, Peer]) -> None:
    """Until one has room again."""
    leaving, staying = pair
    host, port = leaving.program.url.removeprefix("ws://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as waiting:
        waiting.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert staying.run("true").exited["exitCode"] == 0
        assert not select.select([waiting], [], [], 0)[0]
        leaving.close()
        assert waiting.recv(100).startswith(b"HTTP/1.1 426")


def test_gunicorns_own_limit_of_connections_holds_too(start_gunicorn: StartGunicorn, open_websocket: OpenPeer) -> None:
    """The lower one of the two."""
    gunicorn = start_gunicorn("--worker-connections", "1")
    peers = [open_websocket(gunicorn).handshake() for _ in range(2)]
    assert len({worker_of(peer) for peer in peers}) == 2


def test_the_rules_of_the_handshake_hold(start_gunicorn: StartGunicorn) -> None:
    """Names and pages that are not allowed are turned away; the environment and gunicorn's file allow some."""
    config = 'raw_env = ["EXECSRV_ALLOW_HOST=box.example other.example"]\n'
    gunicorn = start_gunicorn(config=config, variables={"ALLOW_ORIGIN": "https://good.example http://also.example"})
    for headers, wanted in (
        *(({}, 101), ({"Origin": "http://also.example"}, 101), ({"Host": "Other.example:80"}, 101)),
        *(({"Origin": "https://evil.example"}, 403), ({"Host": "evil.example"}, 403), ({"Upgrade": None}, 426)),
    ):
        sock, line = ask_for_upgrade(gunicorn.url, **headers)
        sock.close()
        assert int(line.split()[1]) == wanted, headers


def test_the_limit_of_messages_holds(start_gunicorn: StartGunicorn, open_websocket: OpenPeer) -> None:
    """A longer one closes the connection with 1009."""
    peer = open_websocket(start_gunicorn(variables={"MAX_MESSAGE_BYTES": "4096"})).handshake()
    peer.link.send(b"x" * 5000)
    assert peer.link.close_code() == 1009  # type: ignore[attr-defined]


def test_pings_are_answered(pair: tuple[Peer, Peer]) -> None:
    """By each worker."""
    for peer in pair:
        assert peer.link.connection.ping().wait(PATIENCE)  # type: ignore[attr-defined]


def test_a_flood_comes_whole(pair: tuple[Peer, Peer]) -> None:
    """From both workers at the same time, through pipes and through a terminal."""
    wanted = "".join(f"{number}\n" for number in range(1, FLOOD + 1)).encode()
    ids = [peer.start("seq", str(FLOOD), tty=tty) for tty in (False, True) for peer in pair]
    lives = [peer.finish(id) for peer, id in zip([*pair, *pair], ids)]
    digests = {hashlib.sha256(life.stdout or life.pty.replace(b"\r\n", b"\n")).digest() for life in lives}
    assert digests == {hashlib.sha256(wanted).digest()}


def test_a_terminal_is_a_terminal(pair: tuple[Peer, Peer]) -> None:
    """With its size, and its keys."""
    peer = pair[0]
    process_id = peer.start("sh", "-c", "stty size; sleep 1000", tty=True, size={"rows": 30, "cols": 100})
    peer.wait_for_output(process_id, b"30 100", "pty")
    peer.call("process/write", processId=process_id, chunk="Aw==")  # Ctrl-C
    assert peer.finish(process_id).exited["signal"] == "SIGINT"


PATCHED = "from gevent import monkey\nmonkey.patch_all()\n"


@pytest.mark.parametrize("config", ["", PATCHED], ids=["plain", "patched"])
def test_exit_codes_are_never_lost(start_gunicorn: StartGunicorn, open_websocket: OpenPeer, config: str) -> None:
    """Also when gunicorn's configuration patches everything, and its master watches its own children."""
    gunicorn = start_gunicorn(variables=APART, config=config)
    peers = [open_websocket(gunicorn).handshake() for _ in range(2)]
    started = [(peer, code, peer.start("sh", "-c", f"exit {code}", tty=code % 2 == 0))
               for code in range(60) for peer in peers]
    for peer, code, process_id in started:
        exited = peer.finish(process_id).exited
        assert (exited["exitCode"], exited["reason"]) == (code, "exited")
    assert all(eventually(lambda: not children(worker)) for worker in gunicorn.workers())


def test_children_inherit_nothing_of_gunicorn(pair: tuple[Peer, Peer]) -> None:
    """Neither its sockets and files nor our limit of descriptors, nor its dispositions of signals."""
    peer = pair[0]
    assert peer.run("sh", "-c", "ls /proc/$$/fd").stdout.split() == [b"0", b"1", b"2"]
    assert int(peer.run("sh", "-c", "ulimit -n").stdout) == DESCRIPTORS
    assert resource.prlimit(worker_of(peer), resource.RLIMIT_NOFILE)[0] > DESCRIPTORS
    ignored = int(peer.run("grep", "SigIgn", "/proc/self/status").stdout.split()[1], 16)
    assert not ignored & GLIBCS_OWN - 1


# ---- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_the_end_of_the_master_ends_all(number: signal.Signals, last_pair: tuple[Peer, Peer]) -> None:
    """It is told, the connections are closed, no process and no worker is left."""
    gunicorn = last_pair[0].program
    pids = [pid for peer in last_pair for pid in start_stubborn(peer)]
    told = [peer.start("sleep", "1000") for peer in last_pair]
    workers = children(gunicorn.pid)
    gunicorn.process.send_signal(number)
    for peer, process_id in zip(last_pair, told):
        peer.end()
        exited = peer.finish(process_id).exited
        assert (exited["exitCode"], exited["reason"]) == (137, "shutdown")
    assert gunicorn.wait() == 0
    assert not any(is_alive(pid) for pid in [*workers, *pids])


def test_a_master_that_is_killed_ends_all_too(last_pair: tuple[Peer, Peer]) -> None:
    """The workers notice."""
    gunicorn = last_pair[0].program
    pids = [pid for peer in last_pair for pid in start_stubborn(peer)] + children(gunicorn.pid)
    gunicorn.process.kill()
    for peer in last_pair:
        peer.end()
    assert all(gone(pid) for pid in pids)


def test_gunicorns_patience_does_not_cut_the_grace(start_gunicorn: StartGunicorn, open_websocket: OpenPeer) -> None:
    """Though it is set to less."""
    gunicorn = start_gunicorn("--graceful-timeout", "1", variables={"SHUTDOWN_GRACE_MS": "60000"})
    peer = open_websocket(gunicorn).handshake()
    process_id = peer.start("sh", "-c", SLOW_TO_END)
    peer.wait_for_output(process_id, b"ready")
    gunicorn.process.terminate()
    peer.end()
    life = peer.finish(process_id)
    assert (life.stdout, life.exited["exitCode"], life.exited["reason"]) == (b"ready\nbye\n", 3, "shutdown")
    assert gunicorn.wait() == 0


def test_a_second_signal_ends_the_grace(start_gunicorn: StartGunicorn, open_websocket: OpenPeer) -> None:
    """gunicorn's quick end, for which it allows 2 seconds."""
    gunicorn = start_gunicorn(variables={"SHUTDOWN_GRACE_MS": "3600000"})
    peer = open_websocket(gunicorn).handshake()
    process_id = peer.start("sh", "-c", "trap 'echo bye' TERM; echo ready; while :; do sleep 0.05; done")
    peer.wait_for_output(process_id, b"ready")
    gunicorn.process.terminate()
    peer.wait_for_output(process_id, b"bye")
    gunicorn.process.send_signal(signal.SIGINT)
    peer.end()
    exited = peer.finish(process_id).exited
    assert (exited["exitCode"], exited["reason"]) == (137, "shutdown")
    assert gunicorn.wait() == 0


ENDS = [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGHUP, signal.SIGKILL]


def test_a_worker_that_ends_is_replaced(start_gunicorn: StartGunicorn, open_websocket: OpenPeer) -> None:
    """By whatever signal; its processes end, except when it is killed, and other connections live on."""
    gunicorn = start_gunicorn(variables=APART)
    staying, leaving = (open_websocket(gunicorn).handshake() for _ in range(2))
    for number in ENDS:
        worker, pids = worker_of(leaving), start_stubborn(leaving)
        os.kill(worker, number)
        leaving.end()
        assert gone(worker)
        if number == signal.SIGKILL:
            for pid in pids:
                os.killpg(pid, signal.SIGKILL)
        assert all(gone(pid) for pid in pids), number
        leaving = open_websocket(gunicorn).handshake()
        assert worker_of(leaving) not in (worker, worker_of(staying))
        assert staying.run("sh", "-c", "exit 5").exited["exitCode"] == 5


END_THE_FIRST = """
import os, signal
def post_fork(server, worker):
    if worker.age == 1:
        os.kill(worker.pid, signal.SIGTERM)
"""


def test_a_worker_that_is_just_starting_can_be_ended(start_gunicorn: StartGunicorn, open_websocket: OpenPeer) -> None:
    """Before it has any handlers of its own; the master would not ask again."""
    gunicorn = start_gunicorn("--workers", "1", config=END_THE_FIRST)
    ended = int(gunicorn.logged(r"Worker exiting \(pid: (\d+)\)")[1])
    assert worker_of(open_websocket(gunicorn).handshake()) != ended


def test_a_reload_replaces_all_workers(last_pair: tuple[Peer, Peer], open_websocket: OpenPeer) -> None:
    """SIGHUP for the master: their connections and processes end, and new ones are served."""
    gunicorn = last_pair[0].program
    pids = [pid for peer in last_pair for pid in start_stubborn(peer)]
    workers = {worker_of(peer) for peer in last_pair}
    gunicorn.process.send_signal(signal.SIGHUP)
    for peer in last_pair:
        peer.end()
    assert all(gone(pid) for pid in [*pids, *workers])
    assert worker_of(open_websocket(gunicorn).handshake()) not in workers


def test_a_worker_is_replaced_after_so_many_connections(
    start_gunicorn: StartGunicorn, open_websocket: OpenPeer
) -> None:
    """Those that have ended count; what is open then ends with it."""
    gunicorn = start_gunicorn("--workers", "1", "--max-requests", "2")
    staying = open_websocket(gunicorn).handshake()
    worker, pids = worker_of(staying), start_stubborn(staying)
    for _ in range(2):
        assert staying.run("true").exited["exitCode"] == 0
        open_websocket(gunicorn).handshake().close()
    staying.end()
    assert all(gone(pid) for pid in [*pids, worker])
    assert worker_of(open_websocket(gunicorn).handshake()) != worker


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more, words",
    [
        ({"bind": "0.0.0.0:0"}, "EXECSRV_INSECURE_NO_AUTH=1"),
        ({"bind": "[::]:0"}, "EXECSRV_INSECURE_NO_AUTH=1"),
        ({"variables": {"MAX_CONNECTIONS": "many"}}, "EXECSRV_MAX_CONNECTIONS"),
        ({"bind": "unix:{folder}/socket"}, "TCP only"),
        ({"config": "certfile = keyfile = __file__\n"}, "TLS"),
        ({"config": "reuse_port = True\n"}, "reuse_port"),
    ],
)
def test_what_makes_no_sense_ends_gunicorn(
    start_gunicorn: StartGunicorn, tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    """With words that say why, before there is any worker."""
    if "bind" in more:
        more = {"bind": more["bind"].format(folder=tmp_path)}
    gunicorn = start_gunicorn(**more)
    assert gunicorn.wait() == 3
    assert words in gunicorn.log and "Booting worker" not in gunicorn.log


def test_other_machines_are_let_in_when_that_is_wanted(start_gunicorn: StartGunicorn, open_websocket: OpenPeer) -> None:
    """With a warning."""
    gunicorn = start_gunicorn(bind="0.0.0.0:0", variables={"INSECURE_NO_AUTH": "1"})
    assert open_websocket(gunicorn).handshake().run("true").exited["exitCode"] == 0
    assert "anybody who reaches 0.0.0.0 can run commands here" in gunicorn.log


ADVICE = b"execsrv needs its own class of workers: gunicorn -k execsrv.gunicorn.Worker\n"
CLOSE_FRAME = b"\x88\x00"


@pytest.mark.parametrize(
    "worker, end",
    [("sync", ADVICE), ("geventwebsocket.gunicorn.workers.GeventWebSocketWorker", CLOSE_FRAME)],
)
def test_other_workers_serve_nobody(start_gunicorn: StartGunicorn, worker: str, end: bytes) -> None:
    """They know none of our rules, so the application does nothing there."""
    gunicorn = start_gunicorn("--workers", "1", worker=worker)  # one that is just starting would miss the signal to end
    sock, _ = ask_for_upgrade(gunicorn.url)
    with sock:
        assert sock.makefile("rb").read() == end
