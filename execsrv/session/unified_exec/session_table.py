"""The commands that a model may still ask about, by session id: a bounded number of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from execsrv.session.unified_exec.command_session import CommandSession
from execsrv.session.unified_exec.errors import UnknownSession

#: How many commands there are at most, and from how many on the model is warned.
MAX_SESSIONS = 64
WARN_SESSIONS = 60

#: How many of those that were used last are never given up for a new one.
PROTECTED_SESSIONS = 8

#: Session ids: all are as long for a model, and none is taken for an exit code.
IDS = range(1000, 100_000)

#: Ids that are not given out again; when there are so many, those of former commands are free once more.
MAX_USED_IDS = len(IDS) // 2


class SessionTable:
    """Commands from their start until their end is reported, the least recently used first. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[int, CommandSession] = {}
        self._used_ids: set[int] = set()

    def new_id(self) -> int:
        """A session id that stands for no other command, nor did so for a long time."""
        with self._lock:
            if len(self._used_ids) >= MAX_USED_IDS:
                self._used_ids = set(self._sessions)
            session_id = random.choice(IDS)
            while session_id in self._used_ids:
                session_id = random.choice(IDS)
            self._used_ids.add(session_id)
            return session_id

    def add(self, session: CommandSession) -> CommandSession | None:
        """Enter a command. When there are too many, another one is removed and returned: it is to be ended."""
        with self._lock:
            pruned = None
            if len(self._sessions) >= MAX_SESSIONS:
                pruned = choose_to_prune(list(self._sessions.values()))
                del self._sessions[pruned.session_id]
            self._sessions[session.session_id] = session
            return pruned

    def use(self, session_id: int) -> CommandSession:
        """The command with this id, which is used now. Raises UnknownSession."""
        with self._lock:
            session = self._sessions.pop(session_id, None)
            if session is None:
                raise UnknownSession(session_id)
            self._sessions[session_id] = session
            return session

    def remove(self, session: CommandSession) -> None:
        """Forget a command. Twice is harmless."""
        with self._lock:
            self._sessions.pop(session.session_id, None)

    def __len__(self) -> int:
        return len(self._sessions)


def choose_to_prune(sessions: Sequence[CommandSession]) -> CommandSession:
    """The one of ``sessions``, least recently used first, that is missed least: the first that has ended, or the first.

    Those that were used last are spared, so there must be more.
    """
    candidates = sessions[:-PROTECTED_SESSIONS]
    return next((session for session in candidates if session.ended), candidates[0])
