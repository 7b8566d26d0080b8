"""The demonstration's summary: each claim is held against what happened, and fails where it did not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demo.observer import Sample
from demo.summary import Bill, Check, Day, check_day, draw_day

STARTED = datetime(2026, 11, 24, 9, tzinfo=UTC)


def at(hours: float) -> str:
    return (STARTED + timedelta(hours=hours)).isoformat()


def receipt(
    operation: str, run_id: str, hours: float, *members: dict[str, Any], usd: float = 1.0
) -> dict[str, Any]:
    """Of a run that an alarm started so many hours after the day's start."""
    return {
        "operation": operation, "run_id": run_id, "outcome": "succeeded", "started_at": at(hours),
        "trigger": {"kind": "alarm", "at": at(hours)}, "members": list(members), "resources": [],
        "forecast_lead": {"serving_at": at(hours + 3)}, "cost": {"so_far": usd, "hourly": 0.125},
        "steps": [{"step": "Work", "started_at": at(hours), "seconds": 600.0}],
    }  # fmt: skip


def peak(run_id: str, state: str, count: int = 2) -> list[dict[str, Any]]:
    names = [run_id, *(f"{run_id}-{number}" for number in range(2, count + 1))]
    return [{"run_id": one, "instance_id": f"i-{number}", "state": state} for number, one in enumerate(names)]


def a_day(highest: float = 1_000.0, count: int = 2) -> Day:
    samples = [Sample(STARTED + timedelta(hours=number), 300.0, 1) for number in range(9)]
    samples.append(Sample(STARTED + timedelta(hours=10), highest, 3))
    day = Day(
        settings={"capacity_per_replica": 500.0},
        cluster=SimpleNamespace(name="orders", base_replica_id="i-base"),  # type: ignore[arg-type]
        load=SimpleNamespace(bursts=[]),
        observer=SimpleNamespace(samples=samples),  # type: ignore[arg-type]
        cloud_started=STARTED,
    )
    day.receipts = [
        receipt("scale_out", "out", 4, *peak("out", "in_service", count)),
        receipt("scale_in", "in", 14, *peak("in", "gone", count), usd=0.75),
    ]
    day.of_members = [receipt("scale_in", "in-2", 14, usd=0.5)]
    return day


def held(day: Day) -> dict[str, Check]:
    return {one.claim: one for one in check_day(day, [])}


def test_a_peak_that_came_and_went_in_batches_of_two_holds() -> None:
    found = held(a_day())
    for claim, value in {
        "demand reached 1.8 times the base capacity": "2.00 times",
        "both peak replicas came in one batch": "2 replicas in one scale_out",
        "both were drained side by side": "2 replicas in one scale_in",
        "Peaker cost less than two replicas that are always on": "$1.25 against $6.00 a day, 79% less",
    }.items():
        assert (found[claim].holds, found[claim].value) == (True, value)
    assert a_day().bill == Bill(always_on=6.0, peaker=1.25)


@pytest.mark.parametrize(
    ("day", "claim"),
    [
        (a_day(highest=890.0), "demand reached 1.8 times the base capacity"),
        (a_day(count=1), "both peak replicas came in one batch"),
        (a_day(count=1), "both were drained side by side"),
    ],
)
def test_a_day_that_was_otherwise_is_told_so(day: Day, claim: str) -> None:
    assert not held(day)[claim].holds


def test_a_price_that_is_not_known_is_no_saving() -> None:
    day = a_day()
    day.of_members[0]["cost"] = None
    found = held(day)["Peaker cost less than two replicas that are always on"]
    assert (found.holds, found.value) == (False, "a price is not known")


def test_the_day_is_drawn(tmp_path: Path) -> None:
    assert draw_day(a_day(), tmp_path).read_bytes().startswith(b"\x89PNG")
