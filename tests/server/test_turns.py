"""Turns: one after the other, in the order of asking."""

from __future__ import annotations

import gevent

from execsrv.server.turns import Turns


class Gate:
    """Opened and closed by the test."""

    def __init__(self) -> None:
        self.is_open = True

    def __call__(self) -> bool:
        return self.is_open


def take(turns: Turns, name: str, order: list[str]) -> gevent.Greenlet[..., None]:
    """A greenlet that takes a turn and notes that it had it."""

    def run() -> None:
        with turns:
            order.append(name)

    return gevent.spawn(run)


def test_a_free_turn_needs_no_switch() -> None:
    """Nobody else runs between asking and having."""
    others: list[str] = []
    gevent.spawn(others.append, "ran")
    with Turns(Gate()):
        assert others == []


def test_turns_come_in_the_order_of_asking() -> None:
    """Also for one that asks when another was given the turn and has not run yet."""
    gate, order = Gate(), list[str]()
    turns = Turns(gate)
    gate.is_open = False
    greenlets = [take(turns, "a", order)]
    gevent.idle()
    gate.is_open = True
    turns.pass_on()
    greenlets += [take(turns, name, order) for name in "bc"]
    gevent.joinall(greenlets, timeout=10, raise_error=True)
    assert order == ["a", "b", "c"]


def test_nobody_has_a_turn_while_it_is_not_free() -> None:
    """Until somebody says that it may be."""
    gate, order = Gate(), list[str]()
    turns = Turns(gate)
    gate.is_open = False
    greenlets = [take(turns, name, order) for name in "ab"]
    gevent.idle()
    turns.pass_on()
    gevent.idle()
    assert order == []
    gate.is_open = True
    turns.pass_on()
    gevent.joinall(greenlets, timeout=10, raise_error=True)
    assert order == ["a", "b"]


def test_one_that_is_killed_while_it_waits_leaves_the_queue() -> None:
    """The next one has its turn."""
    gate, order = Gate(), list[str]()
    turns = Turns(gate)
    gate.is_open = False
    first, second = take(turns, "a", order), take(turns, "b", order)
    gevent.idle()
    first.kill()
    gate.is_open = True
    turns.pass_on()
    second.join(timeout=10)
    assert order == ["b"]
