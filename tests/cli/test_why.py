"""`peaker why` by the ledger's newest record, and of an earlier time by the check's log or its published figures."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from tests.support.deployed_product import DeployedProduct, eventually


@pytest.fixture
def newest(product: DeployedProduct) -> dict[str, object]:
    """A check of now, as the ledger has it."""
    product.cloud.client("lambda").invoke(
        FunctionName="peaker-local-forecast_load", Payload=json.dumps({"cluster": "orders"}).encode()
    )
    told = product.peaker("why", "orders", "--json").document
    assert told["check"]["reason"] in told["sentences"][0]
    return dict(told["check"])


def test_of_an_earlier_time_the_published_figures_tell_what_was_needed(
    product: DeployedProduct, newest: dict[str, object]
) -> None:
    def published() -> tuple[object, ...]:
        """CloudWatch has a point some time after it was written."""
        earlier = product.peaker("why", "orders", "--at", str(newest["at"]), "--json")
        check = earlier.document["check"] if earlier.status == 0 else {}
        return check.get("required"), check.get("serving")

    eventually(lambda: published() == (newest["required"], newest["serving"]))


def test_the_log_tells_the_reason_too(product: DeployedProduct, newest: dict[str, object]) -> None:
    logs, group = product.cloud.client("logs"), "/aws/lambda/peaker-local-forecast_load"
    logs.create_log_stream(logGroupName=group, logStreamName="of-the-test")
    report = {**newest, "reason": "it was logged"}
    line = {
        "timestamp": int(datetime.fromisoformat(str(newest["at"])).timestamp() * 1000),
        "message": json.dumps({"level": "INFO", "report": report}),
    }
    logs.put_log_events(logGroupName=group, logStreamName="of-the-test", logEvents=[line])
    told = product.peaker("why", "orders", "--at", str(newest["at"]))
    assert (told.status, "it was logged" in told.out) == (0, True), told


def test_a_time_that_is_none_or_has_not_come_is_refused(product: DeployedProduct) -> None:
    for at, said in (("noon", "is not a time with its zone"), ("2100-01-01T00:00:00Z", "has not come yet")):
        refused = product.peaker("why", "orders", "--at", at)
        assert refused.status == 2
        assert "--at" in refused.err
        assert said in refused.err.replace("\n", " ")
