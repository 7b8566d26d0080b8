"""Whatever happens to two clusters, an hour later both are as they should be; and the audit sees when they are not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bench.faults import audit
from bench.faults.soak import Event, run, run_seed


@pytest.mark.parametrize("seed", [3, 11, 24])
def test_a_random_plan_leaves_nothing_behind(seed: int) -> None:
    assert run_seed(seed).findings == ()


def test_a_kept_snapshot_that_somebody_deletes_as_a_run_ends_is_forgotten_within_the_hour() -> None:
    """The first look after it meets the run's lease, which was given back a moment before."""
    events = (
        Event(5744, "sweep_twice", "orders", 190),
        Event(8263, "scale_out", "orders", 45),
        Event(8761, "unavailable", "orders", 20),
        Event(10720, "scale_in", "orders", 491),
        Event(10799, "delete_snapshot", "orders", 307),
    )
    assert run(700017, events).findings == ()


def test_the_audit_finds_what_nobody_takes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.world.SCHEDULES_OF_CLUSTERS", {})
    left = (
        Event(100, "scale_out", "orders", 0),
        Event(600, "stop", "orders", 1),  # the whole run, no member of it
        Event(50, "lost_event", "orders", 0),
    )
    kinds = {one.kind for one in run(3, left).findings}
    assert {"orphan", "lease"} <= kinds


def test_the_auditor_shares_no_code_with_the_product() -> None:
    """Only the names of the tags, which are written once."""
    tree = ast.parse(Path(audit.__file__).read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    ours = {one for one in imported if one.startswith(("peaker", "stacks", "statemachines"))}
    assert ours <= {"peaker_contract.names"}
