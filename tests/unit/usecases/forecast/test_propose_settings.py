"""The weekly look at the settings: what is proposed, when nothing is, and what a second look does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from peaker.domain.issued import LoadPoints
from peaker.domain.planning.prices import US_EAST_1
from peaker.domain.replay.kept_proposal import KeptProposal
from peaker.domain.replay.settings_proposal import Advice
from peaker.ports import ForecastPorts
from peaker.usecases.forecast.propose_settings import SettingsProposed, propose_settings

from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsUnavailable, PeakerError, Throttled
from peaker_contract.load_settings import LoadMetricSettings
from peaker_contract.metrics import Metric
from tests.support.builders import orders
from tests.support.fakes import NOON, FakePorts, fake_ports
from tests.support.forecast_fakes import FakeForecastRecords, FakeProposalRecords
from tests.unit.domain.forecasting.loads import daily

HOUR = 3600
# The week of NOON, a Saturday, began on a Monday.
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
FORECAST = {"schedule_minutes": 180, "quantile": 0.95, "headroom": 0.0, "keep_lead_times": 2.0}
GENEROUS = {**FORECAST, "quantile": 0.99, "headroom": 0.4}
SAVING = Metric.SETTINGS_SAVING_USD_PER_WEEK


@dataclass
class Load:
    """Hourly loads until now; CloudWatch throttles the first `throttled` calls."""

    values: NDArray[np.float64]
    until: datetime = MONDAY
    throttled: int = 0
    asked: int = 0

    def points(self, settings: ClusterSettings, start: datetime, end: datetime) -> LoadPoints:
        self.asked += 1
        if self.asked <= self.throttled:
            raise Throttled("cloudwatch:GetMetricData: ThrottlingException")
        first = self.until.timestamp() - HOUR * len(self.values)
        points = [(first + HOUR * at, float(value)) for at, value in enumerate(self.values)]
        inside = [(at, value) for at, value in points if start.timestamp() <= at < end.timestamp()]
        inside = [(at, value) for at, value in inside if np.isfinite(value)]
        return LoadPoints([at for at, _ in inside], [value for _, value in inside], float(HOUR))

    def events(self, metric: LoadMetricSettings, start: datetime, end: datetime) -> LoadPoints:
        raise AssertionError("no trouble metric is read")


@dataclass
class Published:
    """What was published, in order; the first `throttled` calls are refused."""

    points: list[tuple[str, dict[Metric, float]]] = field(default_factory=list)
    throttled: int = 0

    def publish(self, cluster: str, at: datetime, values: Mapping[Metric, float]) -> None:
        if self.throttled:
            self.throttled -= 1
            raise Throttled("cloudwatch:PutMetricData: ThrottlingException")
        self.points.append((cluster, dict(values)))


@dataclass
class World:
    common: FakePorts
    load: Load
    published: Published = field(default_factory=Published)
    remembered: FakeForecastRecords = field(default_factory=FakeForecastRecords)
    proposals: FakeProposalRecords = field(default_factory=FakeProposalRecords)

    def look(self) -> SettingsProposed:
        return propose_settings(
            ForecastPorts(self.common, self.load, self.published, self.remembered, self.proposals)
        )

    @property
    def kept(self) -> KeptProposal:
        return self.proposals.proposal("orders")

    def set(self, *clusters: ClusterSettings) -> None:
        self.common.clusters.by_name = {one.name: one for one in clusters}  # type: ignore[attr-defined]

    def checked(self, *clusters: str) -> None:
        """forecast_load has left its report."""
        report = {"capacity_per_replica": 20.0, "lead_time_p90_seconds": 7200.0}
        self.remembered.reports |= dict.fromkeys(clusters, report)


def cluster(**changes: Any) -> ClusterSettings:
    given = {
        "forecast": FORECAST,
        "max_replicas": 20,
        "min_replicas": 1,
        "instance_hourly_usd": 0.5,
        "capacity_per_replica": 20.0,
    }
    return orders(**{**given, **changes})


def world(days: float = 28, **changes: Any) -> World:
    """Whole weeks of a daily wave, hourly, of which a replica serves 20; a check has run."""
    made = World(fake_ports(cluster(**changes)), Load(daily(days, HOUR)))
    made.checked("orders")
    return made


def test_where_too_much_is_left_free_the_cheapest_settings_are_proposed_with_dollars() -> None:
    here = world(forecast=GENEROUS)
    said = here.look().clusters["orders"]
    kept = here.kept
    assert said.startswith("change: the cheapest of 21 settings")
    assert kept.advice is Advice.CHANGE
    assert kept.now is not None
    assert kept.proposed is not None
    assert (kept.now.quantile, kept.now.headroom) == (0.99, 0.4)
    assert kept.proposed.headroom < 0.4
    assert kept.proposed.short_minutes <= kept.now.short_minutes
    saved = kept.now.usd - kept.proposed.usd
    assert saved > 10
    assert kept.saved_usd_per_week == pytest.approx(saved, abs=0.001)
    assert kept.now.usd == pytest.approx(0.5 * kept.now.replica_hours, abs=0.01)
    assert (kept.weeks, kept.week_ends_at) == (2, MONDAY)
    assert here.published.points == [("orders", {SAVING: kept.saved_usd_per_week})]


def test_the_weeks_are_replayed_with_the_public_holidays_that_the_checks_know() -> None:
    days = {"Jubilee": ["2026-10-22-00:00", "2026-10-27-00:00", "2026-11-03-00:00", "2026-11-12-00:00"]}
    place = {"country": "UM", "time_zone": "UTC", "day_of_rest": "sunday", "days": days, "last_year": 2028}
    short_minutes = []
    for known in (place, None):
        here = world(28, public_holidays=known)
        for day in (3, 8, 15, 24):
            here.load.values[24 * day : 24 * (day + 1)] *= 3.0
        here.look()
        assert here.kept.now is not None
        short_minutes.append(here.kept.now.short_minutes)
    aware, unaware = short_minutes
    assert aware < unaware


def test_settings_that_were_proposed_and_set_may_stay() -> None:
    here = world(forecast=GENEROUS)
    here.look()
    proposed = here.kept.proposed
    assert proposed is not None
    better = {
        **FORECAST,
        "quantile": proposed.quantile,
        "headroom": proposed.headroom,
        "keep_lead_times": proposed.keep_lead_times,
    }
    here.set(cluster(forecast=better))
    # Other settings are looked at at once, and not in the next week.
    assert here.look().clusters["orders"].startswith("stay: of 20 settings none was short")
    assert here.kept.proposed is None
    assert here.kept.saved_usd_per_week == 0.0
    assert here.published.points[-1] == ("orders", {SAVING: 0.0})


def test_an_operator_who_accepts_shortage_is_proposed_what_it_saves() -> None:
    accepting = {"proposals": {"accepted_short_minutes": 1200}}
    here = world(forecast={**FORECAST, "quantile": 0.99}, **accepting)
    here.load = Load(daily(28, HOUR, noise=0.2))
    here.look()
    assert here.kept.proposed is not None
    assert here.kept.now is not None
    assert here.kept.now.short_minutes < here.kept.proposed.short_minutes <= 1200


def test_a_second_look_in_the_week_finds_nothing_to_do() -> None:
    here = world(forecast=GENEROUS)
    here.look()
    first, asked = here.kept, here.load.asked
    here.common.clock.advance(hours=30)
    assert here.look().clusters == {"orders": "nothing to do"}
    assert here.kept == first
    assert here.load.asked == asked
    assert len(here.published.points) == 1


def test_with_the_next_week_it_is_looked_at_again() -> None:
    here = world(forecast=GENEROUS)
    here.look()
    here.load = Load(daily(35, HOUR), MONDAY + timedelta(days=7))
    here.common.clock.time = MONDAY + timedelta(days=7, minutes=10)
    here.look()
    assert here.kept.week_ends_at == MONDAY + timedelta(days=7)
    assert (here.kept.version, here.kept.weeks) == (2, 3)


def nothing(here: World) -> str:
    """Why nothing is proposed; it is kept, and there is no figure."""
    here.look()
    assert here.kept.advice is Advice.UNKNOWN
    assert here.kept.proposed is None
    assert here.kept.saved_usd_per_week is None
    assert here.published.points == []
    return here.kept.reason


def test_under_four_weeks_of_load_propose_nothing() -> None:
    assert nothing(world(days=27)) == "27.0 days of load until the week's end, and 28 are needed"


def test_a_load_that_was_mostly_not_seen_proposes_nothing() -> None:
    here = world()
    here.load.values[-10 * 24 : -5 * 24] = np.nan
    assert nothing(here) == "the load was seen in 64% of the last 2 weeks, 90% are needed"


def test_a_load_that_cannot_be_forecast_proposes_nothing() -> None:
    metric = orders().load_metric.model_dump() | {"name": "CPUUtilization"}
    here = world(load_metric=metric)
    here.load.values /= 2.0
    assert nothing(here).startswith("the load cannot be forecast (CPUUtilization")


def test_a_metric_that_died_proposes_nothing() -> None:
    here = world(days=35)
    here.load.values[-24:] = np.nan
    assert "the newest point is" in nothing(here)


def test_without_a_price_nothing_is_proposed_and_the_next_day_is_asked_again() -> None:
    here = world(instance_hourly_usd=None, instance_type="r6i.metal", region="eu-west-1")
    assert US_EAST_1.instance_hourly.get("r6i.metal") is None
    assert nothing(here).startswith("the price of a replica is not known")
    assert here.load.asked == 0
    here.set(cluster(forecast=FORECAST))
    # The price is no setting that the answer depends on: it is asked for again when a day is over.
    assert here.look().clusters["orders"] == "nothing to do"
    here.common.clock.advance(hours=24)
    here.look()
    assert here.kept.advice is not Advice.UNKNOWN


def test_before_the_first_check_nothing_is_proposed() -> None:
    here = world()
    here.remembered.reports.clear()
    assert nothing(here) == "forecast_load has not run yet since this release was deployed"


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"capacity_per_replica": 0.0, "lead_time_p90_seconds": 60.0},
        {"capacity_per_replica": float("nan"), "lead_time_p90_seconds": 60.0},
        {"capacity_per_replica": 20.0, "lead_time_p90_seconds": float("inf")},
        {"capacity_per_replica": 20.0, "lead_time_p90_seconds": "soon"},
    ],
)
def test_a_report_that_says_no_capacity_proposes_nothing(report: dict[str, Any]) -> None:
    here = world()
    here.remembered.reports["orders"] = report
    assert nothing(here).startswith("this release cannot read the newest check's report")


def test_a_lead_time_beyond_the_forecast_proposes_nothing() -> None:
    here = world()
    here.remembered.reports["orders"] = {"capacity_per_replica": 20.0, "lead_time_p90_seconds": 8 * 86_400.0}
    assert nothing(here).startswith(
        "with a lead time of 192 h the load would have to be forecast for 16 days"
    )


def test_a_cluster_that_wants_no_proposals_is_left_alone() -> None:
    here = world(proposals={"weekly": False})
    assert here.look().clusters == {"orders": "proposals.weekly is false"}
    assert (here.kept, here.load.asked) == (KeptProposal(), 0)


def test_a_throttled_reading_is_raised_and_the_retry_proposes() -> None:
    here = world(forecast=GENEROUS)
    here.load.throttled = 1
    with pytest.raises(Throttled, match="orders: Throttled: cloudwatch:GetMetricData"):
        here.look()
    assert here.kept == KeptProposal()
    here.look()
    assert here.kept.advice is Advice.CHANGE


def test_a_figure_that_was_not_published_is_not_kept_and_comes_with_the_retry() -> None:
    here = world(forecast=GENEROUS)
    here.published.throttled = 1
    with pytest.raises(Throttled, match="cloudwatch:PutMetricData"):
        here.look()
    assert here.kept == KeptProposal()
    here.look()
    assert here.published.points == [("orders", {SAVING: here.kept.saved_usd_per_week})]


def test_where_another_look_was_first_its_answer_stands() -> None:
    """Of two looks that read the same one, the second to write is told so."""
    here = world(days=27)
    here.look()
    theirs = here.kept
    here.common.clock.advance(hours=24)

    class ReadBefore(FakeProposalRecords):
        def proposal(self, cluster: str) -> KeptProposal:
            return theirs.model_copy(update={"version": 0})

        def keep_proposal(self, cluster: str, changed: KeptProposal) -> bool:
            return here.proposals.keep_proposal(cluster, changed)

    ports = ForecastPorts(here.common, here.load, here.published, here.remembered, ReadBefore())
    assert propose_settings(ports).clusters == {"orders": "another look was first"}
    assert here.kept == theirs


class RefusesOne(FakeForecastRecords):
    """The reports of one cluster cannot be read."""

    def report(self, cluster: str) -> dict[str, Any] | None:
        if cluster == "archive":
            raise AwsUnavailable("dynamodb:GetItem: InternalServerError")
        return super().report(cluster)


def test_what_one_cluster_refuses_keeps_no_other_from_its_turn() -> None:
    here = world(days=27)
    here.set(cluster(name="archive"), cluster(), cluster(name="zoo"))
    here.remembered = RefusesOne()
    with pytest.raises(PeakerError, match=r"archive: AwsUnavailable: dynamodb:GetItem") as raised:
        here.look()
    assert "orders: unknown:" in str(raised.value)
    assert [here.proposals.proposal(name).version for name in ("archive", "orders", "zoo")] == [0, 1, 1]


def test_a_look_begins_no_cluster_after_ten_minutes_and_the_next_one_takes_up_the_rest() -> None:
    here = world(days=27)
    here.set(cluster(name="archive"), cluster(), cluster(name="zoo"))
    here.checked("archive", "orders", "zoo")

    class Slow(FakeProposalRecords):
        def keep_proposal(self, name: str, changed: KeptProposal) -> bool:
            here.common.clock.advance(minutes=6)
            return super().keep_proposal(name, changed)

    here.proposals = Slow()
    first = here.look()
    assert (len(first.clusters), len(first.later)) == (2, 1)
    second = here.look()
    assert second.later == ()
    assert all(here.proposals.proposal(name).version == 1 for name in ("archive", "orders", "zoo"))


def test_every_hour_another_cluster_is_the_first() -> None:
    here = world()
    here.set(*(cluster(name=name, proposals={"weekly": False}) for name in ("a", "b", "c")))
    firsts = []
    for _ in range(3):
        firsts.append(next(iter(here.look().clusters)))
        here.common.clock.advance(hours=1)
    assert sorted(firsts) == ["a", "b", "c"]


def test_without_a_cluster_there_is_nothing_to_say() -> None:
    here = world()
    here.set()
    assert here.look().text == "there is no cluster"
    assert here.common.clock.now() == NOON
