"""Route 53 of the local cloud: records set through the API, asked for over DNS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from dnslib import RCODE, DNSRecord

from cloud_rig.control import Control, control, eventually

NAME = "reads.orders.example"


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Control]:
    with control(tmp_path, clock_scale=60) as opened:
        yield opened


@pytest.fixture
def zone(aws: Control) -> str:
    answer = aws.route53.create_hosted_zone(Name="orders.example", CallerReference="1")
    return str(answer["HostedZone"]["Id"])


def change(aws: Control, zone: str, action: str, **record: Any) -> str:
    """Change one record; the id of the change."""
    values = [{"Value": value} for value in record.pop("values")]
    changes = [
        {
            "Action": action,
            "ResourceRecordSet": {"Name": NAME, "TTL": 60, "Type": "A", "ResourceRecords": values, **record},
        }
    ]
    with aws.in_real_time():  # it is pending for twenty seconds at least, however slow the answer
        answer = aws.route53.change_resource_record_sets(HostedZoneId=zone, ChangeBatch={"Changes": changes})
    assert answer["ChangeInfo"]["Status"] == "PENDING"
    return str(answer["ChangeInfo"]["Id"])


def status(aws: Control, change_id: str) -> str:
    return str(aws.route53.get_change(Id=change_id)["ChangeInfo"]["Status"])


def weighted(aws: Control, zone: str, **weights: int) -> None:
    """Records 10.77.1.1, 10.77.1.2... by set identifier and weight, in force on return."""
    for number, (name, weight) in enumerate(weights.items(), 1):
        values = [f"10.77.1.{number}"]
        last = change(aws, zone, "UPSERT", SetIdentifier=name, Weight=weight, values=values)
    eventually(lambda: status(aws, last) == "INSYNC")


def ask(aws: Control, name: str = NAME, kind: str = "A") -> DNSRecord:
    question = DNSRecord.question(name, kind)
    return DNSRecord.parse(question.send("127.0.0.1", aws.cloud.dns_port, timeout=60))


def answers(aws: Control, name: str = NAME, kind: str = "A") -> list[str]:
    return [str(row.rdata) for row in ask(aws, name, kind).rr]


def test_a_change_is_pending_and_answered_when_it_is_in_sync(aws: Control, zone: str) -> None:
    assert ask(aws).header.rcode == RCODE.NXDOMAIN
    with aws.in_real_time():  # twenty real seconds at least, for however slow a machine
        first = change(aws, zone, "CREATE", values=["10.77.1.10"])
        assert status(aws, first) == "PENDING"
        assert answers(aws) == []
    eventually(lambda: status(aws, first) == "INSYNC")
    assert answers(aws) == ["10.77.1.10"]
    assert answers(aws, NAME.upper()) == ["10.77.1.10"]
    assert ask(aws, kind="TXT").header.rcode == RCODE.NOERROR
    with aws.in_real_time():
        second = change(aws, zone, "DELETE", values=["10.77.1.10"])
        assert answers(aws) == ["10.77.1.10"]
    eventually(lambda: status(aws, second) == "INSYNC")
    assert ask(aws).header.rcode == RCODE.NXDOMAIN


def test_weighted_records_are_drawn_by_their_weights(aws: Control, zone: str) -> None:
    weighted(aws, zone, a=45, b=45, newcomer=10)
    drawn = Counter(answers(aws)[0] for _ in range(400))
    # Five standard deviations of 400 fair draws.
    assert drawn["10.77.1.3"] == pytest.approx(40, abs=30)
    assert drawn["10.77.1.1"] == pytest.approx(180, abs=50)
    weighted(aws, zone, a=0, b=1, newcomer=0)
    assert {answers(aws)[0] for _ in range(50)} == {"10.77.1.2"}
    weighted(aws, zone, a=0, b=0, newcomer=0)
    assert len({answers(aws)[0] for _ in range(100)}) == 3


def with_health_check(aws: Control, name: str, **config: Any) -> str:
    """A health check on a new alarm of that name, which has no data yet; the health check's id."""
    aws.cloudwatch.put_metric_alarm(
        AlarmName=name,
        Namespace="Peaker",
        MetricName=name,
        Period=86_400,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="LessThanThreshold",
        Statistic="Minimum",
        TreatMissingData="ignore",
    )
    wanted = {
        "Type": "CLOUDWATCH_METRIC",
        "AlarmIdentifier": {"Region": "us-east-1", "Name": name},
        "InsufficientDataHealthStatus": "Unhealthy",
        **config,
    }
    answer = aws.route53.create_health_check(CallerReference=f"{name}-1", HealthCheckConfig=wanted)
    assert answer["HealthCheck"]["HealthCheckConfig"] == wanted
    return str(answer["HealthCheck"]["Id"])


def turn(aws: Control, **states: str) -> None:
    """Set alarms to OK, ALARM or INSUFFICIENT_DATA."""
    for name, state in states.items():
        aws.cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="a test says so")


def answered(aws: Control) -> set[str]:
    return {answers(aws)[0] for _ in range(60)}


@pytest.fixture
def checked(aws: Control, zone: str) -> dict[str, str]:
    """Records 10.77.1.1 and 10.77.1.2 of the same weight, healthy, and 10.77.1.3 of weight 0; ids of their checks."""
    checks = {}
    for number, (name, weight) in enumerate({"one": 10, "two": 10, "spare": 0}.items(), 1):
        checks[name] = with_health_check(aws, name)
        values = [f"10.77.1.{number}"]
        record = {"SetIdentifier": name, "Weight": weight, "HealthCheckId": checks[name], "values": values}
        last = change(aws, zone, "UPSERT", **record)
    turn(aws, one="OK", two="OK", spare="OK")
    eventually(lambda: status(aws, last) == "INSYNC")
    return checks


def test_a_record_whose_alarm_sounds_is_not_answered(aws: Control, checked: dict[str, str]) -> None:
    """AWS: if the health check is unhealthy, Route 53 stops answering with the record's value."""
    assert answered(aws) == {"10.77.1.1", "10.77.1.2"}
    turn(aws, one="ALARM")
    assert answered(aws) == {"10.77.1.2"}
    turn(aws, one="OK")
    assert answered(aws) == {"10.77.1.1", "10.77.1.2"}


def test_records_of_weight_0_are_answered_when_no_heavier_one_is_healthy(
    aws: Control, checked: dict[str, str]
) -> None:
    """AWS: if all records of a weight above 0 are unhealthy, the zero-weighted ones are considered."""
    turn(aws, one="ALARM", two="ALARM")
    assert answered(aws) == {"10.77.1.3"}


def test_when_all_are_unhealthy_all_are_taken_for_healthy(aws: Control, checked: dict[str, str]) -> None:
    """AWS: if all records of the group are unhealthy, Route 53 considers all of them healthy."""
    turn(aws, one="ALARM", two="ALARM", spare="ALARM")
    assert answered(aws) == {"10.77.1.1", "10.77.1.2"}


@pytest.mark.parametrize(
    ("status_without_data", "expected"),
    [("Unhealthy", {"10.77.1.2"}), ("Healthy", {"10.77.1.1", "10.77.1.2"})],
)
def test_without_data_the_health_check_has_the_status_that_was_asked_for(
    aws: Control, zone: str, checked: dict[str, str], status_without_data: str, expected: set[str]
) -> None:
    """AWS: InsufficientDataHealthStatus is the status while the alarm lacks data."""
    new = with_health_check(aws, "new", InsufficientDataHealthStatus=status_without_data)
    values = ["10.77.1.1"]
    last = change(aws, zone, "UPSERT", SetIdentifier="one", Weight=10, HealthCheckId=new, values=values)
    eventually(lambda: status(aws, last) == "INSYNC")
    assert answered(aws) == expected


def test_a_health_check_s_reference_is_asked_for_again_but_never_used_again(aws: Control) -> None:
    """AWS: the same request gives the same health check; a deleted one's CallerReference stays taken."""
    first = with_health_check(aws, "once")
    assert with_health_check(aws, "once") == first
    for config in ({"InsufficientDataHealthStatus": "Healthy"}, {}):
        if not config:
            aws.route53.delete_health_check(HealthCheckId=first)
        with pytest.raises(ClientError) as error:
            with_health_check(aws, "once", **config)
        assert error.value.response["Error"]["Code"] == "HealthCheckAlreadyExists"
    with pytest.raises(ClientError) as gone:
        aws.route53.delete_health_check(HealthCheckId=first)
    assert gone.value.response["Error"]["Code"] == "NoSuchHealthCheck"


def test_a_health_check_on_an_alarm_that_is_not_there_is_refused(aws: Control) -> None:
    config = {"Type": "CLOUDWATCH_METRIC", "AlarmIdentifier": {"Region": "us-east-1", "Name": "nothing"}}
    with pytest.raises(ClientError) as error:
        aws.route53.create_health_check(CallerReference="1", HealthCheckConfig=config)
    assert error.value.response["Error"]["Code"] == "InvalidInput"


REFUSED = {
    "a weight above 255": ("UPSERT", {"SetIdentifier": "b", "Weight": 256}, "InvalidInput", "between 0 and 255"),
    "a weight without an identifier": ("UPSERT", {"Weight": 1}, "InvalidInput", "Missing field 'SetIdentifier'"),
    "an identifier without a weight": ("UPSERT", {"SetIdentifier": "b"}, "InvalidInput", "found none"),
    "two values of one weight": (
        "UPSERT", {"SetIdentifier": "b", "Weight": 1, "values": ["10.77.1.8", "10.77.1.9"]}, "InvalidInput",
        "one value",
    ),
    "another TTL than its set": (
        "UPSERT", {"SetIdentifier": "b", "Weight": 1, "TTL": 30}, "InvalidChangeBatch", "the same TTL",
    ),
    "a simple record beside weighted ones": ("UPSERT", {}, "InvalidChangeBatch", "another routing policy"),
    "a health check that is not there": (
        "UPSERT", {"SetIdentifier": "b", "Weight": 1, "HealthCheckId": "nothing"}, "NoSuchHealthCheck", "nothing",
    ),
    "making what is there": ("CREATE", {"SetIdentifier": "a", "Weight": 1}, "InvalidChangeBatch", "already exists"),
    "deleting what is not there": (
        "DELETE", {"SetIdentifier": "b", "Weight": 10}, "InvalidChangeBatch", "was not found",
    ),
    "deleting with another weight": (
        "DELETE", {"SetIdentifier": "a", "Weight": 11}, "InvalidChangeBatch", "do not match the current values",
    ),
    "deleting with another value": (
        "DELETE", {"SetIdentifier": "a", "Weight": 10, "values": ["10.77.1.9"]}, "InvalidChangeBatch",
        "do not match the current values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", REFUSED)
def test_a_batch_that_route_53_refuses_changes_nothing(aws: Control, zone: str, situation: str) -> None:
    """AWS: the batch is refused as a whole, with a code and the record in question."""
    change(aws, zone, "UPSERT", SetIdentifier="a", Weight=10, values=["10.77.1.1"])
    before = aws.route53.list_resource_record_sets(HostedZoneId=zone)["ResourceRecordSets"]
    action, record, code, words = REFUSED[situation]
    with pytest.raises(ClientError, match=words) as error:
        change(aws, zone, action, **{"values": ["10.77.1.1"], **record})
    assert error.value.response["Error"]["Code"] == code
    assert aws.route53.list_resource_record_sets(HostedZoneId=zone)["ResourceRecordSets"] == before


def test_a_deletion_leaves_records_of_other_names_with_the_same_identifier(aws: Control, zone: str) -> None:
    weighted(aws, zone, a=10)
    change(aws, zone, "UPSERT", Name=f"other.{NAME}", SetIdentifier="a", Weight=10, values=["10.77.1.7"])
    last = change(aws, zone, "DELETE", SetIdentifier="a", Weight=10, values=["10.77.1.1"])
    eventually(lambda: status(aws, last) == "INSYNC")
    assert answers(aws) == []
    assert answers(aws, f"other.{NAME}") == ["10.77.1.7"]


def test_a_whole_set_changes_its_ttl_in_one_batch(aws: Control, zone: str) -> None:
    """AWS: the records of a set have one TTL, before and after a batch, not within it."""
    weighted(aws, zone, a=10, b=10)
    changes = [
        {
            "Action": "UPSERT",
            "ResourceRecordSet": {
                "Name": NAME, "Type": "A", "TTL": 30, "SetIdentifier": name, "Weight": 10,
                "ResourceRecords": [{"Value": f"10.77.1.{number}"}],
            },
        }
        for number, name in enumerate("ab", 1)
    ]  # fmt: skip
    aws.route53.change_resource_record_sets(HostedZoneId=zone, ChangeBatch={"Changes": changes})
    listed = aws.route53.list_resource_record_sets(HostedZoneId=zone)["ResourceRecordSets"]
    assert {one["TTL"] for one in listed if one["Type"] == "A"} == {30}


def test_the_ttl_lasts_in_cloud_time(aws: Control, zone: str) -> None:
    weighted(aws, zone, a=1)
    assert ask(aws).rr[0].ttl == 1  # 60 cloud seconds at 60 to 1
    aws.cloud.clock.set(scale=1)
    assert ask(aws).rr[0].ttl == 60
