"""Tests of execsrv.client.launcher, through a client of a fake server."""

from __future__ import annotations

import pytest
from fake_server import WAIT, FakeServer, Message

from execsrv import CallTimeout, ExecServerClient, ServerError
from execsrv.client.pacing import WINDOW_BYTES


def test_id_in_use_is_refused(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """The process that has it is not disturbed, and its end frees the id."""
    process = fake_client.start(["cmd"], process_id="p")
    with pytest.raises(ValueError, match="process p already"):
        fake_client.start(["cmd"], process_id="p")
    fake.exited("p", 1)
    fake.closed("p", 2)
    assert list(process) == []
    fake_client.start(["cmd"], process_id="p")


def test_handle_uses_the_id_of_the_answer(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Also for what comes right behind the answer, and for acknowledgements."""

    def start(message: Message) -> None:
        fake.answer(message, {"processId": "theirs"})
        fake.output("theirs", 1, b"x" * WINDOW_BYTES)
        fake.exited("theirs", 2, 7)
        fake.closed("theirs", 3)

    fake.handlers["process/start"] = start
    process = fake_client.start(["cmd"], process_id="mine")
    assert process.process_id == "theirs"
    assert process.wait(WAIT) == 7
    assert len(process.communicate()[0]) == WINDOW_BYTES


def test_failed_start_leaves_nothing_behind(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """The error is the server's, and the id is free."""

    def refuse(message: Message) -> None:
        fake.refuse(message, -32603, "no such program", kind="spawnNotFound")

    fake.handlers["process/start"] = refuse
    with pytest.raises(ServerError, match="no such program") as caught:
        fake_client.start(["cmd"], process_id="p")
    assert caught.value.kind == "spawnNotFound"
    fake.handlers["process/start"] = lambda message: {"processId": "p"}
    assert fake_client.start(["cmd"], process_id="p").process_id == "p"
    assert fake.of("process/terminate") == []


def test_start_that_takes_too_long_is_taken_back(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Should the process start after all, it is killed."""
    del fake.handlers["process/start"]
    with pytest.raises(CallTimeout):
        fake_client.start(["cmd"], process_id="p", timeout=0.01)
    assert fake.wait_for("process/terminate")["params"] == {"processId": "p"}
