"""The composition: adapters behind ports, made once per warm function and only when they are used."""

from __future__ import annotations

import os
from functools import lru_cache

from peaker.adapters.aws_clients import ASKED_ASIDE_CONFIG, SINGLE_TRY_CONFIG, lazy_client, pricing_client
from peaker.adapters.aws_price_list import AwsPriceList
from peaker.adapters.cloudwatch.metrics import CloudWatchLoadHistory, CloudWatchMetricPublisher
from peaker.adapters.cloudwatch.readings import CloudWatchReadings
from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ec2.snapshot_blocks import EbsSnapshotBlocks
from peaker.adapters.ec2.storage import Ec2Storage
from peaker.adapters.ec2.volume_keys import KmsVolumeKeys
from peaker.adapters.eventbridge_events import EventBridgeEvents
from peaker.adapters.read_endpoint.by_kind import read_endpoints
from peaker.adapters.s3_files import S3HostPackage, S3RunFiles
from peaker.adapters.service_quotas import AwsServiceQuotas
from peaker.adapters.sns_operators import SnsOperators
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker.adapters.ssm.commands import SsmCommands
from peaker.adapters.ssm.prices import ParameterPrices
from peaker.adapters.step_functions_executions import StepFunctionsExecutions
from peaker.ports.bundle import Ports
from peaker.runtime.clock import clock_from_environment

# What the stack gives every function.
VARIABLES = (
    "PEAKER_ENVIRONMENT",
    "LEDGER_TABLE",
    "HOST_PACKAGE_BUCKET",
    "HOST_PACKAGE_KEY",
    "HOST_PACKAGE_SHA256",
    "RUN_FILES_BUCKET",
    "STATE_MACHINE_PREFIX",
)


@lru_cache(maxsize=1)
def ports() -> Ports:
    """All ports on AWS. Raises RuntimeError that names the variables that the stack should give and did not."""
    given = os.environ
    if missing := [name for name in VARIABLES if not given.get(name)]:
        raise RuntimeError(f"environment variables are missing: {', '.join(missing)}; deploy again")
    environment = given["PEAKER_ENVIRONMENT"]
    ec2 = lazy_client("ec2")
    ssm = lazy_client("ssm")
    dynamodb = lazy_client("dynamodb")
    table = LedgerTable(dynamodb, given["LEDGER_TABLE"])
    ledger = DynamoDbLedger(table)
    cloudwatch, s3 = lazy_client("cloudwatch"), lazy_client("s3")
    return Ports(
        environment=environment,
        clock=clock_from_environment(),
        clusters=ParameterClusters(ssm, environment),
        compute=Ec2Compute(ec2, environment),
        storage=Ec2Storage(ec2, lazy_client("ec2", SINGLE_TRY_CONFIG), environment),
        commands=SsmCommands(
            lazy_client("ssm", ASKED_ASIDE_CONFIG), lazy_client("ssm", SINGLE_TRY_CONFIG), environment
        ),
        endpoint=read_endpoints(lazy_client),
        package=S3HostPackage(
            s3, given["HOST_PACKAGE_BUCKET"], given["HOST_PACKAGE_KEY"], given["HOST_PACKAGE_SHA256"]
        ),
        snapshot_blocks=EbsSnapshotBlocks(lazy_client("ebs")),
        run_files=S3RunFiles(s3, given["RUN_FILES_BUCKET"]),
        lease=DynamoDbLease(table),
        ledger=ledger,
        readings=CloudWatchReadings(cloudwatch),
        executions=StepFunctionsExecutions(lazy_client("stepfunctions"), given["STATE_MACHINE_PREFIX"]),
        volume_keys=KmsVolumeKeys(lazy_client("kms")),
        records=DynamoForecastRecords(table, ledger),
        history=CloudWatchLoadHistory(cloudwatch),
        metrics=CloudWatchMetricPublisher(cloudwatch, environment),
        price_list=AwsPriceList(pricing_client),
        stored_prices=ParameterPrices(ssm, environment),
        account_quotas=AwsServiceQuotas(lazy_client("service-quotas", ASKED_ASIDE_CONFIG)),
        operators=SnsOperators(lazy_client("sns", SINGLE_TRY_CONFIG), given.get("OPERATOR_TOPIC_ARN", "")),
        events=EventBridgeEvents(lazy_client("events", ASKED_ASIDE_CONFIG), _log_warning),
    )


def _log_warning(text: str) -> None:
    # The logger and the metrics read the environment when they are imported, and this module may be imported before.
    from peaker.runtime.telemetry import logger

    logger.warning(text)
