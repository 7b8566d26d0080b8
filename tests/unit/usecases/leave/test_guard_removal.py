"""CloudFormation asks; it is answered whatever happens."""

from __future__ import annotations

from typing import Any

import pytest
from peaker.usecases.leave.guard_removal import RemovalRequest, guard_removal

from peaker_contract.errors import AwsUnavailable
from tests.support.fakes import FakePorts, fake_ports


class Answers:
    """The address of the request."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, url: str, answer: dict[str, Any]) -> None:
        assert url == "https://cloudformation.example/answer?signature=secret"
        self.sent.append(answer)


def asked(kind: str = "Delete") -> RemovalRequest:
    return RemovalRequest.model_validate(
        {
            "RequestType": kind,
            "ResponseURL": "https://cloudformation.example/answer?signature=secret",
            "StackId": "arn:aws:cloudformation:us-east-1:1:stack/Peaker-prod-orders/1",
            "RequestId": "r-1",
            "LogicalResourceId": "RemovalGuard",
            "ResourceProperties": {"ServiceToken": "arn", "Cluster": "orders"},
        }
    )


def answer(ports: FakePorts, kind: str = "Delete") -> dict[str, Any]:
    answers = Answers()
    guard_removal(ports, answers, asked(kind))
    [sent] = answers.sent
    return sent


@pytest.mark.parametrize("kind", ["Create", "Update", "Delete"])
def test_without_replicas_every_request_succeeds_under_the_same_id(kind: str) -> None:
    sent = answer(fake_ports(), kind)
    assert (sent["Status"], sent["PhysicalResourceId"]) == ("SUCCESS", "removal-guard-orders")
    assert {sent["StackId"][-2:], sent["RequestId"], sent["LogicalResourceId"]} == {
        "/1",
        "r-1",
        "RemovalGuard",
    }


def test_what_cannot_be_looked_at_keeps_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """I4"""
    ports = fake_ports()

    def throttled(cluster: str) -> None:
        raise AwsUnavailable("dynamodb:Query: throttled")

    monkeypatch.setattr(ports.ledger, "replicas", throttled)
    sent = answer(ports)
    assert sent["Status"] == "FAILED"
    assert "cannot be told" in sent["Reason"]
