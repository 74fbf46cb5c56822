"""What is measured, and what is to be reached: the lines of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeAlias

#: The figures of each row, by its key, the server's name and the round.
Results: TypeAlias = Mapping[str, Mapping[str, Mapping[int, float]]]

OURS = "execsrv"

#: A figure so many times worse than its target is grossly missed, which no noise explains.
GROSS = 3


@dataclass(frozen=True)
class Target:
    """Where a row has to be: at ``factor`` times the figure of the server ``of``, or at ``factor`` itself."""

    factor: float
    of: str | None = None

    def __str__(self) -> str:
        if not self.of:
            return f"{self.factor:g}"
        part = 1 / self.factor
        return f"{f'1/{part:.0f}' if part > 1 and abs(part - round(part)) < 1e-9 else f'{self.factor:g}'} × {self.of}"


@dataclass(frozen=True)
class Row:
    """One figure.

    key: its name in the results.
    title, unit: for people.
    more_is_better: or less is.
    targets: what is to be reached, all of them.
    count: what it has to be exactly, if it is a count.
    """

    key: str
    title: str
    unit: str
    more_is_better: bool = False
    targets: tuple[Target, ...] = ()
    count: int | None = None

    @property
    def wanted(self) -> str:
        """The targets in words."""
        if self.count is not None:
            return str(self.count)
        sign = "≥" if self.more_is_better else "≤"
        return ", ".join(f"{sign} {target}" for target in self.targets)

    def is_met(self, results: Results, leniency: float = 1) -> bool | None:
        """Does ours reach every target of which enough was measured? None: there is none.

        leniency: how many times worse than the target is good enough.
        """
        if self.count is not None:
            figures = figures_of(results, self.key, OURS)
            return all(figure == self.count for figure in figures.values()) if figures else None
        verdicts = [
            self._reaches(figure, target.factor, leniency)
            for target in self.targets
            if (figure := compared(results, self.key, target.of)) is not None
        ]
        return all(verdicts) if verdicts else None

    def is_gross(self, results: Results) -> bool:
        """Is a count wrong, or a target that looks at another server grossly missed?"""
        strict = replace(self, targets=tuple(target for target in self.targets if target.of))
        return strict.is_met(results, GROSS) is False

    def _reaches(self, figure: float, target: float, leniency: float) -> bool:
        return figure >= target / leniency if self.more_is_better else figure <= target * leniency


def figures_of(results: Results, key: str, server: str) -> Mapping[int, float]:
    """The figures of a row and a server by round; empty if it was not measured."""
    return results.get(key, {}).get(server, {})


def compared(results: Results, key: str, other: str | None) -> float | None:
    """Our figure divided by the other server's, or just ours: the median of the rounds. None: not measured."""
    ours = figures_of(results, key, OURS)
    theirs = figures_of(results, key, other) if other else dict.fromkeys(ours, 1.0)
    ratios = [figure / theirs[number] for number, figure in ours.items() if theirs.get(number)]
    return median(ratios) if ratios else None


def floor(factor: float) -> Target:
    """So many times the floor's figure."""
    return Target(factor, "floor")


def codex(factor: float) -> Target:
    """So many times Codex's figure."""
    return Target(factor, "Codex")


def low(key: str, title: str, unit: str, *targets: Target | float) -> Row:
    """A row of which less is better."""
    return Row(key, title, unit, False, _targets(targets))


def high(key: str, title: str, unit: str, *targets: Target | float) -> Row:
    """A row of which more is better."""
    return Row(key, title, unit, True, _targets(targets))


def exactly(count: int, key: str, title: str) -> Row:
    """A row that has to be this number."""
    return Row(key, title, "", count=count)


def _targets(targets: tuple[Target | float, ...]) -> tuple[Target, ...]:
    return tuple(target if isinstance(target, Target) else Target(target) for target in targets)


@dataclass(frozen=True)
class Curve:
    """A cost for several counts of something; each point is that of the last ones, which came after the point before.

    title, unit: of the cost.
    what: is counted.
    """

    title: str
    unit: str
    what: str
    counts: tuple[int, ...]

    def key(self, count: int) -> str:
        """The name of a point in the results."""
        return f"{self.title}, {count} {self.what}"
