"""What waits to be sent to one peer: answers first, output in fair turns, both bounded."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager

from execsrv.config import KIB, MIB
from execsrv.jsonrpc import Encoded
from execsrv.server.condition import Condition
from execsrv.server.turns import Turns

#: Output that may wait; above it the pumps wait, and so do their children.
MAX_OUTPUT_BYTES = 128 * KIB

#: Answers that may wait; above it no further request is taken up.
MAX_ANSWER_BYTES = 8 * MIB

#: Small messages are handed to the transport together, up to this size. Less than MAX_ANSWER_BYTES: what waits to be a
#: batch must not be what a reader waits for.
BATCH_BYTES = 64 * KIB

#: Answers that are worth being sent together, however small.
BATCH_ANSWERS = 16


class Outbox:
    """Two queues of what is to be sent. Putting wakes nobody, so that several messages can leave together.

    An answer overtakes the output that waits, unless it is ``ordered``. Whoever takes messages says when they are
    ``sent``; until then none are given to anybody else.
    """

    def __init__(self) -> None:
        self._answers: deque[Encoded] = deque()
        self._in_order: deque[tuple[Encoded, bool]] = deque()
        self._answer_bytes = 0
        self._output_bytes = 0
        self._sending: list[tuple[Encoded, bool]] = []
        self._closed = False
        self._called = Condition()
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
        """Are there so many answers, or with those being sent so many bytes of them, that they should go now?"""
        return len(self._answers) >= BATCH_ANSWERS or self._answer_bytes >= BATCH_BYTES

    def turn(self) -> AbstractContextManager[None]:
        """Wait for room for output, first come first served; within the block it is there."""
        return self._turns

    def wait_for_answer_room(self) -> None:
        """Wait until fewer than MAX_ANSWER_BYTES of answers wait."""
        while self._answer_bytes >= MAX_ANSWER_BYTES and not self._closed:
            self._answer_room.wait()

    def put_output(self, message: Encoded) -> None:
        """Queue a notification; never waits."""
        if not self._closed:
            self._output_bytes += message.size
            self._in_order.append((message, False))

    def put_answer(self, message: Encoded, ordered: bool = False) -> None:
        """Queue an answer, behind all output when ``ordered``; never waits."""
        if self._closed:
            return
        self._answer_bytes += message.size
        if ordered:
            self._in_order.append((message, True))
        else:
            self._answers.append(message)

    def take(self) -> list[Encoded]:
        """Take the next messages to send, in order; none while some are being sent."""
        if self._sending:
            return []
        size = 0
        while size < BATCH_BYTES and (self._answers or self._in_order):
            entry = (self._answers.popleft(), True) if self._answers else self._in_order.popleft()
            self._sending.append(entry)
            size += entry[0].size
        return [message for message, _ in self._sending]

    def sent(self) -> None:
        """Count what was taken as sent, which makes room."""
        for message, is_answer in self._sending:
            if is_answer:
                self._answer_bytes -= message.size
            else:
                self._output_bytes -= message.size
        self._sending.clear()
        self._turns.pass_on()
        if self._answer_bytes < MAX_ANSWER_BYTES:
            self._answer_room.notify_all()

    def wait_for_call(self) -> bool:
        """Wait until something is left to send and ``call_sender`` told so; at once if something is left already.

        False: it is closed, and everything is sent.
        """
        while self.is_idle and not self._closed:
            self._called.wait()
        return not self.is_idle

    def call_sender(self) -> None:
        """Wake the sending greenlet: something is to be sent, perhaps with waiting."""
        self._called.notify()

    def close(self, discard: bool) -> None:
        """Take nothing more, and wake who waits; ``discard`` also what has not been sent."""
        self._closed = True
        if discard:
            self._answers.clear()
            self._in_order.clear()
        self._called.notify_all()
        self._turns.pass_on()
        self._answer_room.notify_all()

    def _has_output_room(self) -> bool:
        return self._output_bytes < MAX_OUTPUT_BYTES or self._closed
