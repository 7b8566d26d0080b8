"""The composition: adapters behind ports, made once per warm function and only when they are used."""

from __future__ import annotations

import os
from functools import lru_cache

from peaker.adapters.aws_clients import ASKED_ASIDE_CONFIG, SINGLE_TRY_CONFIG, lazy_client, pricing_client
from peaker.adapters.aws_price_list import AwsPriceList
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
from peaker.adapters.s3.host_package import S3HostPackage
from peaker.adapters.s3.run_files import S3RunFiles
from peaker.adapters.service_quotas import AwsServiceQuotas
from peaker.adapters.sns_operators import SnsOperators
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker.adapters.ssm.commands import SsmCommands
from peaker.adapters.ssm.prices import ParameterPrices
from peaker.adapters.step_functions_executions import StepFunctionsExecutions
from peaker.ports.bundle import Ports
from peaker.runtime.clock import clock_from_environment
from peaker.runtime.settings import FunctionSettings


@lru_cache(maxsize=1)
def ports() -> Ports:
    """All ports on AWS. Raises MissingVariable when the environment is incomplete."""
    settings = FunctionSettings.from_environment(os.environ)
    ec2 = lazy_client("ec2")
    ssm = lazy_client("ssm")
    dynamodb = lazy_client("dynamodb")
    table = LedgerTable(dynamodb, settings.ledger_table)
    ledger = DynamoDbLedger(table)
    cloudwatch = lazy_client("cloudwatch")
    return Ports(
        environment=settings.environment,
        clock=clock_from_environment(),
        clusters=ParameterClusters(ssm, settings.environment),
        compute=Ec2Compute(ec2, settings.environment),
        storage=Ec2Storage(ec2, lazy_client("ec2", SINGLE_TRY_CONFIG), settings.environment),
        commands=SsmCommands(ssm, lazy_client("ssm", SINGLE_TRY_CONFIG), settings.environment),
        endpoint=read_endpoints(lazy_client),
        package=S3HostPackage(
            lazy_client("s3"),
            settings.package_bucket,
            settings.package_key,
            settings.package_sha256,
        ),
        snapshot_blocks=EbsSnapshotBlocks(lazy_client("ebs")),
        run_files=S3RunFiles(lazy_client("s3"), settings.run_files_bucket),
        lease=DynamoDbLease(table),
        ledger=ledger,
        readings=CloudWatchReadings(cloudwatch),
        executions=StepFunctionsExecutions(lazy_client("stepfunctions"), settings.state_machine_prefix),
        volume_keys=KmsVolumeKeys(lazy_client("kms")),
        past_runs=DynamoForecastRecords(dynamodb, settings.ledger_table, ledger),
        price_list=AwsPriceList(pricing_client),
        stored_prices=ParameterPrices(ssm, settings.environment),
        account_quotas=AwsServiceQuotas(lazy_client("service-quotas", ASKED_ASIDE_CONFIG)),
        operators=SnsOperators(lazy_client("sns", SINGLE_TRY_CONFIG), settings.operator_topic_arn),
        events=EventBridgeEvents(lazy_client("events", ASKED_ASIDE_CONFIG), _log_warning),
    )


def _log_warning(text: str) -> None:
    # The logger and the metrics read the environment when they are imported, and this module may be imported before.
    from peaker.runtime.telemetry import logger

    logger.warning(text)
