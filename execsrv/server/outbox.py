"""What waits to be sent to one peer: answers first, output in fair turns, both bounded."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager

from execsrv.config import KIB, MIB
from execsrv.server.condition import Condition
from execsrv.server.turns import Turns

#: Output that may wait; above it the pumps wait, and so do their children.
MAX_OUTPUT_BYTES = 128 * KIB

#: Answers that may wait; above it no further request is taken up.
MAX_ANSWER_BYTES = 8 * MIB

#: Small messages are handed to the transport together, up to this size.
BATCH_BYTES = 64 * KIB

#: Answers that are worth being sent together.
BATCH_ANSWERS = 16


class Outbox:
    """Two queues between a connection's greenlets and the one that sends.

    An answer overtakes the output that waits, unless it is ``ordered``.
    """

    def __init__(self) -> None:
        self._answers: deque[bytes] = deque()
        self._in_order: deque[tuple[bytes, bool]] = deque()
        self._answer_bytes = 0
        self._output_bytes = 0
        self._sending: list[tuple[bytes, bool]] = []
        self._closed = False
        self._filled = Condition()
        self._turns = Turns(self._has_output_room)
        self._answer_room = Condition()

    @property
    def is_idle(self) -> bool:
        """Is everything sent?"""
        return not (self._answers or self._in_order or self._sending)

    @property
    def is_closed(self) -> bool:
        """Is nothing taken any more?"""
        return self._closed

    @property
    def has_batch(self) -> bool:
        """Do so many answers wait that it is time to send them?"""
        return len(self._answers) >= BATCH_ANSWERS

    def turn(self) -> AbstractContextManager[None]:
        """Wait for room for output, first come first served; within the block it is there."""
        return self._turns.take()

    def wait_for_answer_room(self) -> None:
        """Wait until fewer than MAX_ANSWER_BYTES of answers wait."""
        while self._answer_bytes >= MAX_ANSWER_BYTES and not self._closed:
            self._answer_room.wait()

    def put_output(self, message: bytes) -> None:
        """Queue a notification; never waits."""
        self._output_bytes += len(message)
        self._put(self._in_order, (message, False))

    def put_answer(self, message: bytes, ordered: bool = False) -> None:
        """Queue an answer, behind all output when ``ordered``; never waits."""
        self._answer_bytes += len(message)
        if ordered:
            self._put(self._in_order, (message, True))
        else:
            self._put(self._answers, message)

    def take(self) -> list[bytes]:
        """Wait for messages and take the next ones to send; what was taken before counts as sent.

        An empty list: the outbox was closed and everything is sent.
        """
        self._count_as_sent()
        while self.is_idle and not self._closed:
            self._filled.wait()
        size = 0
        while size < BATCH_BYTES and (self._answers or self._in_order):
            entry = (self._answers.popleft(), True) if self._answers else self._in_order.popleft()
            self._sending.append(entry)
            size += len(entry[0])
        return [message for message, _ in self._sending]

    def close(self, discard: bool) -> None:
        """Take nothing more, and wake who waits; ``discard`` also what has not been sent."""
        self._closed = True
        if discard:
            self._answers.clear()
            self._in_order.clear()
        self._filled.notify_all()
        self._turns.pass_on()
        self._answer_room.notify_all()

    def _put(self, queue: deque, entry: object) -> None:  # type: ignore[type-arg]
        if not self._closed:
            queue.append(entry)
            self._filled.notify()

    def _count_as_sent(self) -> None:
        for message, is_answer in self._sending:
            if is_answer:
                self._answer_bytes -= len(message)
            else:
                self._output_bytes -= len(message)
        self._sending.clear()
        self._turns.pass_on()
        if self._answer_bytes < MAX_ANSWER_BYTES:
            self._answer_room.notify_all()

    def _has_output_room(self) -> bool:
        return self._output_bytes < MAX_OUTPUT_BYTES or self._closed
