"""Rounds of measurements on several servers, in turn, so that what else the machine does hits all of them alike."""

from __future__ import annotations

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from . import asking, files, flows, growth, latency, library, memory, starting
from .bench import Bench, Family, Samples, workspace
from .receiver import PeerError
from .rows import OURS, Results
from .servers import Spec

FAMILIES = [module.FAMILY for module in (starting, latency, flows, asking, files, memory, library, growth)]


class Failure(NamedTuple):
    """A measurement that came to nothing."""

    server: str
    words: str


def measure(
    specs: Sequence[Spec], families: Sequence[Family], rounds: int, is_quick: bool = False
) -> tuple[Results, list[Failure]]:
    """Measure each family on each server, on a fresh one in every round; progress goes to stderr."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # for a thousand connections
    results: defaultdict[str, defaultdict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    failures: list[Failure] = []
    with workspace() as place:
        for number, family, spec in _order(specs, families, rounds):
            try:
                samples = _measure_one(family, Bench(spec, place, is_quick))
            except (PeerError, OSError) as error:
                failures.append(Failure(spec.name, f"{family.name}, round {number + 1}: {error!r}"))
                continue
            for key, figure in samples.items():
                results[key][spec.name][number] = figure
    return results, failures


def _order(specs: Sequence[Spec], families: Sequence[Family], rounds: int) -> list[tuple[int, Family, Spec]]:
    """The servers take turns within a family, and in being the first."""
    return [
        (number, family, spec)
        for number in range(rounds)
        for family in families
        for spec in [*specs[number % len(specs) :], *specs[: number % len(specs)]]
        if spec.name == OURS or not family.is_ours
    ]


def _measure_one(family: Family, bench: Bench) -> Samples:
    begun = time.perf_counter()
    try:
        return family.measure(bench)
    finally:
        print(f"{family.name}, {bench.spec.name}: {time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True)
