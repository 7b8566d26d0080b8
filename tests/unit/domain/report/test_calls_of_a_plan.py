"""Which calls a plan lists."""

from __future__ import annotations

from typing import Literal

import pytest
from peaker.domain.document.plan import Method, PlannedCall, PlannedMember, ScaleOutPlan
from peaker.domain.report.planned_calls import planned_calls

from peaker_contract.endpoint_settings import ENDPOINT_KINDS
from tests.contract.run_parts import PLAN
from tests.support.builders import planned_volume

Action = Literal["build", "return"]


def member(number: int, action: Action) -> PlannedMember:
    return PlannedMember(
        number=number,
        method=Method(action=action, reason="", replica=None if action == "build" else f"i-{number}"),
        zones=("us-east-1a",),
        volumes=(planned_volume("data"), planned_volume("log")),
        lead_time=None,
        ready_at=None,
        price=PLAN.price,
    )


def calls(*actions: Action, kind: str = "nlb") -> dict[str, PlannedCall]:
    members = tuple(member(number, action) for number, action in enumerate(actions, 1))
    plan: ScaleOutPlan = PLAN.model_copy(update={"members": members})
    return {one.action: one for one in planned_calls(plan, kind)}


def test_what_costs_is_counted_over_the_batch_and_the_snapshot_set_is_one() -> None:
    found = calls("build", "build")
    counted = {action: one.times for action, one in found.items() if one.times is not None}
    assert counted == {
        "ec2:CreateSnapshots": 1,
        "ec2:RunInstances": 2,
        "ec2:CreateVolume": 4,
        "ec2:AttachVolume": 4,
    }


def test_what_is_deleted_at_the_end_stands_at_the_end() -> None:
    assert list(calls("build"))[-1] == "ec2:DeleteSnapshot"


def test_each_call_names_its_steps_and_what_takes_it_back() -> None:
    found = calls("build")["ec2:CreateVolume"]
    assert (found.states, found.undone_by) == (("CreateVolumes",), "ec2:DeleteVolume")


@pytest.mark.parametrize("kind", ENDPOINT_KINDS)
def test_behind_each_kind_of_endpoint_its_own_calls(kind: str) -> None:
    services = {action.split(":")[0] for action in calls("build", kind=kind)}
    own = {"nlb": "elasticloadbalancing", "route53": "route53"}
    assert own[kind] in services
    assert not services & {one for name, one in own.items() if name != kind}
