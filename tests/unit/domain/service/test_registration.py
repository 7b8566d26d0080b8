"""A replica is registered only when every proof is recorded (I5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.runs.ledger import StepRow
from peaker.domain.service.registration import missing_proofs

from sim.workflows.virtual_time import START as NOON
from tests.support.builders import orders

GOOD: dict[str, dict[str, Any]] = {
    "PrepareDonor": {"server_uuid": "donor"},
    "VerifyStorage": {"verdict": "warm"},
    "StartDatabase": {"server_uuid": "own", "read_only": True},
    "StartReplication": {"io_running": True, "sql_running": True},
    "WaitForCatchUp": {"samples": [{"lag_seconds": lag} for lag in (40, 5, 0, 1)]},
}


def proofs(step: str = "", **changes: Any) -> list[str]:
    numbers = {name: {**values, **(changes if name == step else {})} for name, values in GOOD.items()}
    rows = {
        name: StepRow(name, NOON, NOON + timedelta(seconds=1), values) for name, values in numbers.items()
    }
    return missing_proofs(rows, orders())


def test_a_proven_replica_lacks_nothing() -> None:
    assert proofs() == []


BROKEN = [
    ("VerifyStorage", {"verdict": "not_warm"}, "verdict is not_warm"),
    ("VerifyStorage", {"verdict": "unknown"}, "verdict is unknown"),
    ("StartDatabase", {"server_uuid": "donor"}, "is the donor's"),
    ("StartDatabase", {"server_uuid": None}, "server_uuid is missing"),
    ("StartDatabase", {"read_only": False}, "read_only is False"),
    ("StartDatabase", {"read_only": "ON"}, "read_only is ON"),
    ("StartReplication", {"io_running": False}, "io_running is False"),
    ("StartReplication", {"sql_running": None}, "sql_running is None"),
    ("WaitForCatchUp", {"samples": [{"lag_seconds": 0}] * 2}, "2 lag samples, 3 needed"),
    (
        "WaitForCatchUp",
        {"samples": [{"lag_seconds": 0}, {"lag_seconds": 6}, {"lag_seconds": 0}]},
        "not all under 5",
    ),
    (
        "WaitForCatchUp",
        {"samples": [{"lag_seconds": 0}, {"lag_seconds": None}, {"lag_seconds": 0}]},
        "not all under",
    ),
]


@pytest.mark.parametrize(("step", "changes", "reason"), BROKEN)
def test_one_broken_proof_is_enough(step: str, changes: dict[str, Any], reason: str) -> None:
    found = proofs(step, **changes)
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize("step", [name for name in GOOD if name != "PrepareDonor"])
def test_a_step_that_did_not_finish_proves_nothing(step: str) -> None:
    rows = {
        name: StepRow(name, NOON, None if name == step else NOON, values) for name, values in GOOD.items()
    }
    assert any(problem.startswith(step) for problem in missing_proofs(rows, orders()))
