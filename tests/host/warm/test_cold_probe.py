"""The probe of a cold volume, on a plain file: which blocks it reads, and what is kept of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from host_bench import BLOCK, RUN_ID
from peaker_host.machine.settings import Settings
from peaker_host.warm import cold_probe
from peaker_host.warm.cold_probe import ColdProbe


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    path.write_bytes(bytes(40 * BLOCK))
    return path


def test_it_reads_a_few_of_the_blocks_given(image: Path) -> None:
    found = cold_probe.probe(str(image), 40 * BLOCK, [(30, 10), (2, 4)], random.Random(3))
    assert found is not None
    assert len(set(found.blocks)) == cold_probe.BLOCKS
    assert set(found.blocks) <= {2, 3, 4, 5, *range(30, 40)}
    assert found.await_ms > 0


def test_fewer_blocks_than_wanted_are_all_read_and_none_is_nothing(image: Path) -> None:
    found = cold_probe.probe(str(image), 40 * BLOCK, [(7, 2)], random.Random(3))
    assert found is not None
    assert sorted(found.blocks) == [7, 8]
    assert cold_probe.probe(str(image), 40 * BLOCK, [], random.Random(3)) is None


def test_what_was_measured_is_kept_with_the_run(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path))
    assert cold_probe.kept(settings, RUN_ID) == {}
    probes = {"vol-1": ColdProbe([3, 9], 31.25)}
    cold_probe.keep(settings, RUN_ID, probes)
    assert cold_probe.kept(settings, RUN_ID) == probes
    assert cold_probe.kept(settings, "another-run") == {}
