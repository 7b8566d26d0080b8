"""Whether a cluster's stack may go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.runs.ledger import LeaseRow
from peaker_cli.removal.command import RemovalSight, why_not_removed

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def row(number: int, state: ReplicaState) -> ReplicaRow:
    return ReplicaRow("orders", f"i-{number:08x}", "scale-out-orders-1", state, NOW)


def why_not(*rows: ReplicaRow, **changes: Any) -> tuple[str, ...]:
    known: dict[str, Any] = {
        "environment": "prod",
        "cluster": "orders",
        "rows": {one.instance_id: one for one in rows},
        "instances": (),
        "lease": None,
        "unfinished": (),
        "starting_rules": (),
    }
    return why_not_removed(RemovalSight(**{**known, **changes}))


def test_it_goes_when_all_replicas_are_retired_and_nothing_begins() -> None:
    assert why_not(row(1, ReplicaState.RETIRED)) == ()


def test_a_parked_replica_stays_somebodys_cost() -> None:
    [reason] = why_not(row(1, ReplicaState.PARKED), row(2, ReplicaState.IN_SERVICE))
    assert "in service: i-00000002; parked: i-00000001" in reason
    assert "retire-replica-now.md" in reason


def test_a_run_at_work_would_lose_its_settings() -> None:
    lease = LeaseRow("orders", "scale-out-orders-2", "scale_out", 7, NOW + timedelta(hours=1))
    [reason] = why_not(lease=lease)
    assert reason.startswith("at work: scale-out-orders-2")


def test_a_rule_could_start_a_run_while_the_stack_goes() -> None:
    [reason] = why_not(starting_rules=("peaker-prod-orders-replica-shortage",))
    assert "peaker-prod-orders-replica-shortage" in reason
    assert reason.endswith("peaker pause orders --env prod (docs/runbooks/stop-everything.md)")


def test_an_instance_that_the_ledger_does_not_have_counts_when_it_is_owned() -> None:
    ours = SimpleNamespace(instance_id="i-00000009", tags={"peaker:owner": "prod"})
    base = SimpleNamespace(instance_id="i-0000000a", tags={})
    [reason] = why_not(instances=(ours, base))
    assert "known to EC2 alone: i-00000009" in reason
    assert base.instance_id not in reason


def test_many_are_named_in_part() -> None:
    [reason] = why_not(*(row(number, ReplicaState.IN_SERVICE) for number in range(7)))
    assert "i-00000004 and 2 more" in reason
