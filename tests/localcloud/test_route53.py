"""Route 53 of the local cloud: records set through the API, asked for over DNS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from dnslib import RCODE, DNSRecord

from tests.localcloud.control import Control, control, eventually

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
    return DNSRecord.parse(question.send("127.0.0.1", aws.cloud.dns_port, timeout=3))


def answers(aws: Control, name: str = NAME, kind: str = "A") -> list[str]:
    return [str(row.rdata) for row in ask(aws, name, kind).rr]


def test_a_change_is_pending_and_answered_when_it_is_in_sync(aws: Control, zone: str) -> None:
    assert ask(aws).header.rcode == RCODE.NXDOMAIN
    first = change(aws, zone, "CREATE", values=["10.77.1.10"])
    assert status(aws, first) == "PENDING"
    assert answers(aws) == []
    eventually(lambda: status(aws, first) == "INSYNC")
    assert answers(aws) == ["10.77.1.10"]
    assert answers(aws, NAME.upper()) == ["10.77.1.10"]
    assert ask(aws, kind="TXT").header.rcode == RCODE.NOERROR
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


def test_the_ttl_lasts_in_cloud_time(aws: Control, zone: str) -> None:
    weighted(aws, zone, a=1)
    assert ask(aws).rr[0].ttl == 1  # 60 cloud seconds at 60 to 1
    aws.cloud.clock.set(scale=1)
    assert ask(aws).rr[0].ttl == 60


def test_a_cname_is_followed_and_several_values_come_together(aws: Control, zone: str) -> None:
    change(aws, zone, "CREATE", values=["10.77.1.1", "10.77.1.2"])
    last = change(aws, zone, "CREATE", Name=f"alias.{NAME}", Type="CNAME", values=[f"{NAME}."])
    eventually(lambda: status(aws, last) == "INSYNC")
    assert sorted(answers(aws, f"alias.{NAME}")) == ["10.77.1.1", "10.77.1.2", f"{NAME}."]


def test_an_unknown_change_is_an_error(aws: Control) -> None:
    with pytest.raises(ClientError) as error:
        aws.route53.get_change(Id="C0123456789ABCDEF")
    assert error.value.response["Error"]["Code"] == "NoSuchChange"


def test_the_port_is_shown_and_closed_with_the_cloud(tmp_path: Path) -> None:
    with control(tmp_path) as opened:
        assert opened.cloud.describe()["dns"] == f"127.0.0.1:{opened.cloud.dns_port}"
    with pytest.raises(OSError, match=r"timed out|refused"):
        DNSRecord.question(NAME).send("127.0.0.1", opened.cloud.dns_port, timeout=0.3)
