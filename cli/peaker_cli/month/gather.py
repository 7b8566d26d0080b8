"""A month's bill is gathered from the ledger, EC2 and CloudWatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from peaker.adapters.cloudwatch.metrics import CloudWatchLoadHistory, least_period_seconds
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ec2.storage import Ec2Storage
from peaker.domain.decoding import understood
from peaker.domain.instants import from_iso
from peaker.domain.issued import LoadPoints
from peaker.domain.prices.fetched_prices import LINUX, price_table
from peaker.domain.prices.price_table import PriceTable, total, usd, volumes_hourly
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Instance

from peaker_cli.control_plane import ControlPlane
from peaker_cli.failures import ControlPlaneError
from peaker_cli.month.bill import BaseReplica, Month
from peaker_cli.month.stretches import parked_times, stretches_of
from peaker_cli.status.gather import StatusReader
from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import LOAD_TAG, ROLE_TAG

# A replica that runs on the first of the month may have been built so much earlier.
_LOOKS_BACK = timedelta(days=62)
_RUNS_AT_MOST = 20_000
_GONE = {"terminated", "shutting-down"}
_STOPPED = {"stopped", "stopping"}


def read_month(
    control: ControlPlane, cluster: str, start: datetime, end: datetime, say: Callable[[str], None]
) -> Month:
    """Raises ControlPlaneError and PeakerError. Base replicas are those of now: EC2 forgets the earlier ones."""
    reader = StatusReader(control)
    settings = reader.settings(cluster)
    until = min(end, control.clock.now())
    if until <= start:
        raise ControlPlaneError(f"{start:%Y-%m} has not begun yet")
    say("the receipts")
    receipts = list(_receipts(reader, control, cluster, start - _LOOKS_BACK, end))
    with understood(ControlPlaneError, "a receipt"):
        rows = reader.ledger.replicas(cluster)
        stretches = stretches_of(receipts, rows)
        parked = parked_times(receipts, stretches, rows)
    say("the base replicas")
    base = list(_base(control, reader, settings))
    say("the load")
    load = _load(control, settings, start, until)
    return Month(
        cluster=cluster,
        start=start,
        until=until,
        stretches=stretches,
        parked=parked,
        base=base,
        load=[
            (datetime.fromtimestamp(at, UTC), value)
            for at, value in zip(load.times_seconds, load.values, strict=True)
        ],
        load_period_seconds=load.period_seconds,
        checked_since=reader.first_check(cluster),
        capacity=settings.capacity_per_replica,
        per_second=1 / settings.load_metric.period_seconds
        if settings.load_metric.statistic == "Sum"
        else 1.0,
    )


def _receipts(
    reader: StatusReader, control: ControlPlane, cluster: str, since: datetime, end: datetime
) -> Iterator[dict[str, Any]]:
    """Returns the receipts of runs that began between the two, the newest first."""
    for row in control.runs(cluster, _RUNS_AT_MOST):
        with understood(ControlPlaneError, "the index of runs"):
            began = from_iso(str(row["sk"]).split("#")[1])
        if began < since:
            return
        receipt = reader.ledger.receipt(str(row["run_id"])) if began < end else None
        if receipt is not None:
            yield receipt


def _base(control: ControlPlane, reader: StatusReader, settings: ClusterSettings) -> Iterator[BaseReplica]:
    stored, now = reader.stored_prices(), control.clock.now()
    ec2 = control.client("ec2")
    compute, storage = Ec2Compute(ec2, control.environment), Ec2Storage(ec2, ec2, control.environment)
    for one in compute.instances_of_cluster(settings.name):
        if (
            one.tags.get(ROLE_TAG) == "replica"
            and one.tags.get(LOAD_TAG) != "peak"
            and one.state not in _GONE
        ):
            prices = price_table(settings, stored, now, _billed_as(one))
            yield _base_replica(one, storage, prices)


def _billed_as(one: Instance) -> str | Unknown:
    """Returns EC2's word of the instance itself: its image need not be that of peak replicas."""
    if one.billed_as == LINUX:
        return LINUX
    return Unknown(f"{one.instance_id} is billed as {one.billed_as or 'nothing that EC2 names'}")


def _base_replica(one: Instance, storage: Ec2Storage, prices: PriceTable) -> BaseReplica:
    """Returns it with its price; a stopped one costs its volumes alone."""
    runs = one.state not in _STOPPED
    paid = [volumes_hourly(storage.volumes_of_instance(one.instance_id), prices)]
    hourly = total([prices.instance_hour(one.instance_type), *paid] if runs else paid)
    why_unknown = hourly.why if isinstance(hourly, Unknown) else None
    return BaseReplica(one.instance_id, one.launched_at, usd(hourly, 6), why_unknown, runs)


def _load(control: ControlPlane, settings: ClusterSettings, start: datetime, until: datetime) -> LoadPoints:
    """Reads the load in the shortest period that CloudWatch still has of the whole time."""
    least = least_period_seconds(start, control.clock.now())
    history = CloudWatchLoadHistory(control.client("cloudwatch"))
    return history.metric_points(settings.load_metric, start, until, least)
