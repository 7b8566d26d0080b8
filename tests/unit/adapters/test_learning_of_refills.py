"""What a refill of an expired parked replica teaches: returns and builds what it does as they do, and nothing else."""

from __future__ import annotations

import boto3
from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.domain.planning.learning.fills import PastFills
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.runs.batch import Member
from peaker.domain.runs.failure import Failure

from peaker_contract.steps import Method
from tests.unit.adapters.test_forecast_adapters import NOW, READ, aws, finish, kept, records, returning_plan

__all__ = ["aws", "records"]

REFILLED = Member(batch="run-0", number=1, method=Method.REFILL, fills=True)
REFUSED = Failure(failed_step="FillVolumes/StartPrewarm", error="PrewarmFailed", cause="UNRELATED_SNAPSHOTS")


def refilling_plan() -> ScaleOutPlan:
    plan = returning_plan()
    assert plan.method is not None
    return plan.model_copy(update={"method": plan.method.model_copy(update={"action": "refill"})})


def test_a_refill_teaches_how_its_instance_starts_and_no_fill_no_catch_up_and_no_database_start(
    records: DynamoForecastRecords,
) -> None:
    """Its database replays a log and is behind by an hour at most; in proportion to a terabyte its fill takes days."""
    ledger = DynamoDbLedger(LedgerTable(boto3.client("dynamodb"), "ledger"))
    holder = kept(ledger, 0, REFILLED.model_copy(update={"state": "in_service"}), refilling_plan())
    finish(ledger, holder, "PrepareDonor", 0, 1, {"buffer_pool_pages": 100})
    finish(ledger, holder, "StartParkedReplica", 1, 2)
    finish(ledger, holder, "SnapshotOwnVolumes", 2, 4)
    finish(ledger, holder, "StartPrewarm", 4, 5)
    finish(ledger, holder, "ReportPrewarm", 5, 6, READ)
    finish(ledger, holder, "StartDatabase", 6, 9)
    finish(ledger, holder, "VerifyStorage", 9, 10)
    finish(ledger, holder, "WaitForCatchUp", 9, 12, {"samples": [{"lag_seconds": 1800.0}]})
    finish(ledger, holder, "AwaitHealthy", 12, 13)
    past = records.past_steps("orders")
    assert past.returned == {"StartParkedReplica": [60.0], "AwaitHealthy": [60.0]}
    assert past.seconds == {"PrepareDonor": [60.0]}
    assert list(past.pool_bytes) == [100 * 16384]
    assert past.fills == past.refills == PastFills()
    learned = (past.return_speeds, past.apply_speeds, past.hydrated_bytes, past.copies, past.hot_shares)
    assert not any(learned)


def test_one_that_aws_refused_is_known_for_refills_alone_until_another_one_has_ended(
    records: DynamoForecastRecords,
) -> None:
    ledger = DynamoDbLedger(LedgerTable(boto3.client("dynamodb"), "ledger"))
    kept(ledger, 0, REFILLED.model_copy(update={"state": "gone", "failure": REFUSED}), refilling_plan())
    past = records.past_steps("orders")
    assert (past.fills.failed, past.clones.failed) == (None, None)
    assert "UNRELATED_SNAPSHOTS" in str(past.refills.why_not_again(NOW))
    kept(ledger, 1, REFILLED.model_copy(update={"state": "in_service"}), refilling_plan())
    assert records.past_steps("orders").refills.failed is None


def test_a_direct_fill_that_failed_says_nothing_of_a_refill(records: DynamoForecastRecords) -> None:
    """The plan asks for both: where no host may read a snapshot's blocks none is refilled either."""
    ledger = DynamoDbLedger(LedgerTable(boto3.client("dynamodb"), "ledger"))
    failed = REFILLED.model_copy(update={"method": Method.BUILD, "state": "gone", "failure": REFUSED})
    kept(ledger, 0, failed)
    past = records.past_steps("orders")
    assert (past.refills.failed, past.fills.failed is None) == (None, False)
