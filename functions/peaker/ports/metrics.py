"""The ports that read loads and publish metrics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from peaker.domain.issued import LoadPoints
    from peaker.domain.reading import Reading
    from peaker_contract.cluster import ClusterSettings
    from peaker_contract.load_settings import LoadMetricSettings
    from peaker_contract.metrics import Metric


class LoadReadings(Protocol):
    """What CloudWatch holds of a cluster's load, and what forecast_load published about it."""

    def load(self, settings: ClusterSettings, now: datetime) -> Reading:
        """The load metric in the newest period that has ended, or in the one that runs where it is higher already.

        Unknown when none of the last three that have ended has a point."""

    def load_points(
        self, settings: ClusterSettings, start: datetime, end: datetime
    ) -> list[tuple[datetime, float]]:
        """The points of the load metric from start on and before end, in order of time."""

    def published(self, settings: ClusterSettings, metric: Metric, now: datetime) -> Reading:
        """The newest value of one of Peaker's own metrics; Unknown when three schedules have passed without one."""

    def lag_seconds(self, settings: ClusterSettings, instance_id: str, now: datetime) -> Reading:
        """A replica's lag as the newest check heard it; Unknown when three checks have passed without one."""

    def reads_per_second(
        self, settings: ClusterSettings, instance_id: str, start: datetime, end: datetime
    ) -> list[float]:
        """A replica's client statements a second by each check from start on and before end, in order of time."""


class LoadHistory(Protocol):
    """The past of the load metric, and of the markers that show trouble."""

    def points(self, settings: ClusterSettings, start: datetime, end: datetime) -> LoadPoints:
        """Points of the periods that ended by `end`, in order of time; none is an empty answer, not an error."""

    def events(self, metric: LoadMetricSettings, start: datetime, end: datetime) -> LoadPoints:
        """Points of a metric in its own period, the one that still runs included; none is an empty answer."""


class MetricPublisher(Protocol):
    """Where the forecast's figures become metrics."""

    def publish(self, cluster: str, at: datetime, values: Mapping[Metric, float]) -> None:
        """Write each value with the dimension Cluster at the time `at`."""
