"""Measure, and print a report in Markdown."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from . import growth, report, rounds, servers

README = Path(__file__).parents[2] / "README.md"


def main() -> int:
    """Do what the command line asks for; 1 if something failed, whether or not targets were reached."""
    arguments, load = _parse(), os.getloadavg()[0]
    families = [family for family in rounds.FAMILIES if family.name in (arguments.families or _names())]
    with tempfile.TemporaryDirectory(prefix="execsrv-benchmarks-") as home:
        specs = servers.specs(home)
        results, failures = rounds.measure(specs, families, arguments.rounds, arguments.quick)
    names = [spec.name for spec in specs]
    rows = [row for family in families for row in family.rows]
    text = "\n".join(
        [
            report.circumstances(arguments.rounds, load, os.environ.get("CODEX_BIN")),
            report.rows_table(rows, results, names),
            report.curves_table(growth.CURVES, results, names),
        ]
    )
    print(text)
    if arguments.readme:
        README.write_text(report.put_into(README.read_text(encoding="utf-8"), text), encoding="utf-8")
    for failure in failures:
        print(f"failed on {failure.server}: {failure.words}", file=sys.stderr)
    return bool(failures)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure execsrv beside a floor and, if the variable CODEX_BIN names its program, beside Codex.",
    )
    known = _names()
    parser.add_argument(
        "families", nargs="*", metavar="FAMILY", choices=[[], *known], help=f"some of {', '.join(known)} (all)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="measure roughly")
    parser.add_argument("--readme", action="store_true", help="put the report into the README")
    return parser.parse_args()


def _names() -> list[str]:
    return [family.name for family in rounds.FAMILIES]


if __name__ == "__main__":
    sys.exit(main())
