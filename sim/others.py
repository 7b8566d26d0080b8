"""The ports that hold no state of a run: settings, metrics, files, prices, keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from peaker.domain.limits.account_limits import Quota
from peaker.domain.prices.price_table import EbsPrices, FetchedPrices, Quote
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.runs.execution_input import unknown_cluster
from peaker.domain.runs.past_runs import PastSteps
from peaker.domain.storage.block_list import BlockRuns, runs_of

from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import UnknownCluster
from peaker_contract.metrics import Metric
from sim.account import Account
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
    """Port Operators: what people were sent."""

    mails: list[tuple[str, str]] = field(default_factory=list)

    def tell(self, subject: str, text: str) -> None:
        self.mails.append((subject, text))


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
    """Port LoadReadings: what is set here by cluster is what CloudWatch holds; the rest is unknown."""

    loads: dict[str, float] = field(default_factory=dict)
    metrics: dict[tuple[str, Metric], float] = field(default_factory=dict)

    def load(self, settings: ClusterSettings, now: datetime) -> Reading:
        if settings.name not in self.loads:
            return Unknown("no point of the load metric")
        return Known(self.loads[settings.name], now)

    def load_points(
        self, settings: ClusterSettings, start: datetime, end: datetime
    ) -> list[tuple[datetime, float]]:
        return []

    def published(self, settings: ClusterSettings, metric: Metric, now: datetime) -> Reading:
        if (settings.name, metric) not in self.metrics:
            return Unknown(f"{metric} was not published")
        return Known(self.metrics[settings.name, metric], now)

    def lag_seconds(self, settings: ClusterSettings, instance_id: str, now: datetime) -> Reading:
        return Unknown("no check has heard of it")

    def reads_per_second(
        self, settings: ClusterSettings, instance_id: str, start: datetime, end: datetime
    ) -> list[float]:
        return []


class Package:
    """Port HostPackage."""

    def sha256(self) -> str:
        return "ab" * 32

    def download_url(self) -> str:
        return "https://packages.test/peaker_host.pyz?signature=s"


class Blocks:
    """Port SnapshotBlocks."""

    def held(self, snapshot_id: str, pages_at_most: int, seconds_at_most: float) -> BlockRuns | Unknown:
        return runs_of(range(8))

    def changed(self, first_id: str, second_id: str, pages_at_most: int) -> int | Unknown:
        return 3


class RunFiles:
    """Port RunFiles."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def publish(self, run_id: str, name: str, text: str) -> str:
        self._account.files[f"{run_id}/{name}"] = text
        return f"https://files.test/{run_id}/{name}?signature=s"


class VolumeKeys:
    """Port VolumeKeys: every key can be used."""

    def why_not_usable(self, key_arn: str, settings: ClusterSettings) -> str | None:
        return None


class AccountQuotas:
    """Port AccountQuotas: the account has no values of its own, and nobody tells AWS's defaults."""

    def value(self, quota: Quota) -> float | None:
        return None


class PastRuns:
    """Port PastRuns: none."""

    def past_steps(self, cluster: str) -> PastSteps:
        return PastSteps()


class Prices:
    """Ports PriceList and StoredPrices: the bundled table counts."""

    def quote(self, region: str, instance_types: Sequence[str]) -> Quote:
        return Quote(instance_hourly_usd=dict.fromkeys(instance_types), ebs=EbsPrices())

    def read(self) -> FetchedPrices | Unknown:
        return Unknown("the Price List was not asked yet")

    def write(self, prices: FetchedPrices) -> Any:
        return None
