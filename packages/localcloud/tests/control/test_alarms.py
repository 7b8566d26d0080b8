"""Alarms: the state that data gives, missing data included, and what a change of state sets off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cloud_rig.control import Control, control, eventually, unique
from localcloud.extensions.cloudwatch import alarms
from localcloud.extensions.cloudwatch.alarm_rules import AlarmRule, judge

SCALE = 600
# A period that lasts minutes here too: what is put is still in it when a busy machine comes to look.
LONG = 86_400


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud")), clock_scale=SCALE) as opened:
        yield opened


def alarm_rule(
    missing: str, periods: int, to_alarm: int, comparison: str = "GreaterThanThreshold"
) -> AlarmRule:
    return AlarmRule(("N", "M", ()), "Average", 60, periods, to_alarm, 5.0, comparison, missing)


def window(picture: str) -> list[float | None]:
    """Points as the CloudWatch user guide draws them: 0 is not breaching, X is breaching, - is missing."""
    return [{"0": 0.0, "X": 9.0, "-": None}[sign] for sign in picture.split()]


# After the tables of "Configuring how CloudWatch alarms treat missing data": missing, ignore, breaching, notBreaching.
TABLE_3_OF_3 = [
    ("0 - X - X", "OK OK OK OK"),
    ("0 - - - -", "OK OK OK OK"),
    ("- - - - -", "INSUFFICIENT_DATA kept ALARM OK"),
    ("0 X X - X", "ALARM ALARM ALARM ALARM"),
    ("- - X - -", "ALARM kept ALARM OK"),
]
TABLE_2_OF_3 = [
    ("0 - X - X", "ALARM ALARM ALARM ALARM"),
    ("0 0 X 0 X", "ALARM ALARM ALARM ALARM"),
    ("0 - X - -", "OK OK ALARM OK"),
    ("- - - - 0", "OK OK ALARM OK"),
    ("- - - X -", "ALARM kept ALARM OK"),
]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize(
    ("picture", "states", "to_alarm"),
    [(*row, 3) for row in TABLE_3_OF_3] + [(*row, 2) for row in TABLE_2_OF_3],
)
def test_missing_data_is_treated_as_in_the_user_guide(
    picture: str, states: str, to_alarm: int, index: int
) -> None:
    missing = ("missing", "ignore", "breaching", "notBreaching")[index]
    verdict = judge(alarm_rule(missing, 3, to_alarm), window(picture), "OK")
    assert verdict.state == states.split()[index].replace("kept", "OK")
    kept = judge(alarm_rule(missing, 3, to_alarm), window(picture), "INSUFFICIENT_DATA")
    assert kept.state == states.split()[index].replace("kept", "INSUFFICIENT_DATA")


def test_one_new_breaching_point_is_not_yet_an_alarm_of_three() -> None:
    assert (
        judge(alarm_rule("missing", 3, 3), window("- - - - X"), "INSUFFICIENT_DATA").state
        == "INSUFFICIENT_DATA"
    )


@pytest.mark.parametrize(
    ("comparison", "at_threshold"),
    [
        ("GreaterThanThreshold", "OK"),
        ("GreaterThanOrEqualToThreshold", "ALARM"),
        ("LessThanThreshold", "OK"),
        ("LessThanOrEqualToThreshold", "ALARM"),
    ],
)
def test_the_threshold_itself(comparison: str, at_threshold: str) -> None:
    assert judge(alarm_rule("missing", 1, 1, comparison), [5.0], "OK").state == at_threshold


def make_alarm(aws: Control, **options: Any) -> str:
    name = unique("alarm")
    request = {
        "AlarmName": name,
        "Namespace": "N",
        "MetricName": name,
        "Statistic": "Average",
        "Period": LONG,
        "EvaluationPeriods": 1,
        "Threshold": 5.0,
        "ComparisonOperator": "GreaterThanThreshold",
        "AlarmDescription": "for a test",
        **options,
    }
    aws.cloudwatch.put_metric_alarm(**request)
    return name


def state(aws: Control, name: str) -> str:
    return str(aws.cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]["StateValue"])


def put(aws: Control, name: str, *values: float) -> None:
    aws.cloudwatch.put_metric_data(Namespace="N", MetricData=[{"MetricName": name, "Values": list(values)}])


def test_an_alarm_starts_without_data_goes_off_and_comes_back(aws: Control) -> None:
    name = make_alarm(aws, TreatMissingData="notBreaching")
    assert state(aws, name) in ("INSUFFICIENT_DATA", "OK")
    put(aws, name, 9)
    eventually(lambda: state(aws, name) == "ALARM")
    aws.cloud.clock.set(now=aws.cloud.clock.now() + timedelta(days=10))
    eventually(lambda: state(aws, name) == "OK")


def test_an_alarm_that_cannot_be_evaluated_is_told_and_keeps_no_other_from_its_turn(
    aws: Control, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, rule_of = make_alarm(aws, TreatMissingData="breaching"), alarms.rule_of

    def rule_of_all_but_one(alarm: Any) -> AlarmRule:
        if alarm.name == broken:
            raise RuntimeError("dictionary changed size during iteration")
        return rule_of(alarm)

    monkeypatch.setattr(alarms, "rule_of", rule_of_all_but_one)
    eventually(lambda: f"evaluation of alarm {broken} failed" in caplog.text)
    other = make_alarm(aws, TreatMissingData="breaching")
    eventually(lambda: state(aws, other) == "ALARM")


def test_a_change_of_state_is_an_event_as_aws_shapes_it(aws: Control) -> None:
    url, arn = aws.queue()
    name = make_alarm(aws, TreatMissingData="ignore", Dimensions=[{"Name": "Cluster", "Value": "orders"}])
    pattern = {"source": ["aws.cloudwatch"], "detail": {"alarmName": [name], "state": {"value": ["ALARM"]}}}
    aws.events.put_rule(Name=name, EventPattern=json.dumps(pattern))
    aws.events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn}])
    datum = {"MetricName": name, "Value": 9, "Dimensions": [{"Name": "Cluster", "Value": "orders"}]}
    aws.cloudwatch.put_metric_data(Namespace="N", MetricData=[datum])
    event = eventually(lambda: aws.messages(url))[0]
    assert event["detail-type"] == "CloudWatch Alarm State Change"
    assert event["resources"] == [f"arn:aws:cloudwatch:us-east-1:123456789012:alarm:{name}"]
    detail = event["detail"]
    assert detail["state"]["value"] == "ALARM"
    assert detail["previousState"]["value"] in ("OK", "INSUFFICIENT_DATA")
    assert json.loads(detail["state"]["reasonData"])["recentDatapoints"] == [9.0]
    assert detail["state"]["timestamp"].endswith("+0000")
    metric = detail["configuration"]["metrics"][0]["metricStat"]["metric"]
    assert metric == {"namespace": "N", "name": name, "dimensions": {"Cluster": "orders"}}


def test_disabled_actions_stay_quiet_but_the_event_is_sent(aws: Control) -> None:
    url, queue_arn = aws.queue()
    topic = aws.sns.create_topic(Name=unique("topic"))["TopicArn"]
    aws.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn)
    name = make_alarm(aws, AlarmActions=[topic], ActionsEnabled=False, TreatMissingData="ignore")
    event_url, event_arn = aws.queue()
    aws.events.put_rule(Name=name, EventPattern=json.dumps({"detail": {"alarmName": [name]}}))
    aws.events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": event_arn}])
    aws.cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="by hand")
    assert eventually(lambda: aws.messages(event_url))[0]["detail"]["state"]["reason"] == "by hand"
    assert not aws.messages(url)


def test_a_new_definition_keeps_the_state(aws: Control) -> None:
    name = make_alarm(aws, TreatMissingData="ignore")
    aws.cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="by hand")
    aws.cloudwatch.put_metric_alarm(
        AlarmName=name,
        Namespace="N",
        MetricName=name,
        Statistic="Average",
        Period=60,
        EvaluationPeriods=2,
        Threshold=7,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="ignore",
    )
    assert state(aws, name) == "ALARM"


def test_all_filters_of_a_list_of_alarms_hold_together(aws: Control) -> None:
    names = [unique("filtered") for _ in range(2)]
    for name, missing in zip(names, ("breaching", "notBreaching"), strict=True):
        aws.cloudwatch.put_metric_alarm(
            AlarmName=name,
            Namespace="Silence",
            MetricName=name,
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=5,
            ComparisonOperator="GreaterThanThreshold",
            TreatMissingData=missing,
        )

    def in_alarm() -> list[str]:
        found = aws.cloudwatch.describe_alarms(AlarmNamePrefix="filtered", StateValue="ALARM")
        return [one["AlarmName"] for one in found["MetricAlarms"]]

    eventually(lambda: in_alarm() == [names[0]])
    assert aws.cloudwatch.describe_alarms(AlarmNames=[names[1]], StateValue="ALARM")["MetricAlarms"] == []
