"""One peer and its connection, message by message."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gevent
import pytest

from execsrv.protocol.events import ProcessStarted
from execsrv.server.connection import END_S, MAX_OPEN_REQUESTS
from execsrv.server.outbox import BATCH_ANSWERS, MAX_ANSWER_BYTES, MAX_OUTPUT_BYTES

if TYPE_CHECKING:
    from conftest import Peer

    MakePeer = Callable[..., Peer]
    Left = Callable[[], None]

MIB = 1 << 20


def encoded(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


def index_of(peer: Peer, predicate: Callable[[dict[str, Any]], bool]) -> int:
    """Where in the order of messages the first such one is."""
    return next(index for index, message in enumerate(peer.sent) if predicate(message))


def look_until(predicate: Callable[[], object]) -> None:
    """Look again and again for what nothing tells of."""
    with gevent.Timeout(20, AssertionError("looked in vain")):
        while not predicate():
            gevent.sleep(0.001)


# ---- envelope ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [0, -7, 2**53, 2**64, 10**999, "", "x", "ö\u2028\0", "\ud800"])
def test_an_id_is_echoed_exactly(peer: Peer, id: Any) -> None:
    """In results and in errors."""
    peer.send({"id": id, "method": "process/terminate", "params": {"processId": "x"}})
    assert peer.answer(id) == {"id": id, "result": {"running": False}}
    peer.send({"id": id, "method": "no/such"})
    peer.transport.wait_until(lambda: len(peer.answers(id)) == 2)
    assert peer.answers(id)[1]["error"]["code"] == -32600


@pytest.mark.parametrize(
    "message, fault",
    [
        (b"nonsense", (-32700, "parseError")),
        (b"\xff\xfe", (-32700, "parseError")),
        (b"[" * 100_000, (-32700, "parseError")),
        (b"[]", (-32600, "invalidMessage")),
        (b"5", (-32600, "invalidMessage")),
        (b"{}", (-32600, "invalidMessage")),
        ({"id": True, "method": "initialize"}, (-32600, "invalidMessage")),
        ({"id": 1.5, "method": "initialize"}, (-32600, "invalidMessage")),
        ({"id": None, "method": "initialize"}, (-32600, "invalidMessage")),
        (b'{"id": 1' + b"0" * 1000 + b', "method": "initialize"}', (-32600, "invalidMessage")),
        ([{"id": 1, "method": "initialize"}], (-32600, "invalidMessage")),
    ],
)
def test_what_is_no_message_is_answered_under_no_id(new_peer: Peer, message: Any, fault: tuple[int, str]) -> None:
    """And the connection goes on."""
    assert new_peer.fault_of(message)[:2] == fault
    new_peer.shake_hands()


def test_notifications_that_are_refused_are_answered_under_no_id(new_peer: Peer) -> None:
    """With their own words."""
    too_early = (-32600, "notInitialized", "received `initialized` notification before `initialize`")
    assert new_peer.fault_of({"method": "initialized"}) == too_early
    assert new_peer.fault_of({"method": "what/ever"})[2] == "unexpected notification method: what/ever"
    new_peer.shake_hands()
    assert new_peer.fault_of({"method": "process/ack", "params": {"processId": "p"}})[0] == -32602
    assert new_peer.fault_of({"id": 9, "result": {}})[2] == "unexpected client response for request id 9"
    assert new_peer.fault_of({"id": "x", "error": {}})[2] == "unexpected client error for request id x"


def test_the_checks_of_a_request_come_in_order(new_peer: Peer) -> None:
    """Method, shape, handshake, then the method's own."""
    assert new_peer.refusal("no/such", x=1)[1:] == ("unknownMethod", "unknown method: no/such")
    assert new_peer.refusal("process/read", processId=5)[1] == "invalidParams"
    assert new_peer.refusal("process/read", processId="p")[1] == "notInitialized"
    assert new_peer.refusal("initialize", clientName=1)[1] == "invalidParams"
    new_peer.call("initialize", clientName="test")
    assert new_peer.refusal("initialize", clientName="test")[1] == "alreadyInitialized"
    refused = new_peer.refusal("process/read", processId="p")
    assert refused[2] == "client must send initialized before using exec methods"
    new_peer.notify("initialized")
    assert new_peer.refusal("process/read", processId="p")[1] == "unknownProcess"


def test_a_message_that_was_too_large_is_told_and_the_connection_goes_on(make_peer: MakePeer) -> None:
    """The transport skipped it."""
    peer = make_peer(max_message_bytes=5000)
    peer.send_too_much()
    error = peer.answer(-1)["error"]
    assert (error["code"], error["data"]["kind"]) == (-32600, "tooLarge") and "5000" in error["message"]
    peer.shake_hands()


def test_an_answer_that_would_be_too_large_is_an_error(make_peer: MakePeer) -> None:
    """The limit holds in both directions."""
    peer = make_peer(max_message_bytes=5000)
    peer.shake_hands()
    peer.start("p", "seq 1 10000")
    peer.event("process/closed", "p")
    assert peer.refusal("process/read", processId="p")[:2] == (-32600, "tooLarge")
    assert peer.call("process/read", processId="p", afterSeq=10**6)["closed"]


def test_an_error_is_never_larger_than_a_message(make_peer: MakePeer) -> None:
    """It does not repeat all that it complains about."""
    peer = make_peer(max_message_bytes=5000)
    peer.shake_hands()
    huge = "x" * 100_000
    asked = [peer.ask(huge), peer.ask("process/read", processId=huge), peer.start("p", huge, "x")]
    for id in asked:
        peer.answer(id)
    assert max(len(json.dumps(message)) for message in peer.sent) <= 5000


def test_a_bug_is_an_internal_error_without_a_traceback(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged here, and the connection goes on."""
    peer.connection._handler.processes.terminate = lambda params: 1 / 0
    peer.send({"id": 77, "method": "process/terminate", "params": {"processId": "x"}})
    error = peer.answer(77)["error"]
    assert error == {"code": -32603, "message": "internal error", "data": {"kind": "internal"}}
    assert "ZeroDivisionError" in caplog.text
    assert peer.refusal("process/read", processId="p")[1] == "unknownProcess"


# ---- processes -----------------------------------------------------------------------------------------------------


def test_a_process_from_start_to_close(peer: Peer) -> None:
    """The answer, then the events in their order, as they are on the wire."""
    id = peer.start("p", "printf a; exit 3")
    peer.event("process/closed", "p")
    messages = [m for m in peer.sent if m.get("id") == id or m.get("method")]
    pid = messages[1]["params"]["pid"]
    assert messages == [
        {"id": id, "result": {"processId": "p"}},
        {"method": "process/started", "params": {"processId": "p", "pid": pid}},
        {"method": "process/output", "params": {"processId": "p", "seq": 1, "stream": "stdout", "chunk": "YQ=="}},
        {
            "method": "process/exited",
            "params": {"processId": "p", "seq": 2, "exitCode": 3, "signal": None, "reason": "exited"},
        },
        {"method": "process/closed", "params": {"processId": "p", "seq": 3, "outputComplete": True}},
    ]


def test_150_short_processes_are_complete(peer: Peer) -> None:
    """All at once, every third on a terminal."""
    ids = [peer.start(f"p{n}", f"seq {n} {n + 300}; exit {n % 5}", tty=n % 3 == 0) for n in range(150)]
    for n, id in enumerate(ids):
        peer.event("process/closed", f"p{n}")
        events = peer.events(f"p{n}")
        assert index_of(peer, lambda m, id=id: m.get("id") == id) < peer.sent.index(events[0])
        assert [e["params"]["seq"] for e in events[1:]] == list(range(1, len(events)))
        assert [e["method"] for e in events[-2:]] == ["process/exited", "process/closed"]
        assert events[-2]["params"]["exitCode"] == n % 5
        expected = "".join(f"{line}\n" for line in range(n, n + 301)).encode()
        assert peer.output(f"p{n}").replace(b"\r\n", b"\n") == expected


def test_a_flood_arrives_unchanged(peer: Peer) -> None:
    """Through the outbox, with a reader that pauses after each batch."""
    peer.start("p", "head -c 16777216 /dev/urandom | tee /dev/stderr | sha256sum >&2; exit 0")
    closed = gevent.spawn(peer.event, "process/closed", "p")
    while not closed.ready():
        peer.stop_reading()
        gevent.sleep(0)
        peer.read_again()
        gevent.sleep(0)
    data = peer.output("p", "stderr")
    assert len(data) > 16 * MIB
    seqs = [e["params"]["seq"] for e in peer.events("p")[1:]]
    assert seqs == list(range(1, len(seqs) + 1))
    assert hashlib.sha256(data[: 16 * MIB]).hexdigest().encode() in data[16 * MIB :]


def test_answers_to_what_came_together_are_sent_together(peer: Peer) -> None:
    """As many as are a batch; what waits for nothing is not kept for others."""
    del peer.transport.batches[:]
    ids = [peer.ask("no/such") for _ in range(BATCH_ANSWERS + 3)]
    assert all(peer.answer(id)["error"] for id in ids)
    assert peer.transport.batches == [BATCH_ANSWERS, 3]


def test_the_exit_leaves_together_with_the_close_that_follows_at_once(peer: Peer) -> None:
    """Nobody needs it earlier."""
    peer.start("p", "true")
    peer.transport.wait_until(lambda: any(message.get("method") == "process/closed" for message in peer.sent))
    assert [message.get("method") for message in peer.sent[-2:]] == ["process/exited", "process/closed"]
    assert peer.transport.batches[-1] >= 2


def test_what_cannot_be_sent_at_once_is_sent_later(peer: Peer) -> None:
    """By another greenlet: nobody who has something to say waits for a peer that does not read."""
    peer.stop_reading()
    before = len(peer.sent)
    ids = [peer.ask("no/such") for _ in range(3)]
    peer.start("p", "true")
    look_until(lambda: peer.transport.is_drained)
    peer.read_again()
    peer.transport.wait_until(lambda: any(message.get("method") == "process/closed" for message in peer.sent))
    assert [message["id"] for message in peer.sent[before : before + 3]] == ids


def test_answers_overtake_output(peer: Peer) -> None:
    """A flood that the peer does not read keeps no answer back, once it reads again."""
    peer.start("p", "yes")
    peer.wait_output("p", b"y")
    peer.stop_reading()
    outbox = peer.connection._outbox
    look_until(lambda: outbox._output_bytes >= MAX_OUTPUT_BYTES)
    id = peer.ask("process/terminate", processId="none")
    look_until(lambda: peer.transport.is_drained)
    gevent.idle()
    before = len(peer.sent)
    peer.read_again()
    peer.answer(id)
    overtaken = [m for m in peer.sent[index_of(peer, lambda m: m.get("id") == id) :]]
    assert overtaken and index_of(peer, lambda m: m.get("id") == id) - before <= 3


@pytest.mark.parametrize("method", ["process/read", "process/terminate"])
def test_an_answer_that_tells_of_the_exit_comes_after_it(peer: Peer, method: str) -> None:
    """However much output waits before it."""
    peer.start("p", "head -c 60000 /dev/zero; sleep 1000 &")
    peer.event("process/started", "p")
    peer.stop_reading()
    process = peer.connection._handler.processes._open["p"]
    look_until(lambda: process.exited)
    id = peer.ask(method, processId="p")
    look_until(lambda: peer.transport.is_drained)
    gevent.idle()
    peer.read_again()
    assert peer.answer(id)["result"].get("exited", True)
    assert index_of(peer, lambda m: m.get("method") == "process/exited") < index_of(peer, lambda m: m.get("id") == id)


def test_an_error_that_tells_of_the_exit_comes_after_it(peer: Peer) -> None:
    """A write that finds the input closed by the exit."""
    peer.start("p", "head -c 60000 /dev/zero; sleep 1000 &", pipeStdin=True)
    peer.event("process/started", "p")
    peer.stop_reading()
    process = peer.connection._handler.processes._open["p"]
    look_until(lambda: process.exited)
    id = peer.ask("process/write", processId="p", chunk="")
    look_until(lambda: peer.transport.is_drained)
    gevent.idle()
    peer.read_again()
    assert peer.answer(id)["error"]["data"]["kind"] == "stdinClosed"
    assert index_of(peer, lambda m: m.get("method") == "process/exited") < index_of(peer, lambda m: m.get("id") == id)


def test_requests_to_a_process_that_starts_keep_their_order(peer: Peer) -> None:
    """Sent in one go."""
    peer.start("p", "cat", pipeStdin=True)
    for piece in ("a", "b", "c"):
        peer.ask("process/write", processId="p", chunk=encoded(piece.encode() * 100_000))
    reading = peer.ask("process/read", processId="p", waitMs=20_000)
    peer.transport.wait_until(lambda: len(peer.output("p")) == 300_000)
    assert peer.output("p") == b"a" * 100_000 + b"b" * 100_000 + b"c" * 100_000
    assert peer.answer(reading)["result"]["chunks"]


def test_a_waiting_request_holds_up_no_other(peer: Peer) -> None:
    """Neither a read that waits nor a write that is stuck."""
    peer.start("p", "sleep 1000", pipeStdin=True)
    reading = peer.ask("process/read", processId="p", waitMs=60_000)
    writing = peer.ask("process/write", processId="p", chunk=encoded(bytes(MIB)))
    peer.start("q", "echo hi")
    peer.event("process/closed", "q")
    assert peer.call("fs/getMetadata", path="/")["isDirectory"]
    assert not peer.answers(reading) and not peer.answers(writing)
    assert peer.call("process/terminate", processId="p") == {"running": True}
    assert peer.answer(writing)["error"]["data"]["kind"] == "stdinClosed"
    assert peer.answer(reading)["result"]["exited"]


def test_acks_are_notifications(peer: Peer) -> None:
    """They open the window, and nothing answers them."""
    peer.start("p", "yes", windowBytes=1000)
    peer.transport.wait_until(lambda: len(peer.output("p")) == 1000)
    peer.notify("process/ack", processId="p", seq=peer.events("p")[-1]["params"]["seq"])
    peer.notify("process/ack", processId="gone", seq=1)
    peer.transport.wait_until(lambda: len(peer.output("p")) == 2000)
    assert not peer.answers(-1)


def test_both_dialects_share_a_connection(peer: Peer) -> None:
    """With ids of their own."""
    peer.start("p", "sleep 1000")
    argv = ["/bin/sh", "-c", "echo hi; exit 3"]
    answer = peer.call("command/exec", processId="q", argv=argv, cwd="/", env={}, tty=True)
    rest = {"exitCode": None, "stdout": None, "stderr": None}
    assert answer == {"processId": "q", "pid": answer["pid"], "running": True, **rest}
    assert peer.event("command/exec/exited", "q") == {"processId": "q", "exitCode": 3}
    assert {m["method"] for m in peer.events("q")} == {"command/exec/outputDelta", "command/exec/exited"}
    assert peer.output("q", "stdout") == b"hi\r\n"
    assert peer.call("command/exec/terminate", processId="p") == {"running": False}


def test_a_first_cut_id_can_be_used_again_at_once(peer: Peer) -> None:
    """The former's exit comes before the new one's answer."""
    fields: dict[str, Any] = {"processId": "p", "argv": ["/bin/sleep", "1000"], "cwd": "/", "env": {}, "tty": False}
    for _ in range(5):
        peer.call("command/exec", **fields)
        ending = peer.ask("command/exec/terminate", processId="p")
        again = peer.ask("command/exec", **fields)
        assert peer.answer(ending)["result"] == {"running": True}
        peer.answer(again)
        exits = [i for i, m in enumerate(peer.sent) if m.get("method") == "command/exec/exited"]
        assert exits[-1] < index_of(peer, lambda m, again=again: m.get("id") == again)
        peer.call("command/exec/terminate", processId="p")
        peer.transport.wait_until(
            lambda n=len(exits): len([m for m in peer.sent if m.get("method") == "command/exec/exited"]) == n + 1
        )


# ---- files ---------------------------------------------------------------------------------------------------------


def test_file_requests_take_effect_in_order(peer: Peer, tmp_path: Path) -> None:
    """The last one wins; reads see what was written before them."""
    path = str(tmp_path / "file")
    for n in range(20):
        peer.ask("fs/writeFile", path=path, dataBase64=encoded(b"%d" % n))
        reading = peer.ask("fs/readFile", path=path)
    assert peer.answer(reading)["result"] == {"dataBase64": encoded(b"19")}
    answers = [base64.b64decode(m["result"]["dataBase64"]) for m in peer.sent if "dataBase64" in m.get("result", {})]
    assert answers == [b"%d" % n for n in range(20)]


def test_a_stuck_file_holds_up_no_process(peer: Peer, tmp_path: Path) -> None:
    """Nor the end of the connection."""
    path = tmp_path / "file"
    path.write_bytes(bytes(8 * MIB))
    ids = [peer.ask("fs/readFile", path=str(path)) for _ in range(3)]
    peer.start("p", "echo hi")
    peer.event("process/closed", "p")
    assert all(len(peer.answer(id)["result"]["dataBase64"]) > 8 * MIB for id in ids)


# ---- bounds --------------------------------------------------------------------------------------------------------


def test_a_peer_that_does_not_read_its_answers_is_not_read(peer: Peer) -> None:
    """At 8 MiB of answers; everything is answered when it reads again."""
    peer.start("p", "head -c 1000000 /dev/urandom")
    peer.event("process/closed", "p")
    peer.stop_reading()
    ids = [peer.ask("process/read", processId="p") for _ in range(60)]
    outbox = peer.connection._outbox
    look_until(lambda: outbox._answer_bytes >= MAX_ANSWER_BYTES)
    gevent.idle()
    assert not peer.transport.is_drained
    assert outbox._answer_bytes < MAX_ANSWER_BYTES + 2 * MIB
    peer.read_again()
    for id in ids:
        assert peer.answer(id)["result"]["closed"]


def test_only_so_many_requests_are_open(peer: Peer) -> None:
    """Then the connection is not read until one is answered; none is lost."""
    peer.start("p", "sleep 1000", pipeStdin=True)
    peer.ask("process/write", processId="p", chunk=encoded(bytes(MIB)))
    ids = [peer.ask("process/write", processId="p", chunk="eA==") for _ in range(MAX_OPEN_REQUESTS + 10)]
    look_until(lambda: peer.connection._open_requests >= MAX_OPEN_REQUESTS)
    gevent.idle()
    assert peer.connection._open_requests == MAX_OPEN_REQUESTS and not peer.transport.is_drained
    process = peer.connection._handler.processes._open["p"]
    process.terminate()
    for id in ids:
        assert peer.answer(id)["error"]["data"]["kind"] == "stdinClosed"


def test_a_peer_that_vanishes_while_too_much_is_open_is_noticed(peer: Peer) -> None:
    """By the first message that can't be sent."""
    peer.start("p", "sleep 1000", pipeStdin=True)
    peer.ask("process/write", processId="p", chunk=encoded(bytes(MIB)))
    for _ in range(MAX_OPEN_REQUESTS):
        peer.ask("process/write", processId="p", chunk="eA==")
    peer.start("q", "true")  # never taken up
    look_until(lambda: peer.connection._open_requests >= MAX_OPEN_REQUESTS)
    gevent.idle()
    peer.vanish()
    peer.connection._handler.processes._open["p"]._sink.put(ProcessStarted("p", 1))
    peer.serving.join(timeout=10)
    noticed = peer.serving.ready()
    peer.connection.end("connectionClosed")
    assert noticed


# ---- the end -------------------------------------------------------------------------------------------------------


def test_the_end_kills_everything(make_peer: MakePeer, nothing_left: Left, died: Callable[[int], None]) -> None:
    """Children of children, jobs, first-cut processes, and those still starting."""
    peer = make_peer()
    peer.shake_hands()
    peer.start("a", "sleep 1000 & echo $!; sleep 1000")
    peer.start("b", "bash", "--norc", "-i", tty=True)
    peer.ask("process/write", processId="b", chunk=encoded(b"sleep 1000 &\n"))
    peer.ask("command/exec", processId="c", argv=["/bin/sleep", "1000"], cwd="/", env={}, tty=True)
    child = int(peer.wait_output("a", b"\n"))
    for n in range(20):
        peer.start(f"s{n}", "sleep", "1000")
    peer.hang_up()
    died(child)
    for name in ["a", "b", *(f"s{n}" for n in range(20))]:
        assert peer.event("process/exited", name)["reason"] == "connectionClosed"
        assert peer.events(name)[-1]["method"] == "process/closed"
    assert peer.event("command/exec/exited", "c")["exitCode"] == 137
    assert peer.transport.is_closed
    nothing_left()


def test_what_was_read_before_the_end_is_answered(new_peer: Peer, tmp_path: Path) -> None:
    """Every request, with a result or an error."""
    ids = [new_peer.ask("initialize", clientName="x")]
    new_peer.notify("initialized")
    ids.append(new_peer.start("p", "cat", pipeStdin=True))
    ids.append(new_peer.ask("process/read", processId="p", waitMs=60_000))
    ids.append(new_peer.ask("process/write", processId="p", chunk=encoded(bytes(MIB))))
    ids.append(new_peer.ask("fs/writeFile", path=str(tmp_path / "f"), dataBase64="eA=="))
    ids.append(new_peer.start("q", "/no/such/program", "x"))
    new_peer.hang_up()
    assert [len(new_peer.answers(id)) for id in ids] == [1] * len(ids)
    assert (tmp_path / "f").read_bytes() == b"x"


def test_an_end_with_a_reason(peer: Peer) -> None:
    """As when the server stops; the peer's own end comes second."""
    peer.start("p", "sleep 1000")
    peer.event("process/started", "p")
    peer.connection.end("shutdown")
    assert peer.event("process/exited", "p")["reason"] == "shutdown"
    peer.serving.get(timeout=10)
    peer.connection.end("connectionClosed")


def test_a_peer_that_vanishes_ends_its_connection(peer: Peer, nothing_left: Left) -> None:
    """The flood that can't be sent tells."""
    peer.start("p", "yes")
    peer.wait_output("p", b"y")
    peer.vanish()
    peer.serving.get(timeout=10)
    nothing_left()


def test_an_end_with_a_full_outbox_leaves_nothing(peer: Peer, nothing_left: Left) -> None:
    """A peer that hung up and reads nothing holds it up for a few seconds at most."""
    peer.start("p", "yes & yes")
    peer.wait_output("p", b"y")
    peer.stop_reading()
    outbox = peer.connection._outbox
    look_until(lambda: outbox._output_bytes >= MAX_OUTPUT_BYTES)
    assert peer.hang_up() < 5
    nothing_left()


def test_one_connection_does_not_wait_for_another(make_peer: MakePeer) -> None:
    """However much the other one has in its outbox."""
    stuck, other = make_peer(), make_peer()
    for peer in (stuck, other):
        peer.shake_hands()
    stuck.start("p", "yes")
    stuck.wait_output("p", b"y")
    stuck.stop_reading()
    other.start("p", "seq 1 100000")
    other.event("process/closed", "p")
    assert other.output("p") == "".join(f"{line}\n" for line in range(1, 100_001)).encode()


def test_20_connections_leave_nothing(make_peer: MakePeer, nothing_left: Left) -> None:
    """No process, no zombie, no descriptor."""
    for n in range(20):
        peer = make_peer()
        peer.shake_hands()
        for name in "abc":
            peer.start(name, "sleep 1000 & seq 1 1000", tty=name == "b", pipeStdin=True)
        if n % 2:
            peer.event("process/exited", "a")
        peer.hang_up()
        nothing_left()


def test_a_copy_that_does_not_end_is_broken_off_at_the_end(peer: Peer, tmp_path: Path) -> None:
    """After it had some time; it is answered like any other request."""
    with open(tmp_path / "source", "wb") as file:
        file.truncate(1 << 42)
    id = peer.ask("fs/copy", sourcePath=str(tmp_path / "source"), destinationPath="/dev/null")
    look_until(lambda: peer.transport.is_drained)
    peer.hang_up()
    assert peer.answer(id)["error"]["message"].endswith(": Operation canceled")


def test_requests_that_cannot_be_answered_are_not_waited_for(peer: Peer, tmp_path: Path) -> None:
    """The peer is gone, and most of them have not begun."""
    with open(tmp_path / "source", "wb") as file:
        file.truncate(1 << 42)
    for _ in range(30):
        peer.ask("fs/copy", sourcePath=str(tmp_path / "source"), destinationPath="/dev/null")
    look_until(lambda: peer.transport.is_drained)
    peer.vanish()
    peer.ask("no/such")
    look_until(lambda: peer.transport.is_closed)
    assert peer.hang_up() < END_S / 2
