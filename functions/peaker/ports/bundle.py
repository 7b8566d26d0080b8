"""The bundle of ports that a function has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peaker.ports.cloud import AccountQuotas, Compute, SnapshotBlocks, Storage, VolumeKeys
    from peaker.ports.clusters import Clock, ClusterDirectory
    from peaker.ports.endpoint import TrafficRouter
    from peaker.ports.executions import Events, Executions, Operators
    from peaker.ports.hosts import CommandRunner, HostPackage, RunFiles
    from peaker.ports.ledger import ForecastRecords, Lease, Ledger
    from peaker.ports.metrics import LoadHistory, LoadReadings, MetricPublisher
    from peaker.ports.prices import PriceList, StoredPrices


@dataclass(frozen=True)
class Ports:
    """All that a use case may reach; `environment` is also the value of the owner tag."""

    environment: str
    clock: Clock
    clusters: ClusterDirectory
    compute: Compute
    storage: Storage
    commands: CommandRunner
    endpoint: TrafficRouter
    package: HostPackage
    snapshot_blocks: SnapshotBlocks
    run_files: RunFiles
    lease: Lease
    ledger: Ledger
    readings: LoadReadings
    executions: Executions
    volume_keys: VolumeKeys
    records: ForecastRecords
    history: LoadHistory
    metrics: MetricPublisher
    price_list: PriceList
    stored_prices: StoredPrices
    account_quotas: AccountQuotas
    operators: Operators
    events: Events
