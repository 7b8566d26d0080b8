"""Run Command of the local cloud, used through boto3: real scripts, or scripted answers for the slow ones."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import OPEN_QUEUE
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


def test_a_script_runs_in_its_working_directory(aws: ResourceCloud, tmp_path: Path) -> None:
    aws.plane.hosts.responder = run_here
    instance_id = aws.launched()
    name = document(aws, step("pwd", workingDirectory="{{ Where }}"), Where={"type": "String"})
    ended = result(aws, send(aws, instance_id, name, parameters={"Where": str(tmp_path)}), instance_id)
    assert ended["StandardOutputContent"] == f"{tmp_path}\n"


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


def by_script(answers: Mapping[str, RunResult]) -> Any:
    return lambda instance_id, argv, environment: answers.get(argv[-1], RunResult(0, f"{argv[-1]}\n", ""))


def test_steps_run_in_order_and_on_after_a_failure(aws: ResourceCloud) -> None:
    aws.plane.hosts.responder = by_script({"two": RunResult(1, "", "")})
    instance_id = aws.launched()
    name = document(aws, step("one", "first"), step("two", "second"), step("three", "third"))
    command_id = send(aws, instance_id, name)
    assert result(aws, command_id, instance_id, PluginName="third")["Status"] == "Success"
    assert result(aws, command_id, instance_id, PluginName="second")["Status"] == "Failed"
    eventually(lambda: aws.ssm.list_commands(CommandId=command_id)["Commands"][0]["Status"] == "Failed")
    with pytest.raises(ClientError) as error:
        aws.ssm.get_command_invocation(CommandId=command_id, InstanceId=instance_id)
    assert code_of(error) == "InvalidPluginName"


def test_on_failure_exit_leaves_the_rest_but_runs_the_final_step(aws: ResourceCloud) -> None:
    aws.plane.hosts.responder = by_script({"one": RunResult(1, "", "")})
    instance_id = aws.launched()
    name = document(
        aws,
        step("one", "first", onFailure="exit"),
        step("two", "second"),
        step("three", "third", finallyStep="true"),
    )
    command_id = send(aws, instance_id, name)
    assert result(aws, command_id, instance_id, PluginName="third")["Status"] == "Success"
    eventually(lambda: aws.ssm.list_commands(CommandId=command_id)["Commands"][0]["Status"] == "Failed")
    ran = [argv[-1] for argv in aws.plane.hosts.hosts[instance_id].commands]
    assert ran == ["one", "three"]


def test_a_step_for_another_platform_is_skipped(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    windows = {
        "name": "windows",
        "action": "aws:runPowerShellScript",
        "precondition": {"StringEquals": ["platformType", "Windows"]},
        "inputs": {"runCommand": ["Get-Date"]},
    }
    name = document(aws, windows, step("date", "linux"))
    command_id = send(aws, instance_id, name)
    skipped = result(aws, command_id, instance_id, PluginName="windows")
    assert "unsatisfied preconditions" in skipped["StandardOutputContent"]
    assert result(aws, command_id, instance_id, PluginName="linux")["Status"] == "Success"
    assert len(aws.plane.hosts.hosts[instance_id].commands) == 1


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


def test_a_command_whose_host_is_rebooted_stays_in_progress(aws: ResourceCloud) -> None:
    aws.plane.hosts.responder = lambda *_: After(3600, RunResult(0, "", ""))
    instance_id = aws.launched()
    command_id = send(aws, instance_id, document(aws, step("sleep 60")))
    eventually(lambda: look(aws, command_id, instance_id)["Status"] == "InProgress")
    aws.ec2.reboot_instances(InstanceIds=[instance_id])
    eventually(lambda: not aws.plane.hosts.hosts[instance_id].running)
    eventually(lambda: aws.agent(instance_id) == "Online")
    assert look(aws, command_id, instance_id)["Status"] == "InProgress"


def test_whole_output_goes_to_s3_when_asked(aws: ResourceCloud) -> None:
    aws.plane.hosts.responder = lambda *_: RunResult(0, "o" * 30_000, "")
    aws.s3.create_bucket(Bucket="outputs")
    instance_id = aws.launched()
    name = document(aws, step("talk"))
    command_id = send(aws, instance_id, name, OutputS3BucketName="outputs", OutputS3KeyPrefix="runs")
    assert result(aws, command_id, instance_id)["Status"] == "Success"
    key = f"runs/{command_id}/{instance_id}/awsrunShellScript/run/stdout"
    assert len(aws.s3.get_object(Bucket="outputs", Key=key)["Body"].read()) == 30_000


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


def test_a_document_of_a_hash_that_does_not_match_is_refused(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    with pytest.raises(ClientError) as error:
        send(aws, instance_id, document(aws, step("true")), DocumentHash="0" * 64)
    assert code_of(error) == "InvalidDocument"


# -- looking -------------------------------------------------------------------------------------------------


def test_targets_by_tag_reach_the_instances_with_it(aws: ResourceCloud) -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "peaker:cluster", "Value": "orders"}]}]
    tagged = aws.launched(TagSpecifications=tags)
    aws.launched()
    answer = aws.ssm.send_command(
        Targets=[{"Key": "tag:peaker:cluster", "Values": ["orders"]}],
        DocumentName=document(aws, step("true")),
    )
    command_id = answer["Command"]["CommandId"]
    assert result(aws, command_id, tagged)["Status"] == "Success"
    listed = aws.ssm.list_command_invocations(CommandId=command_id)["CommandInvocations"]
    assert [invocation["InstanceId"] for invocation in listed] == [tagged]


def test_commands_are_listed_by_instance(aws: ResourceCloud) -> None:
    name = document(aws, step("true"))
    first, second = aws.launched(), aws.launched()
    command_id = send(aws, first, name)
    send(aws, second, name)
    assert result(aws, command_id, first)
    listed = aws.ssm.list_commands(InstanceId=first)["Commands"]
    assert [command["CommandId"] for command in listed] == [command_id]
    assert (listed[0]["TargetCount"], listed[0]["CompletedCount"]) == (1, 1)


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


def test_the_end_of_a_command_is_an_event(aws: ResourceCloud) -> None:
    open_to_events = {"Policy": json.dumps(OPEN_QUEUE)}
    queue_url = aws.sqs.create_queue(QueueName="commands", Attributes=open_to_events)["QueueUrl"]
    attributes = aws.sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]
    pattern = {"source": ["aws.ssm"], "detail": {"status": ["Success"], "instance-id": [{"exists": True}]}}
    aws.events.put_rule(Name="commands", EventPattern=json.dumps(pattern))
    aws.events.put_targets(Rule="commands", Targets=[{"Id": "queue", "Arn": attributes["QueueArn"]}])
    instance_id = aws.launched()
    command_id = send(aws, instance_id, document(aws, step("true")))
    messages = eventually(lambda: aws.sqs.receive_message(QueueUrl=queue_url).get("Messages"))
    event = json.loads(messages[0]["Body"])
    assert event["detail-type"] == "EC2 Command Invocation Status-change Notification"
    assert event["detail"]["command-id"] == command_id
    assert event["detail"]["instance-id"] == instance_id
