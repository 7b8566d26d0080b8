"""The ports of few methods, each by one suite for the cloud in memory and its adapter.

Clock, settings, files, metrics, executions, prices, keys, what a snapshot holds, and what earlier runs and checks left.
`hostile` is the cloud in memory of `sim`, where it has an own implementation that keeps what it is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import boto3
import pytest
from peaker.adapters.aws_price_list import AwsPriceList
from peaker.adapters.cloudwatch.readings import CloudWatchReadings
from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.adapters.ec2.snapshot_blocks import EbsSnapshotBlocks
from peaker.adapters.ec2.volume_keys import KmsVolumeKeys
from peaker.adapters.s3_files import S3HostPackage, S3RunFiles
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker.adapters.ssm.prices import ParameterPrices
from peaker.adapters.step_functions_executions import StepFunctionsExecutions
from peaker.domain.issued import CheckState, IssuedForecast
from peaker.domain.prices.price_table import EbsPrices, FetchedPrices
from peaker.domain.reading import Known, Unknown
from peaker.domain.runs.ledger import LeaseRow
from peaker.domain.runs.run import run_id
from peaker.domain.runs.run_execution import RunExecution
from peaker.domain.storage.block_list import BLOCKS_PER_PAGE, runs_of
from peaker.ports.cloud import SnapshotBlocks, VolumeKeys
from peaker.ports.clusters import Clock, ClusterDirectory
from peaker.ports.executions import Executions
from peaker.ports.hosts import HostPackage, RunFiles
from peaker.ports.ledger import ForecastRecords
from peaker.ports.metrics import LoadReadings
from peaker.ports.prices import PriceList, StoredPrices
from peaker.runtime.clock import ScaledClock, SystemClock

from peaker_contract import errors
from peaker_contract.metrics import Metric
from sim import others
from sim.workflows.step_functions import StepFunctionsClient
from sim.workflows.virtual_time import START as NOON
from sim.world import PREFIX, World, settings
from tests.contract.conftest import Adapters, make_table, put_metric
from tests.support.builders import orders
from tests.support.deployed_roles import trust

BUCKET, ENVIRONMENT = "small-ports", "small"
REGION = "us-east-1"


@pytest.fixture(params=["hostile", "system", "scaled"])
def clock(request: pytest.FixtureRequest, aws: Adapters) -> Clock:
    if request.param == "hostile":
        return World(7).ports.clock
    return SystemClock() if request.param == "system" else ScaledClock(aws.cloud.state_dir / "clock.json")


def test_the_time_is_in_utc_and_does_not_go_back(clock: Clock) -> None:
    first = clock.now()
    assert first.utcoffset() == timedelta(0)
    assert clock.now() >= first


@pytest.fixture(params=["hostile", "aws"])
def clusters(request: pytest.FixtureRequest) -> ClusterDirectory:
    """The clusters `orders` and `archive`."""
    known = (orders(), orders(name="archive"))
    if request.param == "hostile":
        return others.Clusters(*known)
    ssm = request.getfixturevalue("aws").cloud.client("ssm")
    for one in known:
        name = f"/peaker/{ENVIRONMENT}/clusters/{one.name}"
        ssm.put_parameter(Name=name, Value=one.model_dump_json(), Type="String", Overwrite=True)
    return ParameterClusters(ssm, ENVIRONMENT)


def test_the_clusters_are_told_in_order_and_each_has_its_settings(clusters: ClusterDirectory) -> None:
    assert clusters.names() == ["archive", "orders"]
    assert clusters.settings("orders") == orders()
    assert clusters.settings("archive").name == "archive"


def test_a_setting_that_this_release_has_no_more_is_left_out_until_the_clusters_stack_is_deployed(
    aws: Adapters,
) -> None:
    """The functions are deployed first; a build at work, and its undo, read the parameter of before."""
    before = orders().model_dump(mode="json")
    before["gates"]["lag_samples"] = before["leading_metrics"] = 3
    name = f"/peaker/{ENVIRONMENT}/clusters/orders"
    ssm = aws.cloud.client("ssm")
    ssm.put_parameter(Name=name, Value=json.dumps(before), Type="String", Overwrite=True)
    assert ParameterClusters(ssm, ENVIRONMENT).settings("orders") == orders()


@pytest.mark.parametrize("name", ["payments", "", "ORDERS", "orders/../archive"])
def test_an_unknown_cluster_is_refused_with_the_known_ones(clusters: ClusterDirectory, name: str) -> None:
    with pytest.raises(errors.UnknownCluster, match="clusters of this environment: archive, orders"):
        clusters.settings(name)


@pytest.fixture(params=["hostile", "aws"])
def package(request: pytest.FixtureRequest) -> HostPackage:
    if request.param == "hostile":
        return others.Package()
    s3 = request.getfixturevalue("aws").cloud.client("s3")
    return S3HostPackage(s3, BUCKET, "peaker_host.pyz", "ab" * 32)


def test_the_host_package_has_a_hash_and_a_signed_address(package: HostPackage) -> None:
    assert len(bytes.fromhex(package.sha256())) == 32
    assert package.download_url().startswith(("https://", "http://127.0.0.1"))
    assert "ignature=" in package.download_url()


@pytest.fixture(params=["hostile", "aws"])
def files(request: pytest.FixtureRequest) -> tuple[RunFiles, Callable[[str], str]]:
    """The files, and how one is read: by `<run>/<name>`."""
    if request.param == "hostile":
        hostile = others.RunFiles()
        return hostile, hostile.published.__getitem__
    s3 = request.getfixturevalue("aws").cloud.client("s3")
    if BUCKET not in {one["Name"] for one in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=BUCKET)
    return S3RunFiles(s3, BUCKET), lambda path: read_object(s3, f"runs/{path}")


def read_object(s3: Any, key: str) -> str:
    return str(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode())


def test_a_file_is_kept_per_run_and_replaced(files: tuple[RunFiles, Callable[[str], str]]) -> None:
    store, read = files
    first = store.publish("run-1", "blocks.json", "old")
    store.publish("run-2", "blocks.json", "another run's")
    again = store.publish("run-1", "blocks.json", "ne\u00fc")
    assert (read("run-1/blocks.json"), read("run-2/blocks.json")) == ("ne\u00fc", "another run's")
    assert first.split("?")[0] == again.split("?")[0]
    assert "run-1/blocks.json" in first


@dataclass
class Measured:
    """Readings, and how the load is measured and a metric published at a time."""

    readings: LoadReadings
    measure: Callable[[datetime, float], None]
    publish: Callable[[datetime, float], None]
    now: datetime


@pytest.fixture(params=["hostile", "aws"])
def measured(request: pytest.FixtureRequest) -> Measured:
    if request.param == "hostile":
        hostile = others.Readings()

        def measure(at: datetime, value: float) -> None:
            hostile.points.append((at, value))
            hostile.loads["orders"] = Known(value, at)

        def publish(_: datetime, value: float) -> None:
            hostile.metrics["orders", Metric.REQUIRED_REPLICAS] = value

        return Measured(hostile, measure, publish, NOON)
    aws = request.getfixturevalue("aws")
    cloudwatch, settings = aws.cloud.client("cloudwatch"), orders(environment=ENVIRONMENT)
    period = settings.load_metric.period_seconds
    now = datetime.fromtimestamp(aws.cloud.clock.epoch() // period * period, UTC)

    put = partial(put_metric, cloudwatch)
    metric = settings.load_metric
    return Measured(
        CloudWatchReadings(cloudwatch),
        lambda at, value: put(metric.namespace, metric.name, metric.dimensions, at, value),
        lambda at, value: put(
            f"Peaker/{ENVIRONMENT}", Metric.REQUIRED_REPLICAS, {"Cluster": settings.name}, at, value
        ),
        now,
    )


def test_what_was_never_measured_is_unknown(measured: Measured) -> None:
    settings, readings = orders(environment=ENVIRONMENT, name="silent"), measured.readings
    assert readings.load_points(settings, measured.now - timedelta(days=1), measured.now) == []
    assert isinstance(readings.published(settings, Metric.REPLICA_SURPLUS, measured.now), Unknown)
    assert isinstance(readings.lag_seconds(settings, "i-1", measured.now), Unknown)


def test_readings_are_the_newest_and_points_reach_up_to_the_end(measured: Measured) -> None:
    """GetMetricData: the start is inclusive, the end exclusive."""
    settings, readings = orders(environment=ENVIRONMENT), measured.readings
    period = timedelta(seconds=settings.load_metric.period_seconds)
    start = measured.now - 3 * period
    for number, value in enumerate((10.0, 20.0, 30.0)):
        measured.measure(start + number * period, value)
    measured.publish(measured.now - timedelta(minutes=1), 3.0)
    newest = readings.load(settings, measured.now)
    assert isinstance(newest, Known)
    assert newest.value == 30.0
    assert start < newest.measured_at <= measured.now
    required = readings.published(settings, Metric.REQUIRED_REPLICAS, measured.now)
    assert isinstance(required, Known)
    assert (required.value, required.measured_at <= measured.now) == (3.0, True)
    found = readings.load_points(settings, start, start + 2 * period)
    assert [value for _, value in found] == [10.0, 20.0]


@pytest.fixture(params=["hostile", "aws"])
def blocks(request: pytest.FixtureRequest) -> tuple[SnapshotBlocks, str]:
    """A snapshot that holds blocks of three pages."""
    if request.param == "hostile":
        held = runs_of(range(2 * BLOCKS_PER_PAGE + 1))
        return others.Blocks({"snap-1": held}), "snap-1"
    aws: Adapters = request.getfixturevalue("aws")
    host = aws.running("token-small-ports").instance_id
    volume = aws.data_volume(host, "/dev/sdf")
    aws.volumes.write(volume, dict.fromkeys(range(201), b"x"))
    snapshot_id = aws.snapshot(volume, host, "run-small-1")
    return EbsSnapshotBlocks(aws.cloud.client("ebs"), blocks_per_page=100), snapshot_id


def test_a_list_of_more_pages_than_asked_for_is_unknown(blocks: tuple[SnapshotBlocks, str]) -> None:
    port, first = blocks
    assert not isinstance(port.held(first, 3, 60.0), Unknown)
    for pages in (2, 0, -1):
        assert isinstance(port.held(first, pages, 60.0), Unknown)


@pytest.fixture(params=["hostile", "aws"])
def keys(request: pytest.FixtureRequest) -> tuple[VolumeKeys, str, str]:
    """A key that can be used, and one that is disabled; the settings name both."""
    if request.param == "hostile":
        return others.VolumeKeys({"disabled": "its state is Disabled"}), "usable", "disabled"
    kms = request.getfixturevalue("aws").cloud.client("kms")
    usable, disabled = (kms.create_key()["KeyMetadata"]["Arn"] for _ in range(2))
    kms.disable_key(KeyId=disabled.rsplit("/", 1)[-1])
    return KmsVolumeKeys(kms), usable, disabled


def test_a_key_says_why_it_cannot_be_used(keys: tuple[VolumeKeys, str, str]) -> None:
    port, usable, disabled = keys
    settings = orders(kms_key_arns=[usable, disabled]) if usable.startswith("arn:") else orders()
    assert port.why_not_usable(usable, settings) is None
    assert "Disabled" in str(port.why_not_usable(disabled, settings))


@pytest.fixture(params=["hostile", "aws"])
def price_list(request: pytest.FixtureRequest) -> PriceList:
    if request.param == "hostile":
        return others.PriceList({(REGION, "r7g.large"): 0.1071}, {REGION: EbsPrices(gp3_gib_month=0.08)})
    endpoint = request.getfixturevalue("aws").cloud.endpoint_url
    return AwsPriceList(
        lambda region: boto3.client(
            "pricing", region_name=region, endpoint_url=endpoint,
            aws_access_key_id="local", aws_secret_access_key="local",
        )
    )  # fmt: skip


def test_a_quote_has_every_type_that_was_asked_for_and_none_for_what_has_no_price(
    price_list: PriceList,
) -> None:
    quote = price_list.quote(REGION, ["r7g.large", "z9.metal"])
    assert quote.instance_hourly_usd == {"r7g.large": 0.1071, "z9.metal": None}
    assert quote.ebs.gp3_gib_month == 0.08


@pytest.fixture(params=["hostile", "aws"])
def stored(request: pytest.FixtureRequest) -> StoredPrices:
    if request.param == "hostile":
        return others.StoredPrices()
    ssm = request.getfixturevalue("aws").cloud.client("ssm")
    ssm.put_parameter(Name=f"/peaker/{ENVIRONMENT}/prices", Value="{}", Type="String", Overwrite=True)
    return ParameterPrices(ssm, ENVIRONMENT)


def test_prices_are_unknown_until_they_are_stored_and_the_last_ones_count(stored: StoredPrices) -> None:
    nothing = stored.read()
    assert isinstance(nothing, Unknown)
    assert "not asked yet" in nothing.why
    for day in (20, 21):
        quote = others.PriceList({(REGION, "r7g.large"): day / 100}).quote(REGION, ["r7g.large"])
        prices = FetchedPrices(region=REGION, fetched_at=datetime(2026, 11, day, tzinfo=UTC), **dict(quote))
        stored.write(prices)
        assert stored.read() == prices


@dataclass
class Begun:
    """Executions, a run whose execution of that name runs until it is rolled back, and a run that none began.

    `end` ends that execution, and after it another that began earlier.
    """

    executions: Executions
    running: LeaseRow
    name: str
    unknown: LeaseRow
    roll_back: Callable[[], None]
    end: Callable[[], None]


def lease_of(run: str) -> LeaseRow:
    return LeaseRow("orders", run, "scale_out", 1, NOON)


@pytest.fixture(params=["hostile", "aws"])
def begun(request: pytest.FixtureRequest) -> Iterator[Begun]:
    never = lease_of(run_id("scale_out", "orders", NOON - timedelta(days=400), "never"))
    if request.param == "hostile":
        yield begun_in_memory(never)
    else:
        yield from begun_on(request.getfixturevalue("aws"), never)


def begun_in_memory(never: LeaseRow) -> Begun:
    """A stop is what begins a roll_back there."""
    world = World(7, settings(), settings(name="billing"))
    earlier = world.start("scale_out", "billing")
    world.run_for(30)
    execution = world.start("scale_out")
    world.run_for(30)

    def roll_back() -> None:
        world.stop(execution)
        world.run_for(30)

    def end() -> None:
        world.stop(execution)
        world.run_for(30)
        world.stop(earlier)
        world.run_for(30)

    run = run_id("scale_out", "orders", world.time.datetime_of(execution.started), execution.name)
    port = StepFunctionsExecutions(StepFunctionsClient(world.workflows), PREFIX)  # type: ignore[arg-type]
    return Begun(port, lease_of(run), execution.name, never, roll_back, end)


def begun_on(aws: Adapters, never: LeaseRow) -> Iterator[Begun]:
    """Two workflows that wait for two days, which are half an hour here."""
    sfn, iam = aws.cloud.client("stepfunctions"), aws.cloud.client("iam")
    role = iam.create_role(RoleName="waits", AssumeRolePolicyDocument=trust("states.amazonaws.com"))["Role"]
    waits = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 172_800, "End": True}}}
    arns = {
        name: sfn.create_state_machine(
            name=f"small-{name}", definition=json.dumps(waits), roleArn=role["Arn"]
        )["stateMachineArn"]
        for name in ("scale_out", "roll_back")
    }
    started = []

    def start(workflow: str, name: str, given: Mapping[str, str]) -> None:
        one = sfn.start_execution(stateMachineArn=arns[workflow], name=name, input=json.dumps(given))
        started.append(one)

    def end() -> None:
        for name in ("one", "earlier"):
            [arn] = [one["executionArn"] for one in started if one["executionArn"].endswith(f":{name}")]
            sfn.stop_execution(executionArn=arn)

    start("scale_out", "earlier", {"cluster": "billing"})
    aws.cloud.clock.wait_until(aws.cloud.clock.epoch() + 2)
    start("scale_out", "one", {"cluster": "orders"})
    run = run_id("scale_out", "orders", started[-1]["startDate"].astimezone(UTC), "one")
    port = StepFunctionsExecutions(sfn, arns["roll_back"].removesuffix("roll_back"))
    yield Begun(port, lease_of(run), "one", never, lambda: start("roll_back", "undo", {"name": "one"}), end)
    for execution in started:
        sfn.stop_execution(executionArn=execution["executionArn"])
    for arn in arns.values():
        sfn.delete_state_machine(stateMachineArn=arn)
    iam.delete_role(RoleName="waits")


def test_a_run_is_found_behind_one_that_began_earlier_and_ended_later(begun: Begun) -> None:
    begun.end()
    found = begun.executions.that_began(begun.running)
    assert isinstance(found, RunExecution)
    assert (found.name, found.status, found.ended) == (begun.name, "ABORTED", True)


def test_who_began_a_run_and_who_is_rolled_back_is_told_or_unknown(begun: Begun) -> None:
    found = begun.executions.that_began(begun.running)
    assert isinstance(found, RunExecution)
    assert (found.name, found.status, found.ended, found.ended_at) == (begun.name, "RUNNING", False, None)
    assert isinstance(begun.executions.that_began(begun.unknown), Unknown)
    assert begun.executions.being_rolled_back() == frozenset()
    begun.roll_back()
    assert begun.executions.being_rolled_back() == frozenset({begun.name})


@pytest.fixture(params=["memory", "dynamodb"])
def records(request: pytest.FixtureRequest) -> ForecastRecords:
    if request.param == "memory":
        return others.ForecastRecords()
    client = request.getfixturevalue("aws").cloud.client("dynamodb")
    table = make_table(client)
    ledger_table = LedgerTable(client, table)
    return DynamoForecastRecords(ledger_table, DynamoDbLedger(ledger_table))


def test_what_a_check_leaves_is_its_clusters_own(records: ForecastRecords) -> None:
    assert records.check_state("orders") == CheckState()
    whole = CheckState(1, 2.5, 3.5, "i-1", 4.5, {"i-2": 2, "i-3": 1}, 5.5)
    for state in (CheckState(2, 1.5), whole):
        records.save_check_state("orders", state)
        assert records.check_state("orders") == state
    for seconds in (5.0, None):  # of a check that was under way for longer, and of an older release
        records.save_check_state("orders", CheckState(9, checked_seconds=seconds))
    assert records.check_state("orders") == whole
    repeated = CheckState(2, checked_seconds=5.5)
    records.save_check_state("orders", repeated)
    assert records.check_state("orders") == repeated
    assert records.check_state("payments") == CheckState()
    assert records.report("orders") is None
    for required in (1, 2):
        records.save_report("orders", {"required": required, "numbers": {"load_now": 1.5}, "load_now": None})
    assert records.report("orders") == {"required": 2, "numbers": {"load_now": 1.5}, "load_now": None}
    assert records.report("payments") is None


def test_issued_forecasts_come_in_order_of_time_and_per_cluster(records: ForecastRecords) -> None:
    at = NOON.timestamp()
    for seconds_ago in (60.0, 7200.0, 120.0):
        records.save_issued("orders", IssuedForecast(at - seconds_ago, at, 1.25, 2.5, 2))
    found = records.issued("orders", NOON - timedelta(hours=1))
    assert found == [IssuedForecast(at - ago, at, 1.25, 2.5, 2) for ago in (120.0, 60.0)]
    assert records.issued("payments", NOON - timedelta(days=1)) == []


def test_a_cluster_without_runs_has_no_past(records: ForecastRecords) -> None:
    past = records.past_steps("orders")
    assert not any((past.seconds, past.hydrated_bytes, past.knee_shares, past.full_copies, past.pool_bytes))
