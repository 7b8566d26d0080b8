"""State machines: what the construct refuses, and what the template carries."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from environments.schema import ENVIRONMENTS_DIRECTORY, Environment
from peaker_contract.catalogue import FUNCTIONS
from stacks import application
from stacks.constructs import workflow
from stacks.constructs.workflow import WorkflowError, checked_definition
from stacks.control_plane_stack import pascal_case
from statemachines.expansion import as_text, expand, in_partition
from statemachines.structure import placeholders
from tests.infrastructure.conftest import Assembly
from tests.support.workflows import MACHINES

REPOSITORY = Path(__file__).resolve().parents[2]
CALLEES = {f"{one.pascal_name}Arn" for one in FUNCTIONS} | {
    "PrewarmStateMachineArn",
    "AddReplicaStateMachineArn",
}


def spoilt(monkeypatch: pytest.MonkeyPatch, folder: Path, *path: str, value: Any) -> None:
    """A synth's remove_replica has another value at a place of one of its states; what it writes goes to the folder."""
    machine = expand("remove_replica")
    place = machine["States"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    monkeypatch.setattr(workflow, "expand", lambda name: machine)
    monkeypatch.setattr(workflow, "write_asl", lambda name, machine: folder / f"{name}.asl.json")


def test_a_definition_comes_with_what_it_calls() -> None:
    definition, wanted = checked_definition("prewarm", CALLEES)
    assert wanted == {"Partition", "StartPrewarmArn", "ReportPrewarmArn"}
    assert json.loads(definition) == MACHINES["prewarm"]


def test_every_problem_of_a_structure_is_told_with_the_expanded_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loop = [{"ErrorEquals": ["Nonsense"], "Next": "DrainReplica"}]
    spoilt(monkeypatch, tmp_path, "DrainReplica", "Catch", value=loop)
    with pytest.raises(WorkflowError) as refused:
        checked_definition("remove_replica", CALLEES)
    lines = str(refused.value).splitlines()
    assert any("remove_replica.yaml: DrainReplica: its failure leads back to it" in line for line in lines)
    assert "statemachines/remove_replica.yaml: DrainReplica: nobody raises Nonsense" in lines
    assert lines[-1] == f"expanded: {tmp_path / 'remove_replica.asl.json'}"


def test_definitions_are_inlined_and_every_placeholder_is_substituted(assembly: Assembly) -> None:
    machines = assembly.properties("AWS::StepFunctions::StateMachine")
    assert len(machines) == len(MACHINES)
    for properties in machines:
        definition = json.loads(properties["DefinitionString"])
        assert definition in [json.loads(in_partition(as_text(one), "aws")) for one in MACHINES.values()]
        assert placeholders(definition) == set(properties["DefinitionSubstitutions"])


def test_a_workflow_is_deployed_after_what_it_calls(assembly: Assembly) -> None:
    """It calls by name, of which CloudFormation takes no order: an upgrade's runs had called functions yet to come."""
    machines = dict(assembly.resources("AWS::StepFunctions::StateMachine"))
    ids = {one["Properties"]["StateMachineName"]: logical_id for logical_id, one in machines.items()}
    ids |= {
        one["Properties"]["FunctionName"]: logical_id
        for logical_id, one in assembly.resources("AWS::Lambda::Function")
    }
    for machine in machines.values():
        called = machine["Properties"]["DefinitionSubstitutions"].values()
        assert {ids[arn.rsplit(":", 1)[1]] for arn in called} <= set(machine["DependsOn"])


def test_a_workflow_names_its_own_partition(assembly: Assembly) -> None:
    """One of another ends the execution past every Catch, and the undo's as well."""
    for properties in assembly.properties("AWS::StepFunctions::StateMachine"):
        assert "arn:aws:states:::lambda:invoke" in properties["DefinitionString"]
        assert "${Partition}" not in properties["DefinitionString"]


def test_nothing_in_govcloud_is_of_the_commercial_partition(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A deployment there is healthy but for its first run, which fails in its first task: so is its undo."""
    text = (ENVIRONMENTS_DIRECTORY / "prod.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(
        text.replace("us-east-1", "us-gov-west-1").replace("arn:aws:", "arn:aws-us-gov:")
    )
    settings = Environment.parse(document, "prod.yaml")
    monkeypatch.setattr(application, "load_environment", lambda name, now: settings)
    application.build_app(
        environment="prod", output=tmp_path, context={"bundle": "sources"}, checked=False
    ).synth()
    for stack, template in Assembly("prod", tmp_path).templates.items():
        assert "arn:aws:" not in json.dumps(template), stack


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
    assert set(policies) == {pascal_case(name) for name in MACHINES}
    for name, machine in MACHINES.items():
        invoked: set[str] = set()
        for statement in policies[pascal_case(name)]:
            if statement["Action"] == "lambda:InvokeFunction":
                arns = statement["Resource"]
                invoked |= {arns} if isinstance(arns, str) else set(arns)
        wanted = {d.name for d in FUNCTIONS if f"{d.pascal_name}Arn" in placeholders(machine)}
        assert invoked == {
            f"arn:aws:lambda:us-east-1:222222222222:function:peaker-prod-{function}" for function in wanted
        }


def test_whoever_may_run_the_installation_installs_the_deployed_package_alone(assembly: Assembly) -> None:
    """Its hash is of the document: a parameter had let the set `operate` run any program as root."""
    [document] = [
        one
        for one in assembly.properties("AWS::SSM::Document")
        if one["Name"].endswith("install_host_package")
    ]
    assert set(document["Content"]["parameters"]) == {"PackageUrl"}
    [step] = document["Content"]["mainSteps"]
    assert re.search(r'wanted = "[0-9a-f]{64}"', step["inputs"]["runCommand"][0])
