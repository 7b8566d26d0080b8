"""The demonstration's summary: each claim is held against what happened, and fails where it did not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demo.observer import Forecast, Sample
from demo.summary import Bill, Check, Day, check_day, draw_day
from demo.trace import Trace

STARTED = datetime(2026, 11, 24, 13, tzinfo=UTC)
HOUR = timedelta(hours=1)
# The load passes 500 after three and a half hours, and is below after five and a half.
LOADS = (100.0, 100.0, 100.0, 0.0, 1000.0, 1000.0, 0.0, 0.0, 0.0, 0.0)
FORESEEN = "the forecast alone raised the alarm"
READY = "ready before the load passed capacity, at most a lead time"
GONE = "gone at most a lead time after it was below"
CHEAPER = "Peaker cost less than two replicas that are always on"


def at(hours: float) -> str:
    return (STARTED + HOUR * hours).isoformat()


def receipt(
    operation: str, run_id: str, hours: float, *members: dict[str, Any], until: float = 0.0, usd: float = 1.0
) -> dict[str, Any]:
    """Of a run that an alarm started so many hours after the day's start."""
    return {
        "operation": operation, "run_id": run_id, "outcome": "succeeded", "started_at": at(hours),
        "finished_at": at(until), "trigger": {"kind": "alarm", "at": at(hours)}, "members": list(members),
        "resources": [], "cost": {"so_far": usd, "hourly": 0.125},
        "steps": [{"step": "Work", "started_at": at(hours), "seconds": 600.0}],
    }  # fmt: skip


def peak(run_id: str, state: str, count: int, serving: float) -> list[dict[str, Any]]:
    names = [run_id, *(f"{run_id}-{number}" for number in range(2, count + 1))]
    return [{"run_id": name, "state": state, "serving_at": at(serving)} for name in names]


def a_day(highest: float = 1_000.0, count: int = 2, serving: float = 3.0, gone: float = 6.0) -> Day:
    """Of the alarm after 1.5 hours, whose lead time is 1.5 hours."""
    trace = Trace(tuple(STARTED + HOUR * number for number in range(len(LOADS))), LOADS)
    samples = [Sample(STARTED + HOUR * hours, LOADS[hours], None, 1) for hours in range(9)]
    loads = {STARTED + HOUR: 100.0, STARTED + 5 * HOUR: highest}
    forecasts = [Forecast(STARTED + 1.4 * HOUR, 5400.0, 400.0, 600.0)]
    day = Day(
        settings={"capacity_per_replica": 500.0, "forecast": {"schedule_minutes": 40}},
        cluster=SimpleNamespace(name="orders", base_replica_id="i-base"),  # type: ignore[arg-type]
        load=SimpleNamespace(bursts=[]),  # type: ignore[arg-type]
        observer=SimpleNamespace(samples=samples, loads=loads, forecasts=forecasts),  # type: ignore[arg-type]
        trace=trace,
        started=STARTED,
        until=STARTED + 9 * HOUR,
    )
    day.receipts = [
        receipt("scale_out", "out", 1.5, *peak("out", "in_service", count, serving)),
        receipt("scale_in", "in", 5.6, *peak("in", "gone", count, serving), until=gone, usd=0.75),
    ]
    day.of_members = [receipt("scale_in", "in-2", 5.6, usd=0.5)]
    return day


def held(day: Day) -> dict[str, Check]:
    return {one.claim: one for one in check_day(day, [])}


def test_a_peak_that_was_foreseen_holds() -> None:
    found = held(a_day())
    for claim, value in {
        FORESEEN: "at 14:30 at most 100 of 500 queries per second had been measured; p95 for 15:54 was 600",
        "two replicas came in one run": "2 replicas in one scale_out",
        READY: "lead time 1 h 30 min: alarm 14:30, serving 16:00, passed 16:31: 31 min 00 s, 0.34 lead times",
        GONE: "below 18:30, 2 gone 19:00: 30 min 00 s, 0.33 lead times",
        CHEAPER: "$1.25 against $6.00 a day, 79% less",
    }.items():
        assert (found[claim].holds, found[claim].value) == (True, value)
    assert a_day().bill == Bill(always_on=6.0, peaker=1.25)


def by_hand() -> Day:
    day = a_day()
    day.receipts[1]["trigger"] = {"kind": "manual"}
    return day


def with_a_calendar() -> Day:
    day = a_day()
    day.settings["calendar"] = [{"reason": "sale"}]
    return day


def already_high() -> Day:
    day = a_day()
    day.observer.loads[STARTED + HOUR] = 501.0
    return day


@pytest.mark.parametrize(
    ("day", "claim"),
    [
        (a_day(highest=890.0), "the load reached 1.8 times the base capacity"),
        (a_day(count=1), "two replicas came in one run"),
        (a_day(serving=3.6), READY),
        (a_day(serving=1.9), READY),
        (a_day(gone=7.1), GONE),
        (by_hand(), FORESEEN),
        (with_a_calendar(), FORESEEN),
        (already_high(), FORESEEN),
    ],
)
def test_a_day_that_was_otherwise_is_told_so(day: Day, claim: str) -> None:
    assert not held(day)[claim].holds


def test_a_price_that_is_not_known_is_no_saving() -> None:
    day = a_day()
    day.of_members[0]["cost"] = None
    assert (held(day)[CHEAPER].holds, held(day)[CHEAPER].value) == (False, "a price is not known")


def test_the_day_is_drawn(tmp_path: Path) -> None:
    assert draw_day(a_day(), tmp_path).read_bytes().startswith(b"\x89PNG")
