"""The forecast's memory without a table, true to the guarantees that peaker.ports states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from peaker.domain.issued import CheckState, IssuedForecast
from peaker.domain.runs.past_runs import PastSteps


@dataclass
class FakeForecastRecords:
    """By cluster; `past` is every cluster's."""

    states: dict[str, CheckState] = field(default_factory=dict)
    kept: dict[str, list[IssuedForecast]] = field(default_factory=dict)
    past: PastSteps = field(default_factory=PastSteps)
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)

    def check_state(self, cluster: str) -> CheckState:
        return self.states.get(cluster, CheckState())

    def save_check_state(self, cluster: str, state: CheckState) -> None:
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
