"""Runs functions on a thread of their own: within a time limit, without root's rights, or with other mounts."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

T = TypeVar("T")

TIMEOUT = 30
NOBODY = 65534

_CLONE_NEWNS = 0x00020000  # <sched.h>
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18  # <sys/mount.h>
_libc = ctypes.CDLL(None, use_errno=True)


def in_time(function: Callable[[], T]) -> T:
    """What ``function`` returns or raises; fails when that takes longer than TIMEOUT seconds."""
    outcome: list[Callable[[], T]] = []

    def run() -> None:
        try:
            result = function()
        except BaseException as error:
            fault = error
            outcome.append(lambda: _raise(fault))
        else:
            outcome.append(lambda: result)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    assert outcome, f"not finished after {TIMEOUT} s"
    return outcome[0]()


def unprivileged(function: Callable[[], T]) -> T:
    """As ``in_time``; for root the thread's file accesses are those of nobody (setfsuid(2))."""

    def run() -> T:
        if os.geteuid() == 0:
            _libc.setfsgid(NOBODY)
            _libc.setfsuid(NOBODY)
        return function()

    return in_time(run)


def with_bind_mount(source: Path, target: Path, function: Callable[[], T]) -> T:
    """As ``in_time``, while ``source`` is mounted on ``target`` for the thread alone; skips where we may not."""

    def run() -> T:
        if _libc.unshare(_CLONE_NEWNS) != 0:
            pytest.skip("may not unshare the mount namespace")
        _mount(None, b"/", _MS_REC | _MS_PRIVATE)
        _mount(os.fsencode(source), os.fsencode(target), _MS_BIND)
        return function()

    return in_time(run)


def _mount(source: bytes | None, target: bytes, flags: int) -> None:
    if _libc.mount(source, target, None, flags, None) != 0:
        pytest.skip(f"may not mount: {os.strerror(ctypes.get_errno())}")


def _raise(error: BaseException) -> NoReturn:
    raise error
