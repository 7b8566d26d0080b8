"""What a receipt says of how early the alarm was."""

from __future__ import annotations

from datetime import timedelta

import pytest
from peaker.domain.instants import to_iso
from peaker.domain.report.receipt import ForecastLead, assemble_receipt
from peaker.domain.runs.execution_input import ExecutionInput, Trigger
from peaker.domain.runs.ledger import RunRow, StepRow

from sim.workflows.virtual_time import START as NOON


def step(name: str, began: float, ended: float | None) -> StepRow:
    """Minutes after the alarm."""
    end = None if ended is None else NOON + timedelta(minutes=ended)
    return StepRow(name, NOON + timedelta(minutes=began), end)


def lead(*steps: StepRow) -> ForecastLead:
    trigger = Trigger(kind="alarm", alarm="shortage", at=to_iso(NOON))
    receipt = assemble_receipt(
        RunRow("run-1", "orders", "scale_out", NOON, ExecutionInput(cluster="orders", trigger=trigger)),
        steps,
        (),
        outcome="succeeded",
        failure=None,
        price=None,
        replica_since=None,
        load_crossed_at=None,
        notes=(),
        now=NOON + timedelta(minutes=90),
    )
    assert receipt.forecast_lead is not None
    return receipt.forecast_lead


def test_a_replica_serves_once_it_has_its_full_share_of_the_reads() -> None:
    """Healthy after an hour, it got its first tenth of the reads; what it was built for it did 22 minutes later."""
    found = lead(step("AwaitHealthy", 58, 60), step("RampTraffic", 60, 82))
    assert found.serving_at == NOON + timedelta(minutes=82)
    assert found.seconds_alarm_to_serving == 82 * 60


@pytest.mark.parametrize(
    "ramp", [(), (step("RampTraffic", 60, None),)], ids=["failed before", "failed in it"]
)
def test_a_replica_that_never_got_its_share_never_served(ramp: tuple[StepRow, ...]) -> None:
    found = lead(step("AwaitHealthy", 58, 60), *ramp)
    assert (found.serving_at, found.seconds_alarm_to_serving) == (None, None)
