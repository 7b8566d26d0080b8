"""Every call by which a run changes anything on AWS, as its plan lists them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from peaker.domain.document.plan import PlannedCall, ScaleOutPlan
from peaker_contract.catalogue import FUNCTIONS, states_passed
from peaker_contract.permissions import SEND_COMMAND, UNDONE_BY, changes
from peaker_contract.steps import FunctionDefinition, Method, Step

# What a run passes on its way besides the states of its method.
_RECORDS = frozenset({"RecordReceipt", "RecordMember", "ReleaseLease"})


def planned_calls(plan: ScaleOutPlan, endpoint_kind: str) -> tuple[PlannedCall, ...]:
    """In the order of the steps. A call that is refused or lost is made again; an undo makes those of `undone_by`."""
    times = _times(plan)
    states: dict[str, list[str]] = {}
    for function, step in _steps(plan):
        for action in _changes(function, endpoint_kind):
            of_action = states.setdefault(action, [])
            if step.state not in of_action:
                of_action.append(step.state)
    return tuple(
        PlannedCall(
            action=action, states=tuple(found), times=times.get(action), undone_by=UNDONE_BY.get(action)
        )
        for action, found in states.items()
    )


def _steps(plan: ScaleOutPlan) -> Iterator[tuple[FunctionDefinition, Step]]:
    methods = {Method.BUILD if one.returns is None else Method.RETURN for one in plan.members}
    passed = _RECORDS.union(*(states_passed(method) for method in methods))
    found = [(one, step) for one in FUNCTIONS for step in one.steps if step.state in passed]
    # The catalogue has what all workflows share first; a run writes its records last.
    yield from sorted(found, key=lambda pair: pair[1].state in _RECORDS)


def _changes(function: FunctionDefinition, endpoint_kind: str) -> Iterator[str]:
    """Commands on hosts first."""
    if function.documents:
        yield SEND_COMMAND
    for permission in function.permissions:
        yield from changes(permission, endpoint_kind)


def _times(plan: ScaleOutPlan) -> dict[str, int]:
    """Of the calls that make something that is paid for."""
    built = [one for one in plan.members if one.returns is None]
    volumes = sum(len(one.volumes) for one in built)
    return {
        "ec2:CreateSnapshots": 1 if built else 0,
        "ec2:RunInstances": len(built),
        "ec2:StartInstances": len(plan.members) - len(built),
        "ec2:CreateVolume": volumes,
        "ec2:AttachVolume": volumes,
    }
