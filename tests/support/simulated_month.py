"""A month of a cluster, simulated: replicas built, parked, returned and retired, some runs failing; and its true cost.

The receipts are those that the product would write (`assemble_receipt`); the truth is kept apart, to the second.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from peaker.domain.document.disposal import Disposal, ParkingFigures
from peaker.domain.document.plan import LeadTimeEstimate, Price, ScaleOutPlan
from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.report.receipt import assemble_receipt
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import RunPart, RunReplica, RunRow
from peaker_cli.month.bill import BaseReplica, Month, bill
from peaker_cli.month.stretches import parked_times, stretches_of

START, END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
CAPACITY = 1000.0
_PARKED_HOURLY = 0.031


@dataclass
class SimulatedMonth:
    """The receipts of a month, and what it truly cost: USD of the hours that peak replicas ran, and of parked ones."""

    receipts: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[str, ReplicaRow] = field(default_factory=dict)
    peak_usd: float = 0.0
    parked_usd: float = 0.0
    peak_hours: float = 0.0
    # What the last receipt of each stretch says, added up by hand.
    told_usd: float = 0.0
    load: list[tuple[datetime, float]] = field(default_factory=list)

    def as_month(self) -> Month:
        """As `peaker month` gathers it."""
        stretches = stretches_of(self.receipts, self.rows)
        base = [BaseReplica(f"i-base{number}", START - timedelta(days=9), 0.4) for number in range(2)]
        parked = parked_times(self.receipts, stretches, self.rows)
        return Month("orders", START, END, stretches, parked, base, self.load, CAPACITY)


def simulated(seed: int) -> SimulatedMonth:
    """A peak of one or two replicas on most days, each with a life of its own."""
    dice, month = random.Random(seed), SimulatedMonth()
    month.load = [_load(dice, START + timedelta(minutes=30 * step)) for step in range(48 * 30)]
    asleep: list[tuple[str, str, datetime, float]] = []
    for day in range(30):
        for number in range(dice.choice((0, 1, 1, 2))):
            begins = START + timedelta(days=day, hours=14, seconds=dice.uniform(0, 7200) + 9000 * number)
            if dice.random() < 0.08:
                _failed(month, dice, f"i-failed{day}{number}", begins)
                continue
            stopped = [one for one in asleep if one[2] < begins]
            if stopped and dice.random() < 0.7:
                asleep.remove(stopped[-1])
                replica, builder, since, hourly = stopped[-1]
                month.parked_usd += _PARKED_HOURLY * _hours(since, begins)
                run, once = f"run-return-{day}-{number}", 0.0
            else:
                replica, hourly = f"i-{day:02d}{number}", round(dice.uniform(0.2, 2.4), 4)
                run = builder = f"run-build-{day}-{number}"
                once = round(dice.choice((0.0, dice.uniform(0.1, 4))), 4)
            # What lies across the end of the month is counted by its hours, not by its receipt.
            ends = min(begins + timedelta(seconds=dice.uniform(3600, 25_000)), END)
            _served(
                month, replica, builder, run, begins, ends, hourly, once, park=(parks := dice.random() < 0.6)
            )
            if parks:
                asleep.append((replica, builder, ends, hourly))
    for replica, builder, since, _ in asleep:
        month.parked_usd += _PARKED_HOURLY * _hours(since, END)
        parking = Parking(since, None, None, None, "")
        month.rows[replica] = ReplicaRow("orders", replica, builder, ReplicaState.PARKED, since, parking)
    return month


def _load(dice: random.Random, at: datetime) -> tuple[datetime, float]:
    hour = at.hour + at.minute / 60
    peak = math.exp(-(((hour - 18) / 2.5) ** 2))
    return at, (900 + 2600 * peak) * dice.uniform(0.92, 1.08)


def _hours(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds() / 3600


def _served(
    month: SimulatedMonth, replica: str, builder: str, run: str, begins: datetime, ends: datetime, hourly: float,
    once: float, *, park: bool,
) -> None:  # fmt: skip
    serving = begins + timedelta(minutes=25)
    month.receipts.append(
        _receipt(run, "scale_out", replica, builder, begins, serving, hourly, once, "succeeded")
    )
    action = "park" if park else "retire"
    away = _receipt(
        f"{run}-in", "scale_in", replica, builder, begins, ends, hourly, once, "succeeded", action
    )
    month.receipts.append(away)
    month.peak_usd += hourly * _hours(begins, ends) + once
    month.peak_hours += _hours(begins, ends)
    month.told_usd += away["cost"]["so_far"]


def _failed(month: SimulatedMonth, dice: random.Random, replica: str, begins: datetime) -> None:
    ends, hourly = begins + timedelta(seconds=dice.uniform(300, 9000)), 0.9
    told = _receipt(
        "run-" + replica, "scale_out", replica, "run-" + replica, begins, ends, hourly, 0.5, "rolled_back"
    )
    month.receipts.append(told)
    month.peak_usd += hourly * _hours(begins, ends) + 0.5
    month.peak_hours += _hours(begins, ends)
    month.told_usd += told["cost"]["so_far"]


def _receipt(
    run: str, operation: str, replica: str, builder: str, since: datetime, now: datetime, hourly: float, once: float,
    outcome: str, action: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    price = Price(
        hourly=hourly, instance_hourly=hourly, volumes_hourly=0.0, once=once, per_month_if_kept=None, source="-"
    )  # fmt: skip
    parts: list[RunPart] = [RunReplica(instance_id=replica, builder=builder, running_since=since)]
    if action is None:
        parts.append(_plan(since, price))
    else:
        figures = ParkingFigures(
            return_seconds=1, build_seconds=2, catch_up_per_hour=0, parked_hourly_usd=_PARKED_HOURLY,
            serving_hourly_usd=hourly, rebuild_usd=1,
        )  # fmt: skip
        parts.append(
            Disposal(
                action="park" if action == "park" else "retire", policy="auto", reason="", figures=figures
            )
        )
    row = RunRow(
        run, "orders", operation, since, ExecutionInput(cluster="orders"),
        parts={part.ledger_name: part.model_dump_json() for part in parts},
    )  # fmt: skip
    states = {None: ReplicaState.IN_SERVICE, "park": ReplicaState.PARKED, "retire": ReplicaState.RETIRED}
    receipt = assemble_receipt(
        row, (), (), outcome=outcome, failure=None, price=price, replica_since=since, load_crossed_at=None, notes=(),
        now=now, replica=ReplicaRow("orders", replica, builder, states[action], now),
    )  # fmt: skip
    return receipt.model_dump(mode="json")


def _plan(at: datetime, price: Price) -> ScaleOutPlan:
    return ScaleOutPlan(
        cluster="orders", planned_at=at, count=1, serving=2, building=0, max_replicas=6, donor="i-base0",
        donor_reasons=(), zones=("us-east-1a",), zone_reason="", instance_type="r7g.large", image_id="ami-1",
        volumes=(), lead_time=LeadTimeEstimate(seconds=1500, parts={}), ready_at=None, price=price, refusals=(),
    )  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """How far the report's dollars are from what they should be, in cents; and its hours."""

    from_receipts_cents: int
    from_truth_cents: int
    parked_cents: int
    hours: float


def compared_month(seed: int) -> Compared:
    """The report of one simulated month against its receipts, and against the truth."""
    month = simulated(seed)
    document = bill(month.as_month())
    usd = document["peak"]["usd"]
    return Compared(
        abs(round(100 * usd) - round(100 * month.told_usd)),
        abs(round(100 * usd) - round(100 * month.peak_usd)),
        abs(round(100 * document["parked"]["usd"]) - round(100 * month.parked_usd)),
        round(abs(document["peak"]["replica_hours"] - month.peak_hours), 3),
    )
