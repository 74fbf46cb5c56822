"""Text that can be shown to a model."""

from __future__ import annotations

import pytest

from execsrv.session.tools.text import LONGEST_SHOWN, shown, well_formed


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ""),
        ("plain \t text", "plain \t text"),
        ("a" * 500, "a" * 500),
        ("a" * 501, "a" * 500),
        ("é" * 251, "é" * 250),
        ("a" + "é" * 250, "a" + "é" * 249),
        ("aa" + "\N{GRINNING FACE}" * 125, "aa" + "\N{GRINNING FACE}" * 124),
        ("\udcff" * 200, "\ufffd" * 166),
    ],
)
def test_text_is_cut_where_a_character_ends(text: str, expected: str) -> None:
    """At 500 bytes of UTF-8, a replaced surrogate being three."""
    assert shown(text) == expected
    assert len(shown(text).encode()) <= LONGEST_SHOWN


def test_lone_surrogates_are_replaced() -> None:
    """Those of names that are not UTF-8, and those that a message may hold."""
    assert well_formed("a\udcff\ud800b") == "a\ufffd\ufffdb"
