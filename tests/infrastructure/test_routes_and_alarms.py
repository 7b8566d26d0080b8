"""What starts a run, and what wakes a person."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from moto.events.models import EventPattern
from peaker.domain.instants import to_iso
from peaker.domain.report.event import input_refusal_event
from peaker.domain.runs.run import ExecutionRequest
from peaker_cli.doctor import deployed as doctor_deployed

from localcloud.extensions.events.target_payload import target_payload
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.errors import InvalidRequest
from peaker_contract.metrics import Metric
from peaker_contract.names import EVENT_SOURCE
from sim.workflows.virtual_time import START as NOON
from sim.world import ROLLED_BACK, ROLLING_BACK, SCHEDULES_OF_CLUSTERS
from stacks.constructs.operator_alarm import RUNBOOKS, runbook_description
from tests.infrastructure.conftest import Assembly, Resource

REPOSITORY = Path(__file__).resolve().parents[2]


def rules(assembly: Assembly) -> dict[str, Resource]:
    return {rule["Name"]: rule for rule in assembly.properties("AWS::Events::Rule")}


def alarms(assembly: Assembly) -> dict[str, Resource]:
    return {alarm["AlarmName"]: alarm for alarm in assembly.properties("AWS::CloudWatch::Alarm")}


def test_every_rule_has_a_dead_letter_queue_and_retries_up_to_its_events_age(assembly: Assembly) -> None:
    """EventBridge gives up at the first of age and attempts: its most, so that the age is it."""
    found = rules(assembly)
    assert len(found) == 10
    ages = {}
    for name, target in ((name, target) for name, rule in found.items() for target in rule["Targets"]):
        assert target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][1] == "Arn"
        assert target["RetryPolicy"]["MaximumRetryAttempts"] == 185
        ages[name.removeprefix(f"peaker-{assembly.environment}-")] = target["RetryPolicy"][
            "MaximumEventAgeInSeconds"
        ]
    assert all(60 <= age <= 3600 for name, age in ages.items() if name != "execution-stopped")
    assert (ages["execution-stopped"], ages["orders-replica-shortage"]) == (86_400, 3600)


def test_the_doctor_knows_every_rule_and_every_alarm_of_a_cluster(assembly: Assembly) -> None:
    prefix = f"peaker-{assembly.environment}"
    cluster = f"{prefix}-orders"
    known = {f"{cluster}-{one}" for one in doctor_deployed.CLUSTER_RULES}
    known |= {f"{prefix}-{one}" for one in doctor_deployed.ENVIRONMENT_RULES}
    assert set(rules(assembly)) == known
    told = {
        f"{cluster}-{one}" for one in (*doctor_deployed.STARTING_ALARMS, *doctor_deployed.OPERATOR_ALARMS)
    }
    assert {name for name in alarms(assembly) if name in told} == told


def test_an_execution_that_failed_was_stopped_or_timed_out_is_rolled_back(assembly: Assembly) -> None:
    """As the world of `make faults` has it."""
    rule = rules(assembly)[f"peaker-{assembly.environment}-execution-stopped"]
    detail = rule["EventPattern"]["detail"]
    assert tuple(detail["status"]) == ROLLING_BACK
    assert tuple(arn.rsplit("-", 1)[1] for arn in detail["stateMachineArn"]) == ROLLED_BACK
    [target] = rule["Targets"]
    assert target["InputPath"] == "$.detail"


def test_schedules_come_as_often_as_in_the_world_of_faults(assembly: Assembly) -> None:
    functions = {
        logical_id: function["Properties"]["FunctionName"]
        for logical_id, function in assembly.resources("AWS::Lambda::Function")
    }
    deployed = {
        called.removeprefix(f"peaker-{assembly.environment}-"): rule["ScheduleExpression"]
        for rule in rules(assembly).values()
        for target in rule["Targets"]
        if "ScheduleExpression" in rule and (called := called_function(target["Arn"], functions))
    }
    for name, seconds in SCHEDULES_OF_CLUSTERS.items():
        number, unit = deployed[name].removeprefix("rate(").removesuffix(")").split()
        assert float(number) * {"minute": 60, "hour": 3600}[unit.rstrip("s")] == seconds


def test_every_end_of_roll_back_but_success_wakes_a_person(assembly: Assembly) -> None:
    machine = f"peaker-{assembly.environment}-roll_back"
    ends = {
        f"{machine}-workflow-failed": "ExecutionsFailed",
        f"{machine}-workflow-timed-out": "ExecutionsTimedOut",
        f"{machine}-stopped-undo-incomplete": "ExecutionsAborted",
    }
    found = {name: alarm["MetricName"] for name, alarm in alarms(assembly).items() if machine in name}
    assert found == ends


def test_every_rule_has_an_alarm_on_its_dead_letter_queue(assembly: Assembly) -> None:
    watched = {
        alarm["Dimensions"][0]["Value"]
        for alarm in alarms(assembly).values()
        if alarm.get("Namespace") == "AWS/SQS"
    }
    failed = f"peaker-{assembly.environment}-failed-invocations"
    topics = (
        [f"peaker-{assembly.environment}-operator-alarms"]
        if assembly.properties("AWS::SNS::Subscription")
        else []
    )
    assert watched == {failed, *(f"{name}-undelivered" for name in (*rules(assembly), *topics))}
    assert watched == {queue["QueueName"] for queue in assembly.properties("AWS::SQS::Queue")}


def test_a_function_that_a_rule_calls_keeps_what_failed_for_the_last_time(assembly: Assembly) -> None:
    """EventBridge has delivered once Lambda took the event: what the function then raises is lost, or kept here."""
    functions = {
        logical_id: function["Properties"]["FunctionName"]
        for logical_id, function in assembly.resources("AWS::Lambda::Function")
    }
    called = {
        name
        for rule in rules(assembly).values()
        for target in rule["Targets"]
        if (name := called_function(target["Arn"], functions))
    }
    kept = {}
    for config in assembly.properties("AWS::Lambda::EventInvokeConfig"):
        assert (config["MaximumRetryAttempts"], config["Qualifier"]) == (2, "$LATEST")
        tries_seconds = 3 * max(one.timeout_seconds for one in FUNCTIONS if one.is_asynchronous)
        assert tries_seconds + 60 + 120 <= config["MaximumEventAgeInSeconds"] <= 3600, (
            "a look has a successor"
        )
        destination = config["DestinationConfig"]["OnFailure"]["Destination"]
        kept[functions[config["FunctionName"]["Ref"]]] = destination["Fn::GetAtt"][0]
    assert set(kept) == called
    queues = {
        logical_id: queue["Properties"]["QueueName"]
        for logical_id, queue in assembly.resources("AWS::SQS::Queue")
    }
    assert {queues[one] for one in kept.values()} == {f"peaker-{assembly.environment}-failed-invocations"}


def called_function(target: Any, functions: dict[str, str]) -> str | None:
    """The name of the function that a rule calls; None for a workflow."""
    if isinstance(target, str):
        return target.rsplit(":", 1)[1] if ":function:" in target else None
    return functions[target["Fn::GetAtt"][0]] if "Fn::GetAtt" in target else None


@pytest.mark.parametrize(
    ("alarm", "metric"), [("replica-shortage", "ReplicaShortage"), ("replica-surplus", "ReplicaSurplus")]
)
def test_trigger_alarm_watches_the_forecasts_metric(assembly: Assembly, alarm: str, metric: str) -> None:
    properties = alarms(assembly)[f"peaker-{assembly.environment}-orders-{alarm}"]
    assert (properties["Namespace"], properties["MetricName"]) == (f"Peaker/{assembly.environment}", metric)
    # I4: missing data neither adds nor removes.
    assert properties["TreatMissingData"] == "missing"


@pytest.mark.parametrize(
    ("rule", "workflow"), [("replica-shortage", "scale_out"), ("replica-surplus", "scale_in")]
)
def test_alarm_event_starts_its_workflow_with_the_trigger_named(
    assembly: Assembly, rule: str, workflow: str
) -> None:
    name = f"peaker-{assembly.environment}-orders-{rule}"
    properties = rules(assembly)[name]
    assert properties["EventPattern"]["detail"] == {
        "alarmName": [name],
        "state": {"value": ["ALARM"]},
        "muteDetail": {"mutedByArn": [{"exists": False}]},
    }
    [target] = properties["Targets"]
    assert target["Arn"].endswith(f":stateMachine:peaker-{assembly.environment}-{workflow}")
    # Placeholders stand unquoted: EventBridge quotes and escapes strings itself.
    filled = re.sub(r"<[\w-]+>", '"text"', target["InputTransformer"]["InputTemplate"])
    assert json.loads(filled) == {
        "cluster": "orders",
        "trigger": {"kind": "alarm", "alarm": "text", "reason": "text", "at": "text"},
    }


@pytest.mark.parametrize("workflow", ["replica-shortage", "replica-surplus"])
def test_a_muted_alarm_starts_nothing(local: Assembly, workflow: str) -> None:
    """The event is as in CloudWatch's guide, "Alarm events and EventBridge"."""
    name = f"peaker-local-orders-{workflow}"
    pattern = EventPattern.load(json.dumps(rules(local)[name]["EventPattern"]))
    detail: dict[str, object] = {"alarmName": name, "state": {"value": "ALARM"}}
    muted = {
        "mutedByArn": "arn:aws:cloudwatch:us-east-1:1:alarm-mute-rule:freeze",
        "muteWindowStart": "2026-01-01",
    }

    def starts(given: dict[str, object]) -> bool:
        event = {"source": "aws.cloudwatch", "detail-type": "CloudWatch Alarm State Change", "detail": given}
        return bool(pattern.matches_event(event))  # type: ignore[arg-type]

    assert starts(detail)
    assert not starts({**detail, "muteDetail": muted})


def test_every_alarm_names_a_runbook_that_exists(assembly: Assembly) -> None:
    for name, alarm in alarms(assembly).items():
        found = re.search(r"Runbook: (\S+)/([a-z-]+)\.md$", alarm["AlarmDescription"])
        assert found, name
        base = {"prod": "https://wiki.example.com/peaker/runbooks"}.get(assembly.environment, "docs/runbooks")
        assert found[1] == base, name
        assert (RUNBOOKS / f"{found[2]}.md").is_file(), name
        assert name.endswith(found[2]), name


# Runbooks that a person opens without an alarm of Peaker's.
BY_HAND = {
    "abort-run", "cost-overrun", "dead-letter", "empty-read-endpoint", "retire-replica-now", "stop-everything",
}  # fmt: skip


def test_every_runbook_is_an_alarms_or_a_persons_and_says_what_to_do(assembly: Assembly) -> None:
    named = {
        re.findall(r"[a-z-]+(?=\.md$)", alarm["AlarmDescription"])[0] for alarm in alarms(assembly).values()
    }
    of_pages = {"page-not-delivered"}  # where alarms page somebody
    assert of_pages <= named or not assembly.properties("AWS::SNS::Subscription")
    assert named | BY_HAND | of_pages == {path.stem for path in RUNBOOKS.glob("*.md")}
    for path in RUNBOOKS.glob("*.md"):
        without_code = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        headings = re.findall(r"^#+ (.+)$", without_code, re.MULTILINE)
        assert headings == [path.stem, "Confirm", "First actions", "Escalate"]


def test_the_page_has_the_rules_and_alarms_that_a_cluster_and_an_environment_count(prod: Assembly) -> None:
    page = (REPOSITORY / "docs" / "operating.md").read_text()
    of_a_cluster = [sum("-orders-" in name for name in found) for found in (rules(prod), alarms(prod))]
    assert (
        "({} a cluster), 50 Network Load Balancers (1), 5,000 alarms ({}, and".format(*of_a_cluster) in page
    )
    assert f" {len(alarms(prod))} alarms {len(alarms(prod)) / 10:.2f};" in page


def test_alarm_without_runbook_is_refused() -> None:
    with pytest.raises(ValueError, match=r"docs/runbooks/no-such-alarm.md, which does not exist"):
        runbook_description(cdk.Stack(), "Something is wrong.", "no-such-alarm")


def test_an_alarm_that_goes_off_before_the_first_schedule_says_so(prod: Assembly) -> None:
    """All periods before a cluster's deployment lack points; its operator must not roll the stack back."""
    breaching = {
        name: alarm
        for name, alarm in alarms(prod).items()
        if "-orders-" in name and alarm.get("TreatMissingData") == "breaching"
    }
    assert {name.removeprefix("peaker-prod-orders-") for name in breaching} == {
        "forecast-stale",
        "sweep-silent",
    }
    for name, alarm in breaching.items():
        assert "just deployed: wait for one schedule" in alarm["AlarmDescription"]
        runbook = (RUNBOOKS / f"{name.removeprefix('peaker-prod-orders-')}.md").read_text()
        assert runbook.splitlines()[2].startswith("The cluster was deployed just now: wait")


def test_every_metric_of_ours_that_is_watched_is_published(assembly: Assembly) -> None:
    dashboards = {one["DashboardName"]: one for one in assembly.properties("AWS::CloudWatch::Dashboard")}
    ours, prefix = f"Peaker/{assembly.environment}", f"peaker-{assembly.environment}"
    assert set(dashboards) == {prefix, f"{prefix}-orders"}
    of_all, of_one = (
        json.dumps(dashboards[name]["DashboardBody"]).replace("\\", "")
        for name in (prefix, f"{prefix}-orders")
    )
    shown = set(re.findall(rf'"{ours}","(\w+)"', of_one))
    shown |= set(re.findall(rf'{ours}",Cluster[^}}]*\}} MetricName="(\w+)"', of_all))
    watched = {a["MetricName"] for a in alarms(assembly).values() if a.get("Namespace") == ours}
    assert {"ReplicaShortage", "LeftoverSeconds", "Leftovers"} <= watched
    assert "LeadTimeSeconds" in shown
    sources = "".join(path.read_text() for path in (REPOSITORY / "functions" / "peaker").rglob("*.py"))
    assert {name for name in watched | shown if f"Metric.{Metric(name).name}" not in sources} == set()


def test_operator_alarms_reach_the_address_of_the_environment(prod: Assembly) -> None:
    [subscription] = prod.properties("AWS::SNS::Subscription")
    assert subscription["Endpoint"] == "dba-on-call@example.com"
    triggers = {"peaker-prod-orders-replica-shortage", "peaker-prod-orders-replica-surplus"}
    silent = {name for name, alarm in alarms(prod).items() if not alarm.get("AlarmActions")}
    assert silent == triggers


def test_only_the_end_of_a_lasting_state_is_told(prod: Assembly) -> None:
    """The end of a count of failed runs is five minutes without another, which nobody waits for."""
    told = {name for name, alarm in alarms(prod).items() if alarm.get("OKActions")}
    assert "peaker-prod-orders-rules-cannot-be-met" in told
    assert not [
        name
        for name in told
        if re.search(r"-(failed|timed-out|stopped-undo-incomplete|not-delivered)$", name)
    ]


def test_a_page_that_no_mail_server_takes_is_kept(prod: Assembly) -> None:
    """SNS gives a mail server 6 hours; without a redrive policy the page is then gone."""
    [subscription] = prod.properties("AWS::SNS::Subscription")
    queue_id = subscription["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
    queues = dict(prod.resources("AWS::SQS::Queue"))
    assert queues[queue_id]["Properties"]["QueueName"] == "peaker-prod-operator-alarms-undelivered"
    [policy] = [
        one["PolicyDocument"]["Statement"]
        for one in prod.properties("AWS::SQS::QueuePolicy")
        if one["Queues"] == [{"Ref": queue_id}]
    ]
    topics = {topic["Properties"]["TopicName"]: name for name, topic in prod.resources("AWS::SNS::Topic")}
    topic_id = topics["peaker-prod-operator-alarms"]
    [lets_in] = [one for one in policy if one["Effect"] == "Allow"]
    assert (lets_in["Principal"], lets_in["Action"]) == ({"Service": "sns.amazonaws.com"}, "sqs:SendMessage")
    assert lets_in["Condition"] == {"ArnEquals": {"aws:SourceArn": {"Ref": topic_id}}}


def test_environment_without_address_has_no_topic(local: Assembly) -> None:
    assert [one["TopicName"] for one in local.properties("AWS::SNS::Topic")] == ["peaker-local-chat"]


def test_chat_gets_starts_ends_and_refusals_in_the_form_of_a_custom_notification(assembly: Assembly) -> None:
    """The form is Amazon Q Developer's ("Custom notifications"); its placeholders are fields that every event has."""
    rule = rules(assembly)[f"peaker-{assembly.environment}-chat"]
    pattern = EventPattern.load(json.dumps(rule["EventPattern"]))
    event = input_refusal_event(
        assembly.environment,
        ExecutionRequest(operation="scale_out", execution_name="one", started_at=NOON),
        InvalidRequest('cluster: given "<!here>"'),
    )
    told = {
        "source": EVENT_SOURCE,
        "detail-type": event.detail_type,
        "time": to_iso(NOON),
        "detail": event.model_dump(mode="json"),
    }
    assert pattern.matches_event(told)  # type: ignore[arg-type]
    decision = {**told, "detail": {**told["detail"], "kind": "decision"}}  # type: ignore[dict-item]
    foreign = {**told, "detail": {**told["detail"], "environment": "other"}}  # type: ignore[dict-item]
    assert not any(pattern.matches_event(one) for one in (decision, foreign))  # type: ignore[arg-type]
    [target] = rule["Targets"]
    message = json.loads(target_payload(target, told, "arn:aws:events:us-east-1:1:rule/chat"))
    assert (message["version"], message["source"]) == ("1.0", "custom")
    content = message["content"]
    assert (content["title"], content["nextSteps"]) == (event.title, [event.next])
    assert content["description"] == 'cluster: given "‹!here›"'
    assert message["metadata"] == {"threadId": event.thread, "eventType": "Peaker Run Refused"}
    [policy] = [
        one["PolicyDocument"]["Statement"]
        for one in assembly.properties("AWS::SNS::TopicPolicy")
        if one["Topics"] == [target["Arn"]]
    ]
    [lets_in] = [one for one in policy if one["Effect"] == "Allow"]
    assert (lets_in["Principal"], lets_in["Action"]) == ({"Service": "events.amazonaws.com"}, "sns:Publish")
