"""A scale_out above max_replicas or the budget: an automatic start pages how a person starts it, who may (I12)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.faults.test_scenarios import a_world, lease_is_free

SCHEDULE: dict[str, Any] = {"trigger": {"kind": "schedule"}}
BY_A_PERSON: dict[str, Any] = {"above_limits": True, "reason": "the sale"}
# One replica serves and is all that there may be.
THREE_NEEDED: dict[str, Any] = {"max_replicas": 1, "measured": 250, "required": 3}
BUDGET = {"max_hourly_cost_usd": 0.01, "minimum_lifetime_minutes": 60, "prewarm_deadline_minutes": 2880}


@pytest.mark.parametrize("limit", [{"max_replicas": 1}, {"max_replicas": 9, "limits": BUDGET}])
def test_an_automatic_start_is_refused_and_its_page_has_the_input_that_a_person_starts_it_with(
    limit: dict[str, Any],
) -> None:
    with a_world(**{**THREE_NEEDED, **limit}) as world:
        refused = world.finish(world.start("scale_out", **SCHEDULE))
        assert (refused.status, refused.states[-1]) == ("FAILED", "ScaleOutRefused")
        [(_, text)] = world.operators.mails
        line = next(one for one in text.splitlines() if one.startswith("{"))
        assert json.loads(line) == {
            "cluster": "orders",
            "count": 2,
            "above_limits": True,
            "reason": "say why",
        }
        assert line in str(refused.cause)
        built = world.finish(world.start("scale_out", **{**json.loads(line), "reason": "the sale"}))
        assert built.states[-1] == "ReplicaInService", built
        assert lease_is_free(world)


def test_the_receipt_has_the_limit_that_was_passed_and_the_reason() -> None:
    with a_world(**THREE_NEEDED) as world:
        world.finish(world.start("scale_out", **BY_A_PERSON))
        [run] = [
            key.removeprefix("run#")
            for key in world.account.table
            if re.fullmatch(r"run#.*-[a-z2-7]{10}", key)
        ]
        receipt = world.ports.ledger.receipt(run)
        assert receipt is not None
        [note] = [one for one in receipt["notes"] if one.startswith("passed a limit")]
        assert "exceeds max_replicas 1" in note
        assert note.endswith("because a person's start says: the sale")


def test_more_than_one_run_brings_is_refused_also_to_a_person() -> None:
    with a_world(**THREE_NEEDED) as world:
        refused = world.finish(world.start("scale_out", count=41, **BY_A_PERSON))
        assert refused.states[-1] == "Refused"
        assert world.operators.mails == []
