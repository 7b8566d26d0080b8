"""CloudWatch as one reads a metric from it: what it has kept, in pages, complete or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

# botocore, `MetricStat.Period`: how old a request's start may be where its period is so many seconds or more.
_KEPT = ((60, timedelta(days=15)), (300, timedelta(days=63)), (3600, timedelta(days=455)))

_LISTED_AT_ONCE = 500


@dataclass
class KeptMetrics:
    """A boto3 client's two calls. `points` are epoch seconds and loads of one metric, a point a minute or rarer.
    `written` are the dimensions of all that have its name.

    `ends_with` is the status of the last page; `page_points` how many points a page has.
    """

    points: Sequence[tuple[float, float]] = ()
    now: datetime = datetime(2026, 11, 21, 12, tzinfo=UTC)
    ends_with: str = "Complete"
    message: str = ""
    page_points: int = 100_800
    written: list[dict[str, str]] = field(default_factory=list)
    unit: str = "None"
    asked: list[dict[str, Any]] = field(default_factory=list)

    def list_metrics(self, **asked: Any) -> dict[str, Any]:
        """The first page."""
        return next(self._listed(**asked))

    def get_metric_data(self, **asked: Any) -> dict[str, Any]:
        """Only asked for with a unit, by which CloudWatch leaves other points out."""
        stats = {one["Id"]: one["MetricStat"] for one in asked["MetricDataQueries"]}
        return {
            "MetricDataResults": [
                {"Id": name, "Values": [1.0] if stat["Unit"] == self.unit else []}
                for name, stat in stats.items()
            ]
        }

    def get_paginator(self, operation: str) -> SimpleNamespace:
        pages = {"get_metric_data": self._pages, "list_metrics": self._listed}
        return SimpleNamespace(paginate=pages[operation])

    def _listed(self, Dimensions: Sequence[dict[str, str]] = (), **_: Any) -> Iterator[dict[str, Any]]:
        """Those that have at least these dimensions."""
        wanted = {(one["Name"], one["Value"]) for one in Dimensions}
        found = [
            {"Dimensions": [{"Name": name, "Value": value} for name, value in one.items()]}
            for one in self.written
            if wanted <= set(one.items())
        ]
        for at in range(0, max(1, len(found)), _LISTED_AT_ONCE):
            yield {"Metrics": found[at : at + _LISTED_AT_ONCE]}

    def _pages(self, **asked: Any) -> Iterator[dict[str, Any]]:
        self.asked.append(asked)
        found = self._averages(asked)
        pages = [found[at : at + self.page_points] for at in range(0, len(found), self.page_points)] or [[]]
        for number, page in enumerate(pages, 1):
            last = number == len(pages)
            yield {
                "MetricDataResults": [
                    {
                        "Id": "wanted",
                        "Timestamps": [datetime.fromtimestamp(at, UTC) for at, _ in page],
                        "Values": [value for _, value in page],
                        "StatusCode": self.ends_with if last else "PartialData",
                        "Messages": [{"Code": "x", "Value": self.message}] if last and self.message else [],
                    }
                ]
            }

    def _averages(self, asked: dict[str, Any]) -> list[tuple[float, float]]:
        period = asked["MetricDataQueries"][0]["MetricStat"]["Period"]
        kept = max(age for seconds, age in _KEPT if seconds <= period)
        if self.now - asked["StartTime"] >= kept:
            return []
        begin = asked["StartTime"].timestamp()
        by_period: dict[float, list[float]] = {}
        for at, value in self.points:
            if begin <= at < asked["EndTime"].timestamp():
                by_period.setdefault(at // period * period, []).append(value)
        return [(at, sum(values) / len(values)) for at, values in sorted(by_period.items())]
