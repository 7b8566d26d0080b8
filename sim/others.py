"""The ports that hold no state of a run: settings, metrics, files, prices, keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from peaker.domain.issued import CheckState, IssuedForecast
from peaker.domain.limits.account_limits import Quota
from peaker.domain.prices.price_table import EbsPrices, FetchedPrices, Quote
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.report.event import Event
from peaker.domain.runs.execution_input import unknown_cluster
from peaker.domain.runs.past_runs import PastSteps
from peaker.domain.storage.block_list import BLOCKS_PER_PAGE, BlockRuns, runs_of

from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import UnknownCluster
from peaker_contract.metrics import Metric
from sim.workflows.functions import Functions
from sim.workflows.virtual_time import VirtualTime


class FunctionClock:
    """Port Clock: virtual time, and what the function has used of it."""

    def __init__(self, time: VirtualTime, functions: Functions) -> None:
        self._time = time
        self._functions = functions

    def now(self) -> datetime:
        running = self._functions.current
        seconds = self._time.seconds if running is None else running.started + running.elapsed
        return self._time.datetime_of(max(seconds, self._time.seconds))


@dataclass
class Operators:
    """Port Operators: `mails` were sent to people; `refused` is raised instead."""

    mails: list[tuple[str, str]] = field(default_factory=list)
    refused: Exception | None = None

    def tell(self, subject: str, text: str) -> None:
        if self.refused is not None:
            raise self.refused
        self.mails.append((subject, text))


@dataclass
class Events:
    """Port Events: those that were put on the bus."""

    seen: list[Event] = field(default_factory=list)

    def put(self, event: Event) -> None:
        self.seen.append(event)


class Clusters:
    """Port ClusterDirectory."""

    def __init__(self, *settings: ClusterSettings) -> None:
        self.by_name = {one.name: one for one in settings}

    def settings(self, cluster: str) -> ClusterSettings:
        if cluster not in self.by_name:
            raise UnknownCluster(unknown_cluster(cluster, self.names()))
        return self.by_name[cluster]

    def names(self) -> list[str]:
        return sorted(self.by_name)


@dataclass
class Readings:
    """Port LoadReadings: what is set here is what CloudWatch holds; the rest is unknown.

    `loads` and `metrics` are by cluster, `points` are of the load of all, `lags` and `reads` by instance.
    """

    loads: dict[str, float | Reading] = field(default_factory=dict)
    metrics: dict[tuple[str, str], float] = field(default_factory=dict)
    points: list[tuple[datetime, float]] = field(default_factory=list)
    lags: dict[str, Reading] = field(default_factory=dict)
    reads: dict[str, list[float]] = field(default_factory=dict)

    def load(self, settings: ClusterSettings, now: datetime) -> Reading:
        load = self.loads.get(settings.name, Unknown("no point of the load metric"))
        return Known(load, now) if isinstance(load, float | int) else load

    def load_points(
        self, settings: ClusterSettings, start: datetime, end: datetime
    ) -> list[tuple[datetime, float]]:
        return [point for point in self.points if start <= point[0] < end]

    def published(self, settings: ClusterSettings, metric: Metric, now: datetime) -> Reading:
        value = self.metrics.get((settings.name, metric))
        return Unknown(f"{metric} was not published") if value is None else Known(value, now)

    def lag_seconds(self, settings: ClusterSettings, instance_id: str, now: datetime) -> Reading:
        return self.lags.get(instance_id, Unknown("no check has heard of it"))

    def reads_per_second(
        self, settings: ClusterSettings, instance_id: str, start: datetime, end: datetime
    ) -> list[float]:
        return self.reads.get(instance_id, [])


class Package:
    """Port HostPackage."""

    def sha256(self) -> str:
        return "ab" * 32

    def download_url(self) -> str:
        return "https://packages.test/peaker_host.pyz?signature=s"


@dataclass
class Blocks:
    """Port SnapshotBlocks: every snapshot holds eight blocks but those in `held_by`."""

    held_by: dict[str, BlockRuns | Unknown | Exception] = field(default_factory=dict)

    def held(self, snapshot_id: str, pages_at_most: int, seconds_at_most: float) -> BlockRuns | Unknown:
        held = self.held_by.get(snapshot_id, runs_of(range(8)))
        if isinstance(held, Exception):
            raise held
        many = isinstance(held, BlockRuns) and held.blocks > pages_at_most * BLOCKS_PER_PAGE
        return Unknown(f"{snapshot_id} has more than {pages_at_most} pages of blocks") if many else held


@dataclass
class RunFiles:
    """Port RunFiles: the texts by run and name."""

    published: dict[str, str] = field(default_factory=dict)

    def publish(self, run_id: str, name: str, text: str) -> str:
        self.published[f"{run_id}/{name}"] = text
        return f"https://files.test/{run_id}/{name}?signature=s"


@dataclass
class VolumeKeys:
    """Port VolumeKeys: every key can be used but those in `refused`, each with the reason."""

    refused: dict[str, str] = field(default_factory=dict)

    def why_not_usable(self, key_arn: str, settings: ClusterSettings) -> str | None:
        return self.refused.get(key_arn)


@dataclass
class AccountQuotas:
    """Port AccountQuotas: `values` by code, no other quota is known; `error` is raised instead."""

    values: dict[str, float] = field(default_factory=dict)
    error: Exception | None = None

    def value(self, quota: Quota) -> float | None:
        if self.error is not None:
            raise self.error
        return self.values.get(quota.code)


@dataclass
class ForecastRecords:
    """Port ForecastRecords, by cluster; `past` is every cluster's."""

    states: dict[str, CheckState] = field(default_factory=dict)
    kept: dict[str, list[IssuedForecast]] = field(default_factory=dict)
    past: PastSteps = field(default_factory=PastSteps)
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)

    def check_state(self, cluster: str) -> CheckState:
        return self.states.get(cluster, CheckState())

    def save_check_state(self, cluster: str, state: CheckState) -> None:
        before = self.check_state(cluster).checked_seconds
        if before is None or before <= (state.checked_seconds or 0.0):
            self.states[cluster] = state

    def save_report(self, cluster: str, report: Mapping[str, Any]) -> None:
        self.reports[cluster] = dict(report)

    def report(self, cluster: str) -> dict[str, Any] | None:
        return self.reports.get(cluster)

    def save_issued(self, cluster: str, issued: IssuedForecast) -> None:
        self.kept.setdefault(cluster, []).append(issued)

    def issued(self, cluster: str, since: datetime) -> list[IssuedForecast]:
        found = [one for one in self.kept.get(cluster, []) if one.issued_at_seconds >= since.timestamp()]
        return sorted(found, key=lambda one: one.issued_at_seconds)

    def past_steps(self, cluster: str) -> PastSteps:
        return self.past


@dataclass
class PriceList:
    """Port PriceList: prices by region and type; without them the bundled table counts. `asked` counts the calls."""

    hourly: dict[tuple[str, str], float] = field(default_factory=dict)
    ebs: dict[str, EbsPrices] = field(default_factory=dict)
    refused: Exception | None = None
    asked: int = 0

    def quote(self, region: str, instance_types: Sequence[str]) -> Quote:
        self.asked += 1
        if self.refused is not None:
            raise self.refused
        hourly = {kind: self.hourly.get((region, kind)) for kind in instance_types}
        return Quote(instance_hourly_usd=hourly, ebs=self.ebs.get(region, EbsPrices()))


@dataclass
class StoredPrices:
    """Port StoredPrices: `refused` is raised by a write."""

    prices: FetchedPrices | Unknown = field(
        default_factory=lambda: Unknown("the Price List was not asked yet")
    )
    refused: Exception | None = None

    def read(self) -> FetchedPrices | Unknown:
        return self.prices

    def write(self, prices: FetchedPrices) -> None:
        if self.refused is not None:
            raise self.refused
        self.prices = prices
