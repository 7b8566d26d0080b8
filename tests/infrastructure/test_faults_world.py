"""The world of `make faults` has the rules and limits that the stacks deploy."""

from __future__ import annotations

from sim.world import ROLLED_BACK, ROLLING_BACK, SCHEDULES_OF_CLUSTERS
from stacks.control_plane_stack import pascal_case
from tests.infrastructure.conftest import Assembly, Resource

SECONDS = {"minute": 60, "hour": 3600, "day": 86_400}


def rules(assembly: Assembly) -> dict[str, Resource]:
    return {rule["Name"]: rule for rule in assembly.properties("AWS::Events::Rule")}


def test_schedules_come_as_often(assembly: Assembly) -> None:
    deployed: dict[str, float] = {}
    for rule in rules(assembly).values():
        for target in rule["Targets"]:
            arn = target["Arn"]
            function = (
                pascal_case(arn.rsplit("-", 1)[1]) if isinstance(arn, str) else arn.get("Fn::GetAtt", [""])[0]
            )
            if "ScheduleExpression" in rule and ":stateMachine:" not in str(arn):
                number, unit = rule["ScheduleExpression"].removeprefix("rate(").removesuffix(")").split()
                deployed[function] = float(number) * SECONDS[unit.rstrip("s")]
    for name, period in SCHEDULES_OF_CLUSTERS.items():
        assert {
            seconds for function, seconds in deployed.items() if function.startswith(pascal_case(name))
        } == {period}


def test_the_same_ends_start_roll_back(assembly: Assembly) -> None:
    detail = rules(assembly)[f"peaker-{assembly.environment}-execution-stopped"]["EventPattern"]["detail"]
    assert tuple(detail["status"]) == ROLLING_BACK
    assert tuple(arn.rsplit("-", 1)[1] for arn in detail["stateMachineArn"]) == ROLLED_BACK
