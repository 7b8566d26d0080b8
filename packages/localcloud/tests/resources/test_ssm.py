"""Run Command of the local cloud, used through boto3: real scripts, or scripted answers for the slow ones."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.resources import IMAGE, ResourceCloud, eventually
from localcloud.dataplane import RunResult
from localcloud.simulated.hosts import After

ENDED = ("Success", "Failed", "TimedOut", "Cancelled")


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def run_here(instance_id: str, argv: Sequence[str], environment: Mapping[str, str]) -> RunResult:
    """Answer a host command by running it on this machine: proves that the argv is a real one."""
    path = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, env={**path, **environment}, capture_output=True, text=True, timeout=120)
    return RunResult(done.returncode, done.stdout, done.stderr)


def step(script: str | list[str], name: str = "run", **inputs: Any) -> dict[str, Any]:
    run_command = script if isinstance(script, list) else [script]
    return {"name": name, "action": "aws:runShellScript", "inputs": {"runCommand": run_command, **inputs}}


def document(
    aws: ResourceCloud, *steps: dict[str, Any], name: str = "Peaker-local-test", **parameters: Any
) -> str:
    content = {"schemaVersion": "2.2", "parameters": parameters, "mainSteps": list(steps)}
    aws.ssm.create_document(
        Name=name, Content=json.dumps(content), DocumentType="Command", DocumentFormat="JSON"
    )
    return name


def send(aws: ResourceCloud, instance_id: str, name: str, **changes: Any) -> str:
    parameters = {key: [value] for key, value in changes.pop("parameters", {}).items()}
    answer = aws.ssm.send_command(
        InstanceIds=[instance_id], DocumentName=name, Parameters=parameters, **changes
    )
    return str(answer["Command"]["CommandId"])


def look(aws: ResourceCloud, command_id: str, instance_id: str, **changes: Any) -> dict[str, Any]:
    def invocation() -> dict[str, Any] | None:
        try:
            return dict(
                aws.ssm.get_command_invocation(CommandId=command_id, InstanceId=instance_id, **changes)
            )
        except aws.ssm.exceptions.InvocationDoesNotExist:
            return None

    return dict(eventually(invocation))


def result(aws: ResourceCloud, command_id: str, instance_id: str, **changes: Any) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        seen = look(aws, command_id, instance_id, **changes)
        return seen if seen["Status"] in ENDED else None

    return dict(eventually(ended))


# -- scripts that run ----------------------------------------------------------------------------------------


def test_a_yaml_document_is_run_too(aws: ResourceCloud) -> None:
    aws.plane.hosts.responder = run_here
    content = """
schemaVersion: "2.2"
mainSteps:
  - action: aws:runShellScript
    name: run
    precondition: {StringEquals: [platformType, Linux]}
    inputs:
      timeoutSeconds: "60"
      runCommand: |
        echo first
        echo second
"""
    aws.ssm.create_document(
        Name="Peaker-local-yaml", Content=content, DocumentType="Command", DocumentFormat="YAML"
    )
    instance_id = aws.launched()
    ended = result(aws, send(aws, instance_id, "Peaker-local-yaml"), instance_id)
    assert ended["StandardOutputContent"] == "first\nsecond\n"


# -- steps ---------------------------------------------------------------------------------------------------


# -- time ----------------------------------------------------------------------------------------------------


def test_an_invocation_does_not_exist_just_after_the_call(slow_aws: ResourceCloud) -> None:
    instance_id = slow_aws.launched()
    name = document(slow_aws, step("true"))
    with slow_aws.stopped_clock():
        command_id = send(slow_aws, instance_id, name)
        with pytest.raises(ClientError) as error:
            slow_aws.ssm.get_command_invocation(CommandId=command_id, InstanceId=instance_id)
    assert code_of(error) == "InvocationDoesNotExist"
    assert result(slow_aws, command_id, instance_id)["Status"] == "Success"


def test_while_it_runs_there_is_no_output_and_no_code(aws: ResourceCloud) -> None:
    aws.plane.hosts.responder = lambda *_: After(3600, RunResult(1, "", ""))
    instance_id = aws.launched()
    command_id = send(aws, instance_id, document(aws, step("sleep")))
    running = look(aws, command_id, instance_id)
    assert running["Status"] in ("Pending", "InProgress")
    assert (running["ResponseCode"], running["StandardOutputContent"]) == (-1, "")
    [command] = eventually(lambda: aws.plane.hosts.hosts[instance_id].running)
    command._end(RunResult(0, "done\n", ""))
    assert result(aws, command_id, instance_id)["StandardOutputContent"] == "done\n"


def test_a_command_on_a_host_that_dies_stays_in_progress_also_when_the_host_is_back(
    aws: ResourceCloud,
) -> None:
    aws.plane.hosts.responder = lambda *_: After(3600, RunResult(0, "", ""))
    instance_id = aws.launched()
    command_id = send(aws, instance_id, document(aws, step("sleep 60")))
    eventually(lambda: look(aws, command_id, instance_id)["Status"] == "InProgress")
    aws.plane.hosts.crash(instance_id)
    time.sleep(0.5)
    assert look(aws, command_id, instance_id)["Status"] == "InProgress"
    aws.plane.hosts.start(instance_id)
    time.sleep(0.5)
    assert look(aws, command_id, instance_id)["Status"] == "InProgress"
    aws.ssm.cancel_command(CommandId=command_id)
    assert result(aws, command_id, instance_id)["Status"] == "Cancelled"


# -- refusals ------------------------------------------------------------------------------------------------


def test_an_unknown_document_is_refused(aws: ResourceCloud) -> None:
    with pytest.raises(ClientError) as error:
        send(aws, aws.launched(), "Peaker-local-nothing")
    assert code_of(error) == "InvalidDocument"


def test_instances_that_are_not_up_are_refused(aws: ResourceCloud) -> None:
    name = document(aws, step("true"))
    stopped, crashed = aws.launched(), aws.launched()
    aws.ec2.stop_instances(InstanceIds=[stopped])
    aws.plane.hosts.crash(crashed)
    with aws.stopped_clock():  # the new one's agent is not up for as long as anybody looks
        for instance_id in (aws.launch(), stopped, crashed, "i-0123456789abcdef0"):
            with pytest.raises(ClientError) as error:
                send(aws, instance_id, name)
            assert code_of(error) == "InvalidInstanceId", instance_id


def test_a_delivery_timeout_out_of_range_is_refused(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    with pytest.raises(ClientError) as error:
        send(aws, instance_id, document(aws, step("true")), TimeoutSeconds=2_592_001)
    assert code_of(error) == "ValidationException"


# -- looking -------------------------------------------------------------------------------------------------


def test_an_agent_is_online_a_while_after_the_launch_and_lost_with_its_host(slow_aws: ResourceCloud) -> None:
    with slow_aws.stopped_clock():
        instance_id = slow_aws.launch()
        eventually(lambda: slow_aws.plane.hosts.is_up(instance_id))
        assert slow_aws.agent(instance_id) is None
    eventually(lambda: slow_aws.agent(instance_id) == "Online")
    slow_aws.plane.hosts.crash(instance_id)
    assert slow_aws.agent(instance_id) == "ConnectionLost"


@pytest.mark.parametrize("older", ["image", "host"])
def test_an_agent_that_is_too_old_sets_no_variable_for_a_parameter(aws: ResourceCloud, older: str) -> None:
    """As an image of a year ago boots it, or as its package manager put it back on the host."""
    aws.plane.hosts.responder = run_here
    image_id = aws.ec2.copy_image(SourceImageId=IMAGE, SourceRegion="us-east-1", Name=f"{older} of 2025")[
        "ImageId"
    ]
    instance_id = aws.launched(ImageId=image_id)
    name = document(
        aws, step('set -eu\necho "$SSM_RunId"'), RunId={"type": "String", "interpolationType": "ENV_VAR"}
    )
    newest = send(aws, instance_id, name, parameters={"RunId": "run-1"})
    assert result(aws, newest, instance_id)["StandardOutputContent"] == "run-1\n"
    of = {"image": image_id, "host": instance_id}[older]
    aws.ec2.create_tags(Resources=[of], Tags=[{"Key": "localcloud:agent-version", "Value": "3.3.2299.0"}])
    told = aws.ssm.describe_instance_information()["InstanceInformationList"]
    assert [one["AgentVersion"] for one in told if one["InstanceId"] == instance_id] == ["3.3.2299.0"]
    ended = result(aws, send(aws, instance_id, name, parameters={"RunId": "run-2"}), instance_id)
    assert ended["Status"] == "Failed"
    assert "SSM_RunId: parameter not set" in ended["StandardErrorContent"]
