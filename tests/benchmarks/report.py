"""Results as Markdown."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from statistics import median

from .rows import OURS, Curve, Results, Row, compared, figures_of

#: The lines of the README between which the report stands.
BEGIN = "<!-- benchmarks: begin (made by `python -m tests.benchmarks --readme`) -->"
END = "<!-- benchmarks: end -->"

_VERDICTS = {True: "yes", False: "**no**", None: ""}


def rows_table(rows: Sequence[Row], results: Results, names: Sequence[str]) -> str:
    """A line for each row that was measured: the servers' medians, our ratio to each other one, the target."""
    others = [name for name in names if name != OURS]
    lines = [["work", "unit", OURS, *others, *(f"÷ {name}" for name in others), "to reach", "reached"]]
    for row in rows:
        if row.key in results:
            medians = [_number(_median(results, row.key, name)) for name in (OURS, *others)]
            ratios = ["" if row.count is not None else _number(compared(results, row.key, name)) for name in others]
            lines.append([row.title, row.unit, *medians, *ratios, row.wanted, _VERDICTS[row.is_met(results)]])
    return _table(lines)


def curves_table(curves: Sequence[Curve], results: Results, names: Sequence[str]) -> str:
    """For each thing that is counted a table with a line for each cost and server, and the last point by the first."""
    return "\n".join(
        _curve_table([curve for curve in curves if curve.what == what], results, names)
        for what in dict.fromkeys(curve.what for curve in curves if curve.key(curve.counts[0]) in results)
    )


def _curve_table(curves: Sequence[Curve], results: Results, names: Sequence[str]) -> str:
    counts = curves[0].counts
    lines = [["cost", "unit", "server", *(f"{count:,} {curves[0].what}" for count in counts), "last ÷ first"]]
    for curve in curves:
        for name in names:
            points = [_median(results, curve.key(count), name) for count in counts]
            if points[0]:
                growth = points[-1] / points[0] if points[-1] is not None else None
                lines.append([curve.title, curve.unit, name, *map(_number, points), _number(growth)])
    return _table(lines)


def circumstances(rounds: int, load: float, codex: str | None) -> str:
    """When and where it was measured, in a sentence.

    load: the load average before, which ought to be near 0.
    codex: the path of its program.
    """
    where = f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    version = f", {_version(codex)}" if codex else ""
    how = f"load before {load:.1f}, rounds {rounds}, medians"
    return f"Measured on {time.strftime('%Y-%m-%d')}: {where}{version}; {how}.\n"


def put_into(text: str, report: str) -> str:
    """``text`` with the report between its markers, in place of an older one."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n{report}\n{END}", text)


def _version(codex: str) -> str:
    return subprocess.run([codex, "--version"], capture_output=True, text=True, timeout=20).stdout.strip()


def _median(results: Results, key: str, name: str) -> float | None:
    figures = figures_of(results, key, name)
    return median(figures.values()) if figures else None


def _number(figure: float | None) -> str:
    """Three digits of it, or all that stand before the point."""
    if figure is None:
        return ""
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def _table(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = lines
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rest))
