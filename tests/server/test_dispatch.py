"""From names and JSON to typed calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from execsrv import schemas
from execsrv.config import ExecServerConfig
from execsrv.errors import RpcError
from execsrv.protocol.processes import ProcessReadParams, ProcessStartParams, Size
from execsrv.server.dispatch import METHODS, NOTIFICATIONS, Lane, bind_notification, bind_request
from execsrv.server.handler import Handler

if TYPE_CHECKING:
    from conftest import RecordingSink

    from execsrv.server.workers import Workers

NOT_INITIALIZED = "client must call initialize before using exec methods"


@pytest.fixture
def new_handler(workers: Workers, sink: RecordingSink) -> Iterator[Handler]:
    """A handler before the handshake."""
    handler = Handler(ExecServerConfig(), workers, sink)
    yield handler
    handler.end("connectionClosed", 10)


@pytest.fixture
def handler(new_handler: Handler) -> Handler:
    """A handler after the handshake."""
    bind_request(new_handler, "initialize", {"clientName": "test"}).run()
    bind_notification(new_handler, "initialized", None).run()
    return new_handler


def fault_of(bind: Callable[..., Any], *args: Any) -> tuple[int, str, str]:
    """Code, kind and message of what a bind raises."""
    with pytest.raises(RpcError) as caught:
        bind(*args)
    return caught.value.code, caught.value.kind, caught.value.message


def params_of(call: Any) -> Any:
    """The params object that a call will get."""
    return call.run.args[0]


def test_every_method_has_a_schema_and_every_schema_a_method() -> None:
    """Requests and notifications that a client sends."""
    kinds = {name: schemas.kind(name) for name in schemas.methods()}
    assert {name for name, kind in kinds.items() if kind == "request"} == set(METHODS)
    notifications = {name for name, kind in kinds.items() if kind == "clientNotification"}
    assert notifications == set(NOTIFICATIONS) | {"initialized"}


@pytest.mark.parametrize("name", METHODS)
def test_every_example_of_a_schema_can_be_bound(handler: Handler, name: str) -> None:
    """To a method that the handler has."""
    for example in schemas.schema(name)["examples"]:
        call = bind_request(handler, name, example["params"])
        assert isinstance(params_of(call), METHODS[name].params)
        assert call.run.func == attrgetter(METHODS[name].target)(handler)
        assert call.lane is METHODS[name].lane


def test_files_are_on_threads_and_what_may_wait_has_its_own_greenlet() -> None:
    """Only the handshake and acks run where messages are read."""
    for name, method in METHODS.items():
        expected = Lane.FILES if name.startswith("fs/") else Lane.PROMPT if name == "initialize" else Lane.OWN
        assert method.lane is expected
    assert {method.lane for method in NOTIFICATIONS.values()} == {Lane.PROMPT}


def test_params_become_objects(handler: Handler) -> None:
    """Unknown fields are ignored, null counts as absent, defaults are filled in."""
    absent = dict.fromkeys(["arg0", "sandbox", "envPolicy", "windowBytes", "pipeStdin"])
    known = {"processId": "p", "argv": ["a"], "cwd": "/", "env": {}, "tty": True, "size": {"rows": 5}}
    params = {**known, **absent, "unknown": [1]}
    assert params_of(bind_request(handler, "process/start", params)) == ProcessStartParams(
        "p", ["a"], "/", {}, True, size=Size(5, 80)
    )
    read = {"processId": "p", "afterSeq": 1.0, "maxBytes": None, "waitMs": None}
    bound = params_of(bind_request(handler, "process/read", read))
    assert bound == ProcessReadParams("p", 1) and isinstance(bound.after_seq, int)


@pytest.mark.parametrize("name", ["", "no/such", "process/ack", "initialized", "process/output", "INITIALIZE"])
def test_an_unknown_method_is_refused_first(new_handler: Handler, name: str) -> None:
    """Before its params and the handshake; notifications are no methods."""
    assert fault_of(bind_request, new_handler, name, 5) == (-32600, "unknownMethod", f"unknown method: {name}")


@pytest.mark.parametrize("name", ["", "no/such", "process/start", "initialize", "process/exited"])
def test_an_unknown_notification_is_refused(new_handler: Handler, name: str) -> None:
    """Requests without an id are no notifications."""
    expected = (-32600, "unknownMethod", f"unexpected notification method: {name}")
    assert fault_of(bind_notification, new_handler, name, None) == expected


@pytest.mark.parametrize(
    "name, params, field",
    [
        ("process/start", {"processId": "p", "argv": [1], "cwd": "/", "env": {}, "tty": False}, "params.argv[0]"),
        ("process/start", {"argv": ["a"], "cwd": "/", "env": {}, "tty": False}, "params.processId"),
        ("process/read", {"processId": "p", "waitMs": True}, "params.waitMs"),
        ("process/read", {"processId": "p", "afterSeq": -1}, "params.afterSeq"),
        ("fs/readFile", {}, "params.path"),
        ("command/exec", [], "params"),
        ("initialize", {}, "params.clientName"),
    ],
)
def test_the_shape_is_judged_before_the_handshake(new_handler: Handler, name: str, params: Any, field: str) -> None:
    """The message names the field."""
    code, kind, message = fault_of(bind_request, new_handler, name, params)
    assert (code, kind) == (-32602, "invalidParams") and message.startswith(field)


@pytest.mark.parametrize("name", [name for name in METHODS if name.startswith(("process/", "fs/"))])
def test_the_handshake_is_wanted_before_anything_else_of_the_handler(new_handler: Handler, name: str) -> None:
    """First initialize, then initialized; each refusal says which is missing."""
    params = schemas.schema(name)["examples"][0]["params"]
    assert fault_of(bind_request, new_handler, name, params) == (-32600, "notInitialized", NOT_INITIALIZED)
    bind_request(new_handler, "initialize", {"clientName": "test"}).run()
    assert fault_of(bind_request, new_handler, name, params)[2] == (
        "client must send initialized before using exec methods"
    )
    bind_notification(new_handler, "initialized", None).run()
    bind_request(new_handler, name, params)


def test_the_first_cut_needs_no_handshake(new_handler: Handler) -> None:
    """Its methods are open from the start."""
    params = {"processId": "p", "argv": ["true"], "cwd": "/", "env": {"PATH": os.environ["PATH"]}, "tty": False}
    assert bind_request(new_handler, "command/exec", params).run().running
    assert bind_request(new_handler, "command/exec/terminate", {"processId": "x"}).run().running is False
    write = bind_request(new_handler, "command/exec/write", {"processId": "x", "chunk": ""})
    assert fault_of(write.run)[1] == "unknownProcess"


def test_an_ack_needs_the_handshake(new_handler: Handler) -> None:
    """As the methods of its dialect do."""
    assert fault_of(bind_notification, new_handler, "process/ack", {"processId": "p", "seq": 1})[2] == NOT_INITIALIZED
    assert fault_of(bind_notification, new_handler, "process/ack", {"processId": "p"})[1] == "invalidParams"


@pytest.mark.parametrize("params", [None, {}, [], 5, "x", {"x": 1}])
def test_the_params_of_initialized_are_ignored(handler: Handler, params: Any) -> None:
    """Whatever they are."""
    bind_notification(handler, "initialized", params).run()
