"""Hosts hold a password that is like no other text; then everything that AWS keeps of their runs is searched for it.

The data plane is simulated. The one document whose work needs the replication password, `start_replication`, answers
what the real host package said with that password in its hands: once while MySQL quoted the statement back, once as it
went well. All other documents answer as hosts do that leak nothing. So this shows that what a host says of its work
with the password, a failure and its cause included, brings no part of it into AWS, and that nothing of Peaker gets it
there by another way. It does not show what a host says of other failures, nor what stands in its process list, its
environment and its files while it works: tests/host/test_password_canary.py alone shows that.
"""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.passwords.bench import CANARY, REFUSED, Bench, channel, joining
from tests.support.passwords.search import PLACES, holding, holds
from tests.support.workflow_cloud import NAMES, TABLE, Cluster, WorkflowCloud

EVENTS = "all-events"
OPEN = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}],
}


@pytest.fixture(scope="module")
def listening(deployed: WorkflowCloud) -> Iterator[str]:
    """A queue that hears every event of the account; its URL."""
    sqs, events = deployed.client("sqs"), deployed.client("events")
    url = str(sqs.create_queue(QueueName=EVENTS, Attributes={"Policy": json.dumps(OPEN)})["QueueUrl"])
    events.put_rule(Name=EVENTS, EventPattern=json.dumps({"source": [{"prefix": ""}]}))
    events.put_targets(Rule=EVENTS, Targets=[{"Id": "1", "Arn": NAMES.arn("sqs", EVENTS)}])
    yield url
    events.remove_targets(Rule=EVENTS, Ids=["1"])
    events.delete_rule(Name=EVENTS)
    sqs.delete_queue(QueueUrl=url)


class TestWords:
    """What is found in a text, however it is written."""

    SPELLED: Mapping[str, Callable[[str], str]] = {
        "plain": str,
        "within a line": lambda one: f"ERROR 1064: near 'PASSWORD = '{one}'' at line 1",
        "JSON": json.dumps,
        "JSON within JSON": lambda one: json.dumps(json.dumps({"said": json.dumps(one)})),
        "URL": urllib.parse.quote,
        "form": urllib.parse.quote_plus,
        "lower case": str.lower,
        "hexadecimal": lambda one: one.encode().hex().upper(),
        "base64": lambda one: base64.b64encode(one.encode()).decode(),
        "base64 of a text that begins two characters earlier": lambda one: base64.b64encode(
            f"p={one}&q".encode()
        ).decode(),
        "base64 of JSON, in lines": lambda one: base64.encodebytes(json.dumps([one] * 9).encode()).decode(),
        "base64 for addresses": lambda one: base64.urlsafe_b64encode(f"?>{one}".encode()).decode(),
        "its beginning, up to the quote": lambda one: one.split("'")[0],
        "its end": lambda one: one.split()[-1],
        "UTF-16": lambda one: one.encode("utf-16-le").decode("latin-1"),
    }

    @pytest.mark.parametrize("spell", SPELLED.values(), ids=SPELLED)
    def test_each_spelling_is_found(self, spell: Callable[[str], str]) -> None:
        assert holds(CANARY, f"before {spell(CANARY)} after".encode("latin-1"))

    def test_other_texts_are_not_taken_for_it(self) -> None:
        other = "aNoThEr1b7' \" tExT"
        for spell in self.SPELLED.values():
            assert not holds(CANARY, spell(other).encode("latin-1"))
        assert not holds(
            CANARY, json.dumps({"password": "***", "statement": "SOURCE_PASSWORD = ''"}).encode()
        )

    def test_a_password_without_a_word_cannot_be_searched_for(self) -> None:
        with pytest.raises(ValueError, match="no word of 6 letters and digits"):
            holds("a'b\"c", b"")


@pytest.fixture(scope="module")
def cluster(modules_cloud: WorkflowCloud, listening: str) -> Cluster:
    cluster = modules_cloud.cluster()
    modules_cloud.set_load(cluster, 150, 2)
    return cluster


def _in_an_execution(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    client = cloud.client("stepfunctions")
    passed = json.dumps({"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}})
    arn = client.create_state_machine(
        name="planted", definition=passed, roleArn=cloud.roles.workflow_role("prewarm")
    )["stateMachineArn"]
    execution = client.start_execution(stateMachineArn=arn, input=json.dumps({"said": text}))["executionArn"]
    cloud.finish(execution)


def _in_a_workflow(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    planted = {"Comment": text, "StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}}
    cloud.client("stepfunctions").create_state_machine(
        name="planted-too", definition=json.dumps(planted), roleArn=cloud.roles.workflow_role("prewarm")
    )


def _in_what_a_host_said(cloud: WorkflowCloud, cluster: Cluster, text: str) -> None:
    cloud.answers.fail("report_work", text, times=1)
    _told_to_a_host(cloud, cluster, "AWS-of-tests", "exec python3 peaker_host.pyz report_work")


def _in_a_program_on_a_host(cloud: WorkflowCloud, cluster: Cluster, text: str) -> None:
    _told_to_a_host(cloud, cluster, "AWS-of-tests-too", f"mysql -p'{text}'")


def _told_to_a_host(cloud: WorkflowCloud, cluster: Cluster, name: str, line: str) -> None:
    ssm = cloud.client("ssm")
    step = {"action": "aws:runShellScript", "name": "run", "inputs": {"runCommand": [line]}}
    content = json.dumps({"schemaVersion": "2.2", "mainSteps": [step]})
    ssm.create_document(Name=name, Content=content, DocumentType="Command", DocumentFormat="JSON")
    command = ssm.send_command(DocumentName=name, InstanceIds=[cluster.base_id])["Command"]["CommandId"]
    ended = ("Success", "Failed")

    def has_ended() -> bool:
        """A command that was sent just now may not be listed yet."""
        listed = ssm.list_command_invocations(CommandId=command)["CommandInvocations"]
        return any(one["Status"] in ended for one in listed)

    cloud.eventually(has_ended)


def _in_a_parameter(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    cloud.client("ssm").put_parameter(
        Name="/planted/settings", Value=json.dumps({"said": text}), Type="String"
    )


def _in_a_function(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    cloud.client("lambda").update_function_configuration(
        FunctionName=NAMES.function("refresh_prices"), Environment={"Variables": {"PASSWORD": text}}
    )


def _in_a_functions_log(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    path = cloud.cloud.state_dir / "logs" / "planted.log"
    path.write_text(json.dumps({"level": "ERROR", "message": text}))


def _in_a_log_group(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    logs, group = cloud.client("logs"), "/aws/vendedlogs/states/planted"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="one")
    event = {"timestamp": int(cloud.cloud.clock.epoch() * 1000), "message": text}
    logs.put_log_events(logGroupName=group, logStreamName="one", logEvents=[event])


def _in_the_table(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    item = {
        "pk": {"S": "run#planted"},
        "sk": {"S": "receipt"},
        "document": {"S": json.dumps({"cause": text})},
    }
    cloud.client("dynamodb").put_item(TableName=TABLE, Item=item)


def _in_a_file(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    cloud.client("s3").put_object(Bucket=NAMES.run_files_bucket, Key="runs/planted/list", Body=text.encode())


def _in_a_metric(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    dimensions = [{"Name": "Cluster", "Value": text}]
    datum = {"MetricName": "Planted", "Dimensions": dimensions, "Value": 1.0}
    cloud.client("cloudwatch").put_metric_data(Namespace=NAMES.metric_namespace, MetricData=[datum])


def _in_a_rule(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    cloud.client("events").put_rule(Name="planted", ScheduleExpression="rate(1 day)", Description=text)


def _in_an_event(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    cloud.cloud.put_event("aws.states", "Planted", {"cause": text})


def _in_a_page(cloud: WorkflowCloud, _: Cluster, text: str) -> None:
    topic = cloud.client("sns").create_topic(Name="planted")["TopicArn"]
    cloud.client("sns").publish(TopicArn=topic, Subject="ALARM", Message=json.dumps({"NewStateReason": text}))


def _in_user_data(cloud: WorkflowCloud, cluster: Cluster, text: str) -> None:
    settings = cluster.settings
    cloud.client("ec2").run_instances(
        ImageId=settings["image_id"], InstanceType=settings["instance_type"], MinCount=1, MaxCount=1,
        SubnetId=settings["subnets"]["us-east-1a"], UserData=f"#!/bin/sh\nmysql -p'{text}'\n",
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "peaker:cluster", "Value": cluster.name}]}
        ],
    )  # fmt: skip


PLANTS: Mapping[str, tuple[Callable[[WorkflowCloud, Cluster, str], None], ...]] = {
    "executions": (_in_an_execution,),
    "workflows": (_in_a_workflow,),
    "commands": (_in_what_a_host_said,),
    "programs on hosts": (_in_a_program_on_a_host,),
    "parameters": (_in_a_parameter,),
    "function logs": (_in_a_functions_log,),
    "log groups": (_in_a_log_group,),
    "functions": (_in_a_function,),
    "tables": (_in_the_table,),
    "files": (_in_a_file,),
    "metrics and alarms": (_in_a_metric,),
    "rules": (_in_a_rule,),
    "queues": (_in_an_event,),
    "topics": (_in_a_page,),
    "machines": (_in_user_data,),
}


def test_a_password_is_found_wherever_it_is_planted(deployed: WorkflowCloud, cluster: Cluster) -> None:
    """One password per place, so that each is found in its place and in no other's stead."""
    assert set(PLANTS) == set(PLACES)
    passwords = {place: f"pLaNtEd{number:02}x'\" \\{number}" for number, place in enumerate(PLACES)}
    for place, plants in PLANTS.items():
        assert holding(deployed.cloud, passwords[place], place) == []
        for plant in plants:
            plant(deployed, cluster, passwords[place])
    for place, password in passwords.items():
        deployed.eventually(lambda place=place, one=password: holding(deployed.cloud, one, place) != [])


def what_hosts_say(folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """The result lines of the real `start_replication`: as MySQL quotes the password back, and as all goes well."""
    joined = channel("Yes", source="10.77.1.30")
    for number, (change, status) in enumerate(
        (((1, REFUSED.format(password=CANARY)), channel("No")), ((0, ""), joined))
    ):
        bench = Bench(folder / str(number), capsys)
        bench.folder.mkdir()
        joining(bench, change, status)
        _, told = bench.run("start_replication", "--run-id", "scale-out-1", "--source-host", "10.77.1.10")
        assert "SOURCE_PASSWORD = 'cAnArY" in bench.statements(), told
        yield json.loads(next(line for line in told.splitlines() if line.startswith("{")))


def test_no_password_is_in_anything_that_aws_keeps_of_a_life(
    cloud: WorkflowCloud,
    cluster: Cluster,
    listening: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A replica whose source MySQL refuses, one that serves, and its retirement."""
    refused, joined = what_hosts_say(tmp_path, capsys)
    assert (refused["ok"], joined["ok"]) == (False, True)
    cloud.answers.script("start_replication", refused, joined)

    failed = cloud.run("scale_out", {"cluster": cluster.name})
    assert failed["status"] == "FAILED", failed
    assert "ERROR 1064" in failed["cause"]
    served = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(served) == "ReplicaInService", served
    cloud.set_load(cluster, 10, 1)
    retired = cloud.run("scale_in", {"cluster": cluster.name})
    assert cloud.last_state(retired) == "ReplicaRetired", retired

    ended = [one["executionArn"] for one in (failed, served, retired)]
    cloud.eventually(lambda: all(heard_of_end(cloud, one) for one in ended))
    assert holding(cloud.cloud, CANARY) == []


def heard_of_end(cloud: WorkflowCloud, execution: str) -> bool:
    """Whether the event of the execution's end, with input and output, lies in the queue."""
    told = [str(kept) for name, kept in PLACES["queues"](cloud.cloud) if name == EVENTS]
    return any(execution in one and "stopDate" in one and "RUNNING" not in one for one in told)
