"""The catalogue of steps says what the workflows do: its rows and their states are the same, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from peaker_contract.catalogue import FUNCTIONS, STEPS, parts_of, serving_state, state_of, states_of
from peaker_contract.steps import Method, Part, Step
from tests.support.workflows import MACHINES

# By workflow the first state; a batch of builds has a donor before its members.
WAYS = {
    Method.BUILD: (("scale_out", "ChooseDonor"), ("add_replica", "LaunchBesideSnapshots")),
    Method.RETURN: (("add_replica", "StartParkedReplica"),),
}


def calls(states: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every state that calls a function, and the function's placeholder, branches included."""
    for name, state in states.items():
        for branch in (*state.get("Branches", ()), *filter(None, [state.get("ItemProcessor")])):
            yield from calls(branch["States"])
        if ":lambda:invoke" in state.get("Resource", ""):
            yield name, state["Arguments"]["FunctionName"]


def way(method: Method) -> list[str]:
    """The states that call a function and that such a replica passes until it serves, each where it comes first."""
    found = (
        one for workflow, first in WAYS[method] for one in passed(MACHINES[workflow]["States"], first, method)
    )
    return list(dict.fromkeys(found))


def passed(states: dict[str, Any], name: str, method: Method) -> Iterator[str]:
    """The states that call a function from `name` on, over branches and the prewarm workflow."""
    while name not in ("AddReplicas", "RecordMember"):
        state = states[name]
        if state["Type"] == "Parallel":
            for branch in state["Branches"]:
                yield from (one for one, _ in calls(branch["States"]))
        elif state["Type"] == "Task" and state["Resource"].endswith(":lambda:invoke"):
            yield name
        elif state["Type"] == "Task":
            yield from (one for one, _ in calls(MACHINES["prewarm"]["States"]))
        name = state["Next"] if state["Type"] != "Choice" else taken(state, method)


def taken(choice: dict[str, Any], method: Method) -> str:
    """The way of a build is the default."""
    [other] = choice["Choices"]
    assert f"$run.method = '{Method.RETURN}'" in other["Condition"]
    return str(other["Next"] if f"$run.method = '{method}'" in other["Condition"] else choice["Default"])


def test_every_state_that_calls_a_function_is_in_the_catalogue_and_the_reverse() -> None:
    called = {call for machine in MACHINES.values() for call in calls(machine["States"])}
    assert {
        (step.state, f"${{{definition.pascal_name}Arn}}")
        for definition in FUNCTIONS
        for step in definition.steps
    } == called


@pytest.mark.parametrize("method", Method)
def test_a_run_passes_the_states_that_the_catalogue_says(method: Method) -> None:
    assert sorted(way(method)) == sorted(states_of(*Part, method=method))


def test_a_step_is_beside_others_where_the_workflow_has_branches() -> None:
    inside = {
        name
        for machine in MACHINES.values()
        for state in machine["States"].values()
        for branch in state.get("Branches", ())
        for name, _ in calls(branch["States"])
    }
    assert {step.state for step in STEPS if step.concurrent} == inside


def test_the_parts_pass_in_their_order() -> None:
    states = way(Method.BUILD)
    part_of = {step.state: step.part for step in STEPS}
    met = list(dict.fromkeys(part_of[state] for state in states))
    assert met == list(parts_of(Method.BUILD)) == list(Part)


def test_nothing_comes_between_serving_and_the_record_of_it() -> None:
    assert MACHINES["add_replica"]["States"][serving_state()]["Next"] == "RecordMember"


def test_a_name_means_the_same_step_wherever_it_stands() -> None:
    counted: dict[str, Step] = {}
    for step in STEPS:
        assert counted.setdefault(step.state, step) == step


def test_a_function_has_its_state_and_one_that_a_schedule_calls_has_none() -> None:
    assert state_of("record_receipt") == "RecordReceipt"
    for name in ("forecast_load", "no_such_function"):
        with pytest.raises(KeyError, match=name):
            state_of(name)
