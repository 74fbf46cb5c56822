"""Fixtures of the tests of ``execsrv run``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from run_program import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests."""
    server = Server()
    yield server
    server.end()


@pytest.fixture(params=["local", "url"])
def to(request: pytest.FixtureRequest) -> list[str]:
    """Options that choose the server: none for one of its own."""
    return ["--url", request.getfixturevalue("server").url] if request.param == "url" else []
