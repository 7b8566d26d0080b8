"""Read the load's history, forecast it, decide how many replicas it takes, publish the figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict

from peaker.domain.cluster import ClusterSettings
from peaker.domain.errors import Retryable
from peaker.domain.fleet import Observation as FleetObservation
from peaker.domain.fleet import ReplicaState
from peaker.domain.forecasting import (
    Forecast,
    LoadSeries,
    Standing,
    UnusableSeries,
    forecast_demand,
    series_from_points,
)
from peaker.domain.forecasting.scoring import LEAST_SCORED, Score, score_issued
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS, empty_series
from peaker.domain.instants import to_iso
from peaker.domain.issued import CheckState, IssuedForecast
from peaker.domain.lead_time import LeadTime, predict_lead_time
from peaker.domain.ledger import LeaseRow
from peaker.domain.prices import US_EAST_1, PriceTable
from peaker.domain.reading import Known
from peaker.domain.scaling import (
    Capacity,
    Fleet,
    Observation,
    Outcome,
    ScalingDecision,
    ScalingPolicy,
    decide,
    minimum_lifetime_minutes,
)
from peaker.ports import ForecastPorts
from peaker.usecases.lead_time_inputs import GIB, lead_time_inputs, volume_bytes
from peaker.usecases.observe_fleet import observe_fleet

_SCORED_FOR = timedelta(days=7)


class ForecastReport(BaseModel):
    """What one run found and said, for the log and the console."""

    model_config = ConfigDict(frozen=True)

    cluster: str
    at: str
    mode: str
    action: str
    outcome: str
    reason: str
    required: int
    shortage: int
    surplus: int
    serving: int | None
    building: int
    load_now: float | None
    forecast_p50: float | None
    forecast_p95: float | None
    standing: str
    model: str
    coverage: float | None
    scored: int
    lead_time_p50_seconds: float
    lead_time_p90_seconds: float
    reasons: tuple[str, ...]


def forecast_load(ports: ForecastPorts, cluster: str) -> ForecastReport:
    """One scheduled check of one cluster. Raises UnknownCluster.

    When the fleet cannot be read it is unknown, and the decision is to hold.
    """
    now = ports.common.clock.now()
    settings = ports.common.clusters.settings(cluster)
    past = ports.records.past_steps(cluster)
    fleet, observed = _fleet(ports, settings, now)
    lead_time = predict_lead_time(lead_time_inputs(settings, observed, past), past)
    series = _history(ports, settings, now)
    forecast = forecast_demand(series, lead_time.p90_seconds, metric_name=settings.load_metric.name)
    observation = Observation(
        now_seconds=now.timestamp(),
        load_now=None if forecast.stale else forecast.last_load,
        fleet=fleet,
    )
    policy = scaling_policy(settings, US_EAST_1, observed)
    decision = decide(observation, forecast, lead_time, policy, ports.records.check_state(cluster))
    score = score_issued(ports.records.issued(cluster, now - _SCORED_FOR), series)
    _publish(ports, settings, now, forecast, lead_time, decision, score)
    _remember(ports, cluster, forecast, lead_time, decision)
    return _report(settings, now, observation, forecast, lead_time, decision, score)


def scaling_policy(
    settings: ClusterSettings, prices: PriceTable, observed: FleetObservation | None
) -> ScalingPolicy:
    """The cluster's rules; the minimum lifetime is at least what the hydration is worth in replica-hours."""
    gib = sum(volume_bytes(settings, observed).values()) / GIB
    hydration_usd = prices.initialization(gib, settings.initialization_rate_mib_per_s)
    hourly = prices.instance_hour(settings.instance_type)
    replica_hour = hourly.value if isinstance(hourly, Known) else 0.0
    minutes = minimum_lifetime_minutes(hydration_usd, replica_hour, settings.limits.minimum_lifetime_minutes)
    return ScalingPolicy(
        min_replicas=settings.min_replicas,
        max_replicas=settings.max_replicas,
        capacity=Capacity(settings.capacity_per_replica, "from the settings"),
        quantile=settings.forecast.quantile,
        period_seconds=60.0 * settings.forecast.schedule_minutes,
        minimum_lifetime_seconds=60.0 * minutes,
    )


def _history(ports: ForecastPorts, settings: ClusterSettings, now: datetime) -> LoadSeries:
    points = ports.history.points(settings, now - timedelta(days=KEPT_HISTORY_DAYS), now)
    try:
        return series_from_points(
            points.times_seconds,
            points.values,
            now_seconds=now.timestamp(),
            period_seconds=points.period_seconds,
        )
    except UnusableSeries:
        # Too coarse for a daily shape: the load itself still counts, nothing is forecast.
        return empty_series(now.timestamp())


def _fleet(
    ports: ForecastPorts, settings: ClusterSettings, now: datetime
) -> tuple[Fleet, FleetObservation | None]:
    """The fleet as the decision counts it. When AWS does not answer, serving is unknown, which means hold (I4)."""
    try:
        observed = observe_fleet(ports.common, settings, with_volumes=True)
        lease = ports.common.lease.current(settings.name, now)
    except Retryable:
        return Fleet(serving=None), None
    rows = {one.instance_id: one.ledger_row for one in observed.replicas if one.ledger_row is not None}
    serving = observed.serving
    in_service_since = {
        one.instance_id: row.changed_at.timestamp()
        for one in serving
        if (row := rows.get(one.instance_id)) is not None and row.state is ReplicaState.IN_SERVICE
    }
    fleet = Fleet(
        serving=len(serving),
        building=_building(observed, lease),
        draining=1 if lease is not None and lease.operation == "scale_in" else 0,
        peak_in_service_since=in_service_since,
    )
    return fleet, observed


def _building(observed: FleetObservation, lease: LeaseRow | None) -> int:
    """Replicas that a live scale_out will add: one per lease, from its first moment, until it serves.

    A row left behind by a dead run does not count: nobody works on it.
    """
    if lease is None or lease.operation != "scale_out":
        return 0
    served = any(
        one.ledger_row is not None and one.ledger_row.run_id == lease.run_id for one in observed.serving
    )
    return 0 if served else 1


def _publish(
    ports: ForecastPorts,
    settings: ClusterSettings,
    now: datetime,
    forecast: Forecast,
    lead_time: LeadTime,
    decision: ScalingDecision,
    score: Score,
) -> None:
    acts = settings.mode == "act"
    values = {
        "RequiredReplicas": float(decision.required),
        "ReplicaShortage": float(decision.shortage if acts else 0),
        "ReplicaSurplus": float(decision.surplus if acts else 0),
        "ScalingDecision": float(decision.shortage - decision.surplus),
        "DecisionAlarm": float(decision.outcome is Outcome.ALARM),
        "LeadTimeSeconds": lead_time.p90_seconds,
        "ForecastDegraded": float(_is_degraded(forecast)),
    }
    known = {
        "ServingReplicas": decision.numbers.get("serving", -1.0),
        "ForecastCoverage": _coverage(forecast, score),
        "ForecastLoad": decision.numbers.get("forecast_upper"),
        "ForecastLoadP50": decision.numbers.get("forecast_p50"),
        "ForecastLoadP95": decision.numbers.get("forecast_p95"),
        "LoadAgeSeconds": forecast.age_seconds,
    }
    values |= {name: value for name, value in known.items() if value is not None and value >= 0}
    ports.metrics.publish(settings.name, now, values)


def _is_degraded(forecast: Forecast) -> bool:
    return forecast.stale or forecast.standing in {Standing.DEGRADED, Standing.REACTIVE_ONLY}


def _coverage(forecast: Forecast, score: Score) -> float | None:
    """What issued forecasts really covered, once enough were scored; the backtest's figure before that."""
    return score.coverage95 if score.scored >= LEAST_SCORED else forecast.coverage


def _remember(
    ports: ForecastPorts, cluster: str, forecast: Forecast, lead_time: LeadTime, decision: ScalingDecision
) -> None:
    state: CheckState = decision.state
    ports.records.save_check_state(cluster, state)
    if forecast.quantiles is None:
        return
    ahead = max(1, round(lead_time.p90_seconds / forecast.step_seconds))
    ahead = min(ahead, len(forecast.quantiles))
    issued = IssuedForecast(
        issued_at_seconds=forecast.issued_at_seconds,
        target_seconds=forecast.issued_at_seconds + ahead * forecast.step_seconds,
        p50=float(forecast.quantile(0.5)[ahead - 1]),
        p95=float(forecast.quantile(0.95)[ahead - 1]),
        model=forecast.model,
        required=decision.required,
    )
    ports.records.save_issued(cluster, issued)


def _report(
    settings: ClusterSettings,
    now: datetime,
    observation: Observation,
    forecast: Forecast,
    lead_time: LeadTime,
    decision: ScalingDecision,
    score: Score,
) -> ForecastReport:
    reasons: Sequence[str] = forecast.reasons
    return ForecastReport(
        cluster=settings.name,
        at=to_iso(now.astimezone(UTC)),
        mode=settings.mode,
        action=decision.action,
        outcome=decision.outcome,
        reason=decision.reason,
        required=decision.required,
        shortage=decision.shortage,
        surplus=decision.surplus,
        serving=observation.fleet.serving,
        building=observation.fleet.building,
        load_now=observation.load_now,
        forecast_p50=decision.numbers.get("forecast_p50"),
        forecast_p95=decision.numbers.get("forecast_p95"),
        standing=forecast.standing,
        model=forecast.model,
        coverage=_coverage(forecast, score),
        scored=score.scored,
        lead_time_p50_seconds=lead_time.p50_seconds,
        lead_time_p90_seconds=lead_time.p90_seconds,
        reasons=(*reasons, lead_time.reason),
    )
