"""Targets are judged as they are meant, and the report shows the figures that were measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from . import report
from .growth import CURVES
from .rounds import FAMILIES
from .rows import Curve, Results, Row, codex, compared, exactly, floor, high, low

README = Path(__file__).parents[2] / "README.md"


def one_round(**figures: float) -> Results:
    """The results of the row ``x``, by server."""
    return {"x": {name: {0: figure} for name, figure in figures.items()}}


@pytest.mark.parametrize(
    ("row", "figures", "is_met"),
    [
        (low("x", "", "ms", 4), {"execsrv": 4}, True),
        (low("x", "", "ms", 4), {"execsrv": 4.1}, False),
        (high("x", "", "1/s", 4), {"execsrv": 4}, True),
        (high("x", "", "1/s", 4), {"execsrv": 3.9}, False),
        (low("x", "", "ms", codex(1 / 8)), {"execsrv": 1, "Codex": 8}, True),
        (low("x", "", "ms", codex(1 / 8)), {"execsrv": 1, "Codex": 7}, False),
        (high("x", "", "1/s", codex(6)), {"execsrv": 60, "Codex": 10}, True),
        (high("x", "", "1/s", codex(6)), {"execsrv": 59, "Codex": 10}, False),
        (low("x", "", "ms", codex(1), floor(2)), {"execsrv": 2, "Codex": 3, "floor": 1}, True),
        (low("x", "", "ms", codex(1), floor(2)), {"execsrv": 2, "Codex": 3, "floor": 0.9}, False),
        (low("x", "", "ms", codex(1), floor(2)), {"execsrv": 2, "floor": 1}, True),
        (low("x", "", "ms", codex(1)), {"execsrv": 2, "floor": 1}, None),
        (low("x", "", "ms"), {"execsrv": 2}, None),
        (low("x", "", "ms", 4), {"floor": 2}, None),
        (exactly(1000, "x", ""), {"execsrv": 1000, "Codex": 249}, True),
        (exactly(1000, "x", ""), {"execsrv": 999}, False),
    ],
)
def test_a_row_is_met_when_every_target_is_that_can_be_judged(
    row: Row, figures: dict[str, float], is_met: bool | None
) -> None:
    """A server that was not measured judges nothing."""
    assert row.is_met(one_round(**figures)) is is_met


@pytest.mark.parametrize(
    ("row", "figures", "is_gross"),
    [
        (low("x", "", "ms", floor(2)), {"execsrv": 6, "floor": 1}, False),
        (low("x", "", "ms", floor(2)), {"execsrv": 6.1, "floor": 1}, True),
        (high("x", "", "MB/s", floor(0.75)), {"execsrv": 25, "floor": 100}, False),
        (high("x", "", "MB/s", floor(0.75)), {"execsrv": 24, "floor": 100}, True),
        (low("x", "", "ms", 4), {"execsrv": 100}, False),
        (low("x", "", "ms", 4, floor(2)), {"execsrv": 100, "floor": 90}, False),
        (exactly(0, "x", ""), {"execsrv": 1}, True),
        (exactly(0, "x", ""), {"execsrv": 0}, False),
    ],
)
def test_only_counts_and_comparisons_are_grossly_missed(row: Row, figures: dict[str, float], is_gross: bool) -> None:
    """A slow machine alone is no fault."""
    assert row.is_gross(one_round(**figures)) is is_gross


def test_a_ratio_is_the_median_of_the_rounds_that_both_were_measured_in() -> None:
    """Not the ratio of the medians, and not one with a round in which the other failed."""
    results = {"x": {"execsrv": {0: 10.0, 1: 40.0, 2: 30.0, 3: 1.0}, "floor": {0: 10.0, 1: 10.0, 2: 10.0}}}
    assert compared(results, "x", "floor") == 3
    assert compared(results, "x", None) == 20
    assert compared(results, "x", "Codex") is None


def test_one_wrong_count_in_any_round_is_not_met() -> None:
    """Not even if the median is right."""
    assert exactly(0, "x", "").is_met({"x": {"execsrv": {0: 0, 1: 7, 2: 0}}}) is False


def test_a_line_shows_medians_ratios_target_and_verdict() -> None:
    """In the order of the head; what was not measured is left out or empty."""
    rows = [low("x", "work", "ms", codex(1 / 8), floor(2)), low("y", "other work", "ms", 1)]
    results = {"x": {"execsrv": {0: 1.5, 1: 2.5, 2: 2.0}, "floor": {0: 1.0, 1: 1.0, 2: 1.0}}}
    head, _, line = report.rows_table(rows, results, ["execsrv", "floor", "Codex"]).splitlines()
    assert head == "| work | unit | execsrv | floor | Codex | ÷ floor | ÷ Codex | to reach | reached |"
    assert line == "| work | ms | 2 | 1 |  | 2 |  | ≤ 1/8 × Codex, ≤ 2 × floor | yes |"


def test_a_missed_target_catches_the_eye() -> None:
    """It is bold."""
    table = report.rows_table([high("x", "work", "1/s", 5000)], one_round(execsrv=1234.5), ["execsrv"])
    assert table.splitlines()[-1] == "| work | 1/s | 1,234 | ≥ 5000 | **no** |"


def test_a_curve_shows_its_points_and_how_it_grows() -> None:
    """One line a server, one table for what is counted."""
    curve = Curve("memory", "KiB", "things", (10, 1000))
    results: Results = {
        curve.key(10): {"execsrv": {0: 40.0}, "floor": {0: 2.0}},
        curve.key(1000): {"execsrv": {0: 88.0, 1: 44.0, 2: 4.0}},
    }
    head, _, ours, floors = report.curves_table([curve], results, ["execsrv", "floor"]).splitlines()
    assert head == "| cost | unit | server | 10 things | 1,000 things | last ÷ first |"
    assert ours == "| memory | KiB | execsrv | 40 | 44 | 1.1 |"
    assert floors == "| memory | KiB | floor | 2 |  |  |"


def test_a_report_takes_the_place_of_the_one_before() -> None:
    """All around it stays, whatever it holds."""
    text = f"before\n{report.BEGIN}\nold\n{report.END}\nafter \\1\n"
    assert report.put_into(text, r"new \1") == f"before\n{report.BEGIN}\nnew \\1\n{report.END}\nafter \\1\n"


def test_the_readme_has_a_place_for_the_report() -> None:
    """Exactly one."""
    assert len(re.findall(f"{re.escape(report.BEGIN)}.*?{re.escape(report.END)}", README.read_text(), re.DOTALL)) == 1


def test_no_two_figures_share_a_name() -> None:
    """Neither in the results nor in the report."""
    rows = [row for family in FAMILIES for row in family.rows]
    keys = [row.key for row in rows] + [curve.key(count) for curve in CURVES for count in curve.counts]
    assert len(keys) == len(set(keys))
    assert len(rows) == len({row.title for row in rows})
