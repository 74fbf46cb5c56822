"""Tests of execsrv.client.events and execsrv.client.receiver, without a server."""

from __future__ import annotations

import functools
import gc
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
from background import Background
from fake_server import WAIT

from execsrv.client.deadline import Deadline
from execsrv.client.errors import ClosedError, OutputLost, ServerError
from execsrv.client.events import EventBus
from execsrv.client.notifications import Announcement, Disconnected, Event, ServerFault, size_of
from execsrv.client.pacing import Pacer
from execsrv.client.process_state import ProcessState
from execsrv.client.receiver import EventReceiver
from execsrv.client.router import Router
from execsrv.client.spool import MEMORY_BYTES, Spool
from execsrv.protocol.events import ProcessClosed, ProcessExited, ProcessOutput, ProcessStarted

LIFE: list[Event] = [
    ProcessStarted("p", 1),
    ProcessOutput("p", 1, "stdout", b"one"),
    ProcessOutput("p", 2, "stderr", b"two"),
    ProcessExited("p", 3, 0, None, "exited"),
    ProcessClosed("p", 4, True),
]
LOST = ClosedError("lost")


@dataclass(frozen=True, slots=True)
class Remark(Announcement):
    """An event of a layer above the client."""

    kind: ClassVar[str] = "remark"
    process_id: str
    text: bytes

    @property
    def size(self) -> int:
        """All of it."""
        return len(self.text)


class Collector:
    """A callback that collects events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.threads: set[int] = set()
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self.threads.add(threading.get_ident())
            self._changed.notify_all()

    def wait(self, number: int) -> list[Event]:
        """The events, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= number, WAIT)
            return list(self.events)


@pytest.fixture
def router() -> Iterator[Router]:
    """A router with a bus, which ends with the test."""
    router = Router()
    yield router
    router.leaving = True
    router.end(LOST)


@pytest.fixture
def bus(router: Router) -> EventBus:
    """The router's bus."""
    return router.bus


def live(router: Router) -> None:
    """Let the events of a life come."""
    for event in LIFE:
        router.route(event)


def receiver_of(bus: EventBus, timeout: float | None = WAIT, **wanted: str) -> EventReceiver:
    """A receiver."""
    return EventReceiver(None, bus, timeout, wanted.get("process_id"), wanted.get("kind"))


def test_callbacks_get_all_events_in_order_on_one_thread(router: Router, bus: EventBus) -> None:
    """Which is none of the threads that the events come from."""
    one, two = Collector(), Collector()
    bus.subscribe(one)
    bus.subscribe(two)
    live(router)
    assert one.wait(5) == two.wait(5) == LIFE
    assert len(one.threads | two.threads) == 1
    assert threading.get_ident() not in one.threads


def test_subscription_by_process_and_kind(router: Router, bus: EventBus) -> None:
    """A callback gets what it asked for."""
    output, other, last = Collector(), Collector(), Collector()
    bus.subscribe(output, process_id="p", kind="output")
    bus.subscribe(other, process_id="q")
    bus.subscribe(last, kind="closed")
    live(router)
    last.wait(1)
    assert output.events == LIFE[1:3]
    assert other.events == []
    assert last.events == LIFE[4:]


def test_closed_subscription_gets_nothing(router: Router, bus: EventBus) -> None:
    """Whichever way it was closed."""
    by_method, by_call, by_block, last = Collector(), Collector(), Collector(), Collector()
    bus.subscribe(by_method).close()
    bus.subscribe(by_call)()
    with bus.subscribe(by_block):
        pass
    bus.subscribe(last)
    live(router)
    last.wait(5)
    assert by_method.events == by_call.events == by_block.events == []


def test_callback_may_end_its_own_subscription(router: Router, bus: EventBus) -> None:
    """What waits behind the event does not reach it any more."""
    seen, last = Collector(), Collector()

    def once(event: Event) -> None:
        seen(event)
        subscription.close()

    subscription = bus.subscribe(once)
    bus.subscribe(last)
    live(router)
    last.wait(5)
    assert seen.events == LIFE[:1]


def test_callback_may_end_another_subscription(router: Router, bus: EventBus) -> None:
    """Not even the event that is being delivered reaches it any more."""
    seen, last = Collector(), Collector()
    bus.subscribe(lambda event: subscription.close())
    subscription = bus.subscribe(seen)
    bus.subscribe(last)
    live(router)
    last.wait(5)
    assert seen.events == []


def test_callback_may_subscribe(router: Router, bus: EventBus) -> None:
    """The new one gets what comes behind the event."""
    second = Collector()
    bus.subscribe(lambda event: bus.subscribe(second), kind="started")
    bus.subscribe(lambda event: None)
    live(router)
    assert second.wait(4) == LIFE[1:]


def test_callback_may_raise(router: Router, bus: EventBus, caplog: pytest.LogCaptureFixture) -> None:
    """That is logged; others, and later events, are not concerned."""
    last = Collector()

    def fail(event: Event) -> None:
        raise RuntimeError("oh no")

    bus.subscribe(fail)
    bus.subscribe(last)
    with caplog.at_level(logging.ERROR):
        live(router)
        last.wait(5)
    assert caplog.text.count("RuntimeError: oh no") == 5


def test_lost_connection_is_the_last_event(router: Router, bus: EventBus) -> None:
    """For those who want it."""
    everything, one_process = Collector(), Collector()
    bus.subscribe(everything)
    bus.subscribe(one_process, process_id="p")
    live(router)
    router.end(LOST)
    assert everything.wait(6) == [*LIFE, Disconnected(LOST)]
    bus.join(WAIT)
    assert one_process.events == LIFE


def test_closed_client_is_no_event(router: Router, bus: EventBus) -> None:
    """The user knows; callbacks still get what came before."""
    everything = Collector()
    bus.subscribe(everything)
    live(router)
    router.leaving = True
    router.end(LOST)
    bus.join(WAIT)
    assert everything.events == LIFE


def test_join_from_a_callback_does_not_wait_for_itself(router: Router, bus: EventBus) -> None:
    """So a callback may close the client."""
    done = threading.Event()

    def leave(event: Event) -> None:
        bus.join(WAIT)
        done.set()

    bus.subscribe(leave, kind="started")
    live(router)
    assert done.wait(WAIT)


def test_fault_of_the_server_is_an_event(router: Router, bus: EventBus) -> None:
    """Of the kind ``error``."""
    faults, event = Collector(), ServerFault(ServerError(-32700, "not JSON"))
    bus.subscribe(faults, kind="error")
    router.route(event)
    assert faults.wait(1) == [event]


def test_announcement_of_a_layer_above_is_an_event(router: Router, bus: EventBus) -> None:
    """Filters choose it like any other, and its size counts where it is queued."""
    wanted, of_the_process, other = Collector(), Collector(), Collector()
    bus.subscribe(wanted, kind="remark")
    bus.subscribe(of_the_process, process_id="p")
    bus.subscribe(other, process_id="q")
    small, large = Remark("p", b""), Remark("p", bytes(2 * MEMORY_BYTES))
    for event in (small, large, LIFE[0]):
        bus.publish(event) if isinstance(event, Remark) else router.route(event)
    assert of_the_process.wait(3) == [small, large, LIFE[0]]
    assert wanted.events == [small, large]
    assert other.events == []
    assert (size_of(small), size_of(large), size_of(LIFE[1]), size_of(LIFE[0])) == (0, 2 * MEMORY_BYTES, 3, 0)


def test_bus_that_was_dropped_ends_its_thread() -> None:
    """The dispatcher does not keep the bus alive while it waits."""
    router, seen = Router(), Collector()
    router.bus.subscribe(seen)
    live(router)
    seen.wait(5)
    (dispatcher,) = (thread for thread in threading.enumerate() if thread.ident in seen.threads)
    del router
    gc.collect()
    dispatcher.join(WAIT)
    assert not dispatcher.is_alive()


# ---- receivers ---------------------------------------------------------------------------------------------------


def test_receiver_is_an_iterator(router: Router, bus: EventBus) -> None:
    """It ends when the client is closed, after what came before."""
    receiver = receiver_of(bus)
    live(router)
    router.leaving = True
    router.end(LOST)
    assert list(receiver) == LIFE


def test_receiver_chooses_by_process_and_kind(router: Router, bus: EventBus) -> None:
    """As a subscription does."""
    receiver = receiver_of(bus, process_id="p", kind="output")
    live(router)
    assert [next(receiver), next(receiver)] == LIFE[1:3]


def test_receiver_times_out_and_goes_on(router: Router, bus: EventBus) -> None:
    """Silence is a TimeoutError, after which the iterator is as good as before."""
    receiver = receiver_of(bus, timeout=0.01)
    with pytest.raises(TimeoutError):
        next(receiver)
    live(router)
    assert next(receiver) == LIFE[0]
    with pytest.raises(TimeoutError):
        receiver_of(bus).get(timeout=0)


def test_receiver_of_a_lost_connection_raises(router: Router, bus: EventBus) -> None:
    """A loop over events must not take a cut line for the regular end."""
    receiver = receiver_of(bus, kind="output")
    live(router)
    router.end(LOST)
    assert [next(receiver), next(receiver)] == LIFE[1:3]
    with pytest.raises(ClosedError, match="lost"):
        next(receiver)
    with pytest.raises(ClosedError, match="lost"):
        receiver.get()


def test_receiver_waits_and_is_woken(router: Router, bus: EventBus) -> None:
    """By an event as well as by the end."""
    receiver = receiver_of(bus)
    pulling = Background(lambda: next(receiver))
    router.route(LIFE[0])
    assert pulling.result() == LIFE[0]
    pulling = Background(lambda: list(receiver))
    router.leaving = True
    router.end(LOST)
    assert pulling.result() == []


def test_receiver_after_the_end_has_nothing(router: Router, bus: EventBus) -> None:
    """And does not wait for it."""
    router.end(LOST)
    with pytest.raises(ClosedError):
        next(receiver_of(bus))


def test_closed_receiver_has_nothing(router: Router, bus: EventBus) -> None:
    """Whatever came before."""
    with receiver_of(bus) as receiver:
        live(router)
    receiver.close()
    assert list(receiver) == []


# ---- who holds output back ---------------------------------------------------------------------------------------


class Paced:
    """A process ``p`` in a router, whose acknowledgements are recorded."""

    def __init__(self, router: Router) -> None:
        self.acknowledged = 0
        self._router = router
        self._seq = 0
        self._changed = threading.Condition()
        self.state = ProcessState(True, Pacer(self._acknowledge))
        router.add("p", self.state)

    def write(self) -> None:
        """Let a byte of output come."""
        self._seq += 1
        self._router.route(ProcessOutput("p", self._seq, "stdout", b"x"))

    def wait(self, seq: int) -> None:
        """Wait until ``seq`` is acknowledged."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.acknowledged >= seq, WAIT)

    def _acknowledge(self, _: str, seq: int) -> None:
        with self._changed:
            self.acknowledged = seq
            self._changed.notify_all()


def test_receiver_takes_instead_of_the_handle(router: Router, bus: EventBus) -> None:
    """Output is acknowledged as it is pulled, though nobody reads the handle."""
    paced, receiver = Paced(router), receiver_of(bus)
    paced.write()
    assert paced.acknowledged == 0
    next(receiver)
    assert paced.acknowledged == 1


def test_closed_or_dropped_receiver_holds_nothing(router: Router, bus: EventBus) -> None:
    """What it has not pulled counts as taken."""
    paced, closed, dropped = Paced(router), receiver_of(bus), receiver_of(bus)
    paced.write()
    closed.close()
    assert paced.acknowledged == 0
    del dropped
    paced.wait(1)


def test_receiver_is_told_of_what_it_lost(
    router: Router, bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was given up because too much waited holds nothing back; what comes later does again."""
    monkeypatch.setattr("execsrv.client.mailbox.Spool", functools.partial(Spool, 0, 0))
    paced, receiver = Paced(router), receiver_of(bus)
    paced.write()
    assert paced.acknowledged == 0
    with pytest.raises(OutputLost):
        next(receiver)
    assert paced.acknowledged == 1


def test_callbacks_go_on_behind_what_was_lost(
    router: Router, bus: EventBus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and holds nothing back."""
    seen = Collector()
    monkeypatch.setattr("execsrv.client.mailbox.Spool", functools.partial(Spool, 0, 0))
    other = Router()
    other.bus.subscribe(seen)
    paced = Paced(other)
    paced.write()
    paced.wait(1)
    other.end(LOST)
    assert seen.wait(1) == [Disconnected(LOST)]
    assert "callbacks were too slow" in caplog.text


def test_output_counts_as_taken_behind_the_callback(router: Router, bus: EventBus) -> None:
    """Not when the callback begins with it."""
    paced, begun, go_on = Paced(router), threading.Event(), threading.Event()

    def be_slow(event: Event) -> None:
        begun.set()
        assert go_on.wait(WAIT)

    bus.subscribe(be_slow, kind="output")
    paced.write()
    assert begun.wait(WAIT)
    assert paced.acknowledged == 0
    go_on.set()
    paced.wait(1)


def test_handle_takes_when_nobody_else_does(router: Router) -> None:
    """A subscriber of something else does not count."""
    paced, other = Paced(router), Collector()
    router.bus.subscribe(other, process_id="q")
    paced.write()
    assert paced.acknowledged == 0
    paced.state.next_output(Deadline(WAIT))
    assert paced.acknowledged == 1
