"""What ended builds teach of the time in which reading, database and catch-up pass side by side."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.runs.ledger import StepRow
from peaker.domain.runs.replay_speed import apply_speed, return_speed

from sim.workflows.virtual_time import START as NOON


def step(name: str, began: float, ended: float | None, **numbers: Any) -> StepRow:
    """Minutes after noon."""
    end = None if ended is None else NOON + timedelta(minutes=ended)
    return StepRow(name, NOON + timedelta(minutes=began), end, numbers)


def speed(*, waited_until: float | None = 40.0, samples: Any = ((2400.0), 0.0)) -> float | None:
    """Of a replica that was an hour behind when it began to replicate, at minute 60."""
    end = None if waited_until is None else 60 + waited_until
    rows = (
        step("CreateVolumes", 0, 1),
        step("StartReplication", 59, 60),
        step("WaitForCatchUp", 80, end, samples=list(samples)),
    )
    return apply_speed({row.step: row for row in rows})


def test_the_speed_is_the_time_that_it_was_behind_over_the_time_in_which_it_caught_up() -> None:
    assert speed() == 1 + 60 / 40


def test_it_is_behind_since_its_snapshots_which_are_older_than_its_volumes() -> None:
    rows = (
        step("CreateSnapshots", -120, -119),
        step("CreateVolumes", 0, 1),
        step("StartReplication", 59, 60),
        step("WaitForCatchUp", 80, 100, samples=[2400.0, 0.0]),
    )
    assert apply_speed({row.step: row for row in rows}) == 1 + (60 + 120) / 40


@pytest.mark.parametrize(
    ("samples", "speed"),
    [([3600.0, 0.0], 4.0), ([{"lag_seconds": 3600}], 4.0), ([60.0, 0.0], None), ([], None)],
)
def test_a_return_lacked_its_first_lag_when_it_was_first_waited_for(
    samples: list[Any], speed: float | None
) -> None:
    """A minute is caught up with before anybody asks again."""
    assert return_speed(step("WaitForCatchUp", 0, 20, samples=samples)) == speed


def test_a_return_that_was_not_waited_for_to_its_end_teaches_no_speed() -> None:
    assert return_speed(None) is None
    assert return_speed(step("WaitForCatchUp", 0, None, samples=[3600.0])) is None


@pytest.mark.parametrize(
    "samples", [[0.0, 0.0], [{"lag_seconds": 12.0}], [], [None], [{"lag_seconds": None}], "none"]
)
def test_a_replica_that_had_caught_up_before_anybody_looked_teaches_no_speed(samples: Any) -> None:
    assert speed(samples=samples) is None


def test_a_wait_that_has_not_ended_teaches_no_speed() -> None:
    assert speed(waited_until=None) is None
    assert apply_speed({}) is None
