"""Which snapshot sets stay, and what the next one copies."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.storage.snapshot_sets import (
    CHANGED_A_DAY,
    SnapshotSet,
    expected_copy,
    stored_gib,
    surplus_sets,
)

from sim.workflows.virtual_time import START as NOON

GIB = 2**30
USED = {"vol-data": 100.0 * GIB, "vol-log": 20.0 * GIB}


def kept(run_id: str, hours_ago: float, donor: str = "i-base") -> SnapshotSet:
    at = NOON - timedelta(hours=hours_ago)
    return SnapshotSet("orders", run_id, donor, at, {"data": f"snap-{run_id}"}, {"data": f"vol-of-{donor}"})


def alive(*donors: str) -> dict[str, list[str]]:
    return {donor: [f"vol-of-{donor}", "vol-root"] for donor in donors}


def test_the_newest_set_of_each_donor_stays() -> None:
    sets = [kept("run-1", 48), kept("run-2", 24), kept("run-3", 36, "i-other")]
    assert [one.kept.run_id for one in surplus_sets(sets, alive("i-base", "i-other"))] == ["run-1"]


@pytest.mark.parametrize("volumes", [{}, {"i-base": []}, {"i-base": ["vol-made-anew"]}])
def test_a_set_goes_with_its_donor_and_when_its_volumes_were_replaced(volumes: dict[str, list[str]]) -> None:
    [gone] = surplus_sets([kept("run-1", 1)], volumes)
    assert "i-base and its volumes are gone" in gone.why


def test_where_none_is_kept_all_go() -> None:
    sets = [kept("run-1", 2), kept("run-2", 1)]
    assert [one.why for one in surplus_sets(sets, alive("i-base"), "keep_snapshots is false")] == [
        "keep_snapshots is false"
    ] * 2


def of_gib(one: SnapshotSet, gib: float) -> SnapshotSet:
    return replace(one, full_bytes={"data": int(gib * GIB)})


def test_the_next_set_of_a_donor_takes_the_place_of_its_older_one_and_others_stay() -> None:
    sets = [of_gib(kept("run-1", 48), 70), of_gib(kept("run-2", 24, "i-other"), 30)]
    assert stored_gib(sets, "i-base", 100.0) == 130.0


def snapshot(volume: str, hours_ago: float, state: str = "completed") -> Snapshot:
    at: datetime = NOON - timedelta(hours=hours_ago)
    return Snapshot(f"snap-{volume}-{hours_ago}", state, volume, 100.0, started_at=at)


def both(hours_ago: float) -> list[Snapshot]:
    return [snapshot(volume, hours_ago) for volume in USED]


def test_a_snapshot_that_is_not_complete_is_none() -> None:
    pending = [snapshot("vol-data", 1, "pending"), snapshot("vol-log", 1, "error")]
    assert expected_copy(USED, pending, NOON).is_full


def test_an_increment_has_a_share_of_what_is_used_that_grows_ever_slower_with_time() -> None:
    found = expected_copy(USED, both(24), NOON)
    assert (found.is_full, found.copied_bytes) == (False, pytest.approx(CHANGED_A_DAY * 120 * GIB))
    assert found.reason == "changed in 24.0 h as a rule"
    assert expected_copy(USED, both(6), NOON).copied_bytes == pytest.approx(CHANGED_A_DAY * 120 * GIB / 2)
    assert expected_copy(USED, both(24 * 365), NOON).copied_bytes == 120 * GIB


def test_the_newest_snapshot_of_each_volume_counts_a_backup_of_somebody_else_too() -> None:
    assert expected_copy(USED, [*both(48), *both(2)], NOON).reason == "changed in 2.0 h as a rule"
