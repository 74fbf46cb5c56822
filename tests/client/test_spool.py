"""Tests of execsrv.client.spool."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import pytest
from descriptors import open_descriptors

from execsrv.client.errors import OutputLost
from execsrv.client.spool import ITEM_BYTES, Spool

MakeSpool = Callable[..., Spool[bytes]]


@pytest.fixture
def make_spool() -> Iterator[MakeSpool]:
    """Makes spools that hold ``in_memory`` items of 100 bytes in memory, and closes them."""
    spools: list[Spool[bytes]] = []

    def make(in_memory: int, **limits: int) -> Spool[bytes]:
        spools.append(Spool(in_memory * (100 + ITEM_BYTES), **limits))
        return spools[-1]

    yield make
    for spool in spools:
        spool.close()


def items(start: int, end: int) -> list[bytes]:
    """Items of 100 bytes, each different."""
    return [number.to_bytes(100, "big") for number in range(start, end)]


def put_all(spool: Spool[bytes], all_items: list[bytes]) -> None:
    """Put the items into the spool."""
    for item in all_items:
        spool.put(item, len(item))


def take_all(spool: Spool[bytes]) -> list[bytes]:
    """Take what is there."""
    return [spool.take() for _ in range(len(spool))]


def test_few_items_stay_in_memory(make_spool: MakeSpool) -> None:
    """Without need there is no file."""
    spool, before = make_spool(3), open_descriptors()
    put_all(spool, items(0, 3))
    assert open_descriptors() <= before
    assert take_all(spool) == items(0, 3)


def test_many_items_go_to_disk_in_order(make_spool: MakeSpool) -> None:
    """What does not fit in memory is in a file and comes back in its place."""
    spool, before = make_spool(3), open_descriptors()
    put_all(spool, items(0, 50))
    assert len(open_descriptors() - before) == 1
    assert take_all(spool) == items(0, 50)
    assert open_descriptors() <= before


def test_order_holds_however_puts_and_takes_mix(make_spool: MakeSpool) -> None:
    """Whatever way it goes through memory and both files, nothing is lost or swapped."""
    spool, chance = make_spool(2), random.Random(7)
    waiting, taken = items(0, 500), []
    while waiting or len(spool):
        for item in (waiting.pop(0) for _ in range(min(len(waiting), chance.randrange(6)))):
            spool.put(item, len(item))
        taken += [spool.take() for _ in range(min(len(spool), chance.randrange(5)))]
    assert taken == items(0, 500)


def test_small_items_count_for_what_they_cost(make_spool: MakeSpool) -> None:
    """A flood of single bytes goes to disk too, since each costs much more than a byte."""
    spool, before = make_spool(2), open_descriptors()
    put_all(spool, [b"x"] * 10)
    assert len(open_descriptors() - before) == 1


def test_full_spool_tells_of_the_gap_once(make_spool: MakeSpool) -> None:
    """What is there comes first, then the error, then what was put after that."""
    spool = make_spool(2, disk_bytes=300)
    put_all(spool, items(0, 20))
    kept = [spool.take() for _ in range(4)]
    assert kept == items(0, 4)
    with pytest.raises(OutputLost):
        spool.take()
    put_all(spool, items(30, 31))
    assert take_all(spool) == items(30, 31)


def test_disk_limit_counts_what_waits_not_what_went_through(make_spool: MakeSpool) -> None:
    """A reader that keeps up may let any amount through."""
    spool = make_spool(1, disk_bytes=1000)
    for number in range(100):
        put_all(spool, items(number, number + 1))
        if number >= 4:
            assert spool.take() == items(number - 4, number - 3)[0]
    assert take_all(spool) == items(96, 100)


def test_full_disk_is_a_gap(make_spool: MakeSpool, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file can be made, what does not fit in memory is given up."""
    monkeypatch.setattr("tempfile.tempdir", os.fspath(tmp_path) + "/missing")
    spool = make_spool(2)
    put_all(spool, items(0, 5))
    assert spool.take() == items(0, 1)[0]
    put_all(spool, items(5, 6))
    assert spool.take() == items(1, 2)[0]
    with pytest.raises(OutputLost):
        spool.take()


def test_close_frees_everything(make_spool: MakeSpool) -> None:
    """After ``close`` there is neither content nor a file."""
    spool, before = make_spool(1), open_descriptors()
    put_all(spool, items(0, 10))
    spool.close()
    assert len(spool) == 0
    assert open_descriptors() <= before


def test_empty_spool_has_nothing_to_take(make_spool: MakeSpool) -> None:
    """Taking from an empty one is an IndexError."""
    with pytest.raises(IndexError):
        make_spool(1).take()
