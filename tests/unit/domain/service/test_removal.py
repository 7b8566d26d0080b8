"""Whether a cluster's stack may go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.runs.ledger import LeaseRow
from peaker.domain.service.removal import RemovalSight, judge_removal

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def row(number: int, state: ReplicaState) -> ReplicaRow:
    return ReplicaRow("orders", f"i-{number:08x}", "scale-out-orders-1", state, NOW)


def sight(*rows: ReplicaRow, **changes: Any) -> RemovalSight:
    known: dict[str, Any] = {
        "cluster": "orders",
        "rows": {one.instance_id: one for one in rows},
        "instances": (),
        "lease": None,
        "unfinished": (),
    }
    return RemovalSight(**{**known, **changes})


def test_it_goes_when_all_replicas_are_retired() -> None:
    assert judge_removal(sight(row(1, ReplicaState.RETIRED))).may_go


def test_a_parked_replica_stays_somebodys_cost() -> None:
    judged = judge_removal(sight(row(1, ReplicaState.PARKED), row(2, ReplicaState.IN_SERVICE)))
    assert judged.reasons == ("1 in service (i-00000002)", "1 parked (i-00000001)")
    assert "retire-replica-now.md" in judged.text


def test_a_run_at_work_would_lose_its_settings() -> None:
    lease = LeaseRow("orders", "scale-out-orders-2", "scale_out", 7, NOW + timedelta(hours=1))
    assert judge_removal(sight(lease=lease)).reasons == ("at work: scale-out-orders-2",)


def test_an_instance_that_the_ledger_does_not_have_counts_when_it_is_owned() -> None:
    ours = SimpleNamespace(instance_id="i-00000009", tags={"peaker:owner": "prod"})
    base = SimpleNamespace(instance_id="i-0000000a", tags={})
    judged = judge_removal(sight(instances=(ours, base)))
    assert judged.reasons == ("1 that only EC2 knows of (i-00000009)",)


def test_many_are_named_in_part() -> None:
    rows = [row(number, ReplicaState.IN_SERVICE) for number in range(7)]
    [reason] = judge_removal(sight(*rows)).reasons
    assert reason.startswith("7 in service (i-00000000, ")
    assert reason.endswith("i-00000004 and 2 more)")
