"""Tests of execsrv.session.paths."""

from __future__ import annotations

import os

import pytest

from execsrv.session.paths import check_paths


def test_an_absolute_path_is_one() -> None:
    """Whatever bytes its names have."""
    check_paths("/", "/a/../b/", "/ü", os.fsdecode(b"/caf\xe9"))


@pytest.mark.parametrize("path", ["", "file", "./file", "file:///file", "~", "/nul\0", "/\ud800"])
def test_everything_else_is_none(path: str) -> None:
    """Even when it is one of many."""
    with pytest.raises(ValueError):
        check_paths("/fine", path)
