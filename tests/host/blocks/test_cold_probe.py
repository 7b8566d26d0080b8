"""The probe of a cold volume, on a plain file: which blocks it reads, and what is kept of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from host_bench import BLOCK, RUN_ID
from peaker_host.blocks import timed_reads
from peaker_host.blocks.timed_reads import ColdProbe
from peaker_host.machine.settings import Settings


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    path.write_bytes(bytes(40 * BLOCK))
    return path


def test_it_reads_a_few_of_the_blocks_given(image: Path) -> None:
    found = timed_reads.probe(str(image), 40 * BLOCK, [(30, 10), (2, 4)], random.Random(3))
    assert found is not None
    assert len(set(found.blocks)) == timed_reads.BLOCKS
    assert set(found.blocks) <= {2, 3, 4, 5, *range(30, 40)}
    assert found.await_ms > 0


def test_fewer_blocks_than_wanted_are_all_read_and_none_is_nothing(image: Path) -> None:
    found = timed_reads.probe(str(image), 40 * BLOCK, [(7, 2)], random.Random(3))
    assert found is not None
    assert sorted(found.blocks) == [7, 8]
    assert timed_reads.probe(str(image), 40 * BLOCK, [], random.Random(3)) is None


def test_what_was_measured_is_kept_with_the_run(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path))
    assert timed_reads.kept(settings, RUN_ID) == {}
    probes = {"vol-1": ColdProbe([3, 9], 31.25, 28.5, 0.75), "vol-2": ColdProbe([4], 31.25)}
    timed_reads.keep(settings, RUN_ID, probes)
    assert timed_reads.kept(settings, RUN_ID) == probes
    assert timed_reads.kept(settings, "another-run") == {}


def probed(
    monkeypatch: pytest.MonkeyPatch,
    fetched_bytes: int,
    slow: frozenset[int] = frozenset(),
    fetch_ms: float = 30.0,
) -> ColdProbe:
    """Of a volume where a read of a cold page fetches so much around it; reads of these numbers take long besides."""
    fetched: set[int] = set()

    def latencies(_path: str, offsets: list[int]) -> list[float]:
        taken = []
        for number, offset in enumerate(offsets):
            known = offset // fetched_bytes in fetched
            taken.append(30.0 if number in slow else 0.8 if known else fetch_ms)
            fetched.add(offset // fetched_bytes)
        return taken

    monkeypatch.setattr(timed_reads, "read_latencies_ms", latencies)
    found = timed_reads.probe("/dev/sdf", 4000 * BLOCK, [(0, 4000)], random.Random(3))
    assert found is not None
    return found


def test_where_a_page_brings_its_block_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = probed(monkeypatch, BLOCK)
    assert (found.await_ms, found.first_ms, found.within_ms) == (30.0, 30.0, 0.8)
    assert found.brings_blocks


@pytest.mark.parametrize("fetched_bytes", [16 * 1024, 128 * 1024, 256 * 1024])
def test_where_it_brings_less_it_is_seen_too(monkeypatch: pytest.MonkeyPatch, fetched_bytes: int) -> None:
    assert not probed(monkeypatch, fetched_bytes).brings_blocks


def test_a_few_reads_that_the_machine_held_up_are_not_taken_for_fetches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert probed(monkeypatch, BLOCK, frozenset({1, 6, 11})).brings_blocks
    assert not probed(monkeypatch, BLOCK, frozenset({1, 6, 11, 13})).brings_blocks


def test_a_warm_volume_s_first_reads_that_the_machine_held_up_are_no_fetches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not probed(monkeypatch, BLOCK, frozenset({0, 4, 8}), fetch_ms=0.8).brings_blocks


@pytest.mark.parametrize(("fetch_ms", "brings"), [(2.7, False), (3.1, False), (3.3, True)])
def test_a_fetch_takes_four_times_as_long_as_a_warm_read_and_two_milliseconds_more(
    monkeypatch: pytest.MonkeyPatch, fetch_ms: float, brings: bool
) -> None:
    assert probed(monkeypatch, BLOCK, fetch_ms=fetch_ms).brings_blocks is brings
