"""State machines: what the construct refuses, and what the template carries."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stacks.constructs.workflow import WorkflowError, check_definition, placeholders, tasks
from stacks.control_plane_stack import STATE_MACHINES, pascal_case, state_machine_names
from stacks.function_catalogue import FUNCTIONS
from tests.infrastructure.conftest import Assembly

LAMBDA = "arn:aws:states:::lambda:invoke"


def machine(resource: str = LAMBDA, function: str = "${DrainReplicaArn}", **changes: Any) -> str:
    task = {"Type": "Task", "Resource": resource, "Arguments": {"FunctionName": function}, "End": True}
    return json.dumps({"StartAt": "A", "TimeoutSeconds": 60, "States": {"A": task}, **changes})


def test_matching_placeholders_are_accepted() -> None:
    check_definition("x.asl.json", machine(), {"DrainReplicaArn": "arn"})


def test_placeholder_without_substitution_is_refused() -> None:
    with pytest.raises(WorkflowError, match=r"x.asl.json: nothing is substituted for \$\{DrainReplicaArn\}"):
        check_definition("x.asl.json", machine(), {})


def test_substitution_without_placeholder_is_refused() -> None:
    with pytest.raises(WorkflowError, match=r"x.asl.json: no place for \$\{UndoRunArn\}"):
        check_definition("x.asl.json", machine(), {"DrainReplicaArn": "arn", "UndoRunArn": "arn"})


def test_machine_without_timeout_is_refused() -> None:
    with pytest.raises(WorkflowError, match="TimeoutSeconds is missing at the top level"):
        check_definition(
            "x.asl.json",
            machine(TimeoutSeconds=None).replace('"TimeoutSeconds": null, ', ""),
            {"DrainReplicaArn": "arn"},
        )


def test_integration_without_permission_is_refused_also_inside_a_branch() -> None:
    inner = json.loads(machine("arn:aws:states:::aws-sdk:ec2:terminateInstances"))
    parallel = {"Type": "Parallel", "Branches": [inner], "End": True}
    with pytest.raises(WorkflowError, match=r"A calls .*terminateInstances, for which no permission"):
        check_definition("x.asl.json", machine(States={"P": parallel}), {"DrainReplicaArn": "arn"})


def definitions() -> dict[str, str]:
    return {name: (STATE_MACHINES / f"{name}.asl.json").read_text() for name in state_machine_names()}


def test_there_are_state_machines_for_both_directions() -> None:
    assert {"scale_out", "scale_in"} <= set(definitions())


def test_every_function_is_called_by_a_workflow_or_a_schedule() -> None:
    called = {name for text in definitions().values() for name in placeholders(text)}
    uncalled = {d.name for d in FUNCTIONS if f"{d.pascal_name}Arn" not in called}
    assert uncalled == {"find_stopped_runs", "forecast_load", "refresh_prices", "tend_snapshots", "watch_replicas"}


def test_every_task_names_a_placeholder_of_a_function_or_a_child() -> None:
    known = {f"${{{d.pascal_name}Arn}}" for d in FUNCTIONS}
    known |= {f"${{{pascal_case(name)}StateMachineArn}}" for name in definitions()}
    for text in definitions().values():
        for name, task in tasks(json.loads(text)):
            arguments = task["Arguments"]
            assert (arguments.get("FunctionName") or arguments.get("StateMachineArn")) in known, name


def test_definitions_are_inlined_and_every_placeholder_is_substituted(assembly: Assembly) -> None:
    machines = assembly.properties("AWS::StepFunctions::StateMachine")
    assert len(machines) == len(definitions())
    for properties in machines:
        assert placeholders(properties["DefinitionString"]) == set(properties["DefinitionSubstitutions"])


def test_workflows_log_everything_and_trace(assembly: Assembly) -> None:
    for properties in assembly.properties("AWS::StepFunctions::StateMachine"):
        assert properties["LoggingConfiguration"]["Level"] == "ALL"
        assert properties["TracingConfiguration"] == {"Enabled": True}


def test_execution_data_stays_out_of_the_logs_where_state_is_kept(assembly: Assembly) -> None:
    for properties in assembly.properties("AWS::StepFunctions::StateMachine"):
        logged = properties["LoggingConfiguration"]["IncludeExecutionData"]
        assert logged == (assembly.environment != "prod")


def test_workflows_may_call_just_the_functions_they_name(prod: Assembly) -> None:
    policies = {
        found[1]: policy["Properties"]["PolicyDocument"]["Statement"]
        for logical_id, policy in prod.resources("AWS::IAM::Policy")
        if (found := re.match(r"(\w+)WorkflowPolicy[0-9A-F]{8}$", logical_id))
    }
    assert set(policies) == {pascal_case(name) for name in definitions()}
    for name, text in definitions().items():
        invoked: set[str] = set()
        for statement in policies[pascal_case(name)]:
            if statement["Action"] == "lambda:InvokeFunction":
                arns = statement["Resource"]
                invoked |= {arns} if isinstance(arns, str) else set(arns)
        wanted = {d.name for d in FUNCTIONS if f"{d.pascal_name}Arn" in placeholders(text)}
        assert invoked == {
            f"arn:aws:lambda:us-east-1:222222222222:function:peaker-prod-{function}" for function in wanted
        }


def test_documents_are_command_documents_of_this_environment(assembly: Assembly) -> None:
    files = {path.stem for path in (Path(STATE_MACHINES).parent / "ssm_documents").glob("*.yaml")}
    documents = assembly.properties("AWS::SSM::Document")
    assert {d["Name"] for d in documents} == {f"Peaker-{assembly.environment}-{name}" for name in files}
    for document in documents:
        assert document["DocumentType"] == "Command"
        assert document["UpdateMethod"] == "NewVersion"
        assert document["Content"]["schemaVersion"] == "2.2"
