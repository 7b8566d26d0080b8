"""Read the load's history, forecast it, decide how many replicas it takes, publish the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from peaker.domain.decoding import Frozen
from peaker.domain.forecasting import (
    Forecast,
    Standing,
)
from peaker.domain.forecasting.forecaster import REACTIVE_ONLY_BELOW_DAYS
from peaker.domain.instants import to_iso
from peaker.domain.issued import CheckState, IssuedForecast
from peaker.domain.planning.lead_time import (
    LeadTime,
    LeadTimeInputs,
    predict_lead_time,
    predict_return,
    why_too_far_behind,
)
from peaker.domain.planning.needed_replicas import DecisionInputs
from peaker.domain.planning.scaling import Action, Outcome, ScalingDecision, decide
from peaker.domain.planning.scaling_policy import (
    Capacity,
    ScalingPolicy,
    minimum_lifetime_minutes,
    with_headroom,
)
from peaker.domain.planning.taken_reads import with_few_reads
from peaker.domain.prices.price_table import PriceTable, usd
from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.parked import parked_seconds, returnable
from peaker.domain.report.event import decision_event
from peaker.domain.runs.past_runs import PastSteps
from peaker.ports.bundle import Ports
from peaker.usecases.forecast.decision_inputs import (
    Observation,
    capacity,
    carried_over,
    observation,
    troubles,
)
from peaker.usecases.forecast.fleet_now import fleet_now
from peaker.usecases.forecast.load_ahead import load_forecaster, load_history
from peaker.usecases.forecast.reads_taken import reads_taken, with_shares
from peaker.usecases.forecast.scoring import LEAST_SCORED, Score, score_issued
from peaker.usecases.plan.lead_time_inputs import GIB, lead_time_inputs, snapshot_history, volume_bytes
from peaker.usecases.plan.refresh_prices import cluster_prices
from peaker_contract.cluster import ClusterSettings
from peaker_contract.metrics import Metric

_SCORED_FOR = timedelta(days=7)
# Numbers of a decision that a person must see, also where it adds what can be added.
_PAGING = frozenset({"horizon_seconds", "uncovered_replicas"})


class ForecastReport(Frozen):
    """What one run found and said, for the log and the console."""

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
    history: str
    awaits_load: bool
    coverage: float | None
    scored: int
    lead_time_p50_seconds: float
    lead_time_p90_seconds: float
    quantile: float
    capacity_per_replica: float
    capacity_basis: str
    observing: bool
    observation: str
    observation_days_left: float
    score: str
    forecast_error: float | None
    numbers: dict[str, float]
    reasons: tuple[str, ...]
    # By replica: its reads over those of the busiest, why that is not known, and which count as no more than that.
    read_shares: dict[str, float]
    read_shares_unknown: dict[str, str]
    few_reads: tuple[str, ...]


def forecast_load(ports: Ports, cluster: str) -> ForecastReport:
    """One scheduled check of one cluster. Raises UnknownCluster.

    When the fleet cannot be read it is unknown, and the decision is to hold.
    """
    now = ports.clock.now()
    settings = ports.clusters.settings(cluster)
    past = ports.records.past_steps(cluster)
    counts, fleet = fleet_now(ports, settings, now)
    state = carried_over(ports.records.check_state(cluster), fleet, now)
    shares: dict[str, Reading] = {}
    if fleet is not None:
        shares = reads_taken(ports, settings, fleet)
        state = with_few_reads(state, shares, now.timestamp(), 60.0 * settings.forecast.schedule_minutes)
        counts = with_shares(counts, state, shares)
    history = snapshot_history(ports, settings, fleet)
    lead_inputs = lead_time_inputs(settings, fleet, past, history)
    lead_time = predict_lead_time(lead_inputs, past)
    series = load_history(ports, settings, now)
    forecaster = load_forecaster(series, lead_time, settings)
    forecast = forecaster.at_the_end(lead_time.p90_seconds)
    inputs = DecisionInputs(
        now_seconds=now.timestamp(),
        load_now=None if forecast.stale else forecast.last_load,
        fleet=counts,
        troubles=troubles(ports, settings, state, now),
        calendar=settings.calendar,
    )
    prices = cluster_prices(ports, settings)
    policy = scaling_policy(settings, prices, fleet, capacity(settings, past))
    decision = decide(inputs, forecast, lead_time, policy, state)
    missing = max(1, decision.shortage)
    back = return_lead_time(ports.environment, fleet, missing, lead_inputs, past, now, lead_time)
    if back is not None:
        nearer = forecaster.at_the_end(back.p90_seconds)
        later = decide(inputs, nearer, back, policy, state)
        if later.surplus:
            # A nearer look may let a return wait; it is no reason to take a replica away (I8).
            reason = f"no scale-in: {decision.reason}; the parked replicas return in time"
            later = replace(later, action=Action.NONE, outcome=Outcome.HOLD, reason=reason, surplus=0)
        # The nearer look counts also alone: a peak may be shorter than what a build takes more than a return.
        if decision.shortage or later.shortage:
            forecast, lead_time, decision = nearer, back, later
    check = _Check(
        settings=settings,
        now=now,
        inputs=inputs,
        forecast=forecast,
        history=f"{forecaster.days:.1f} of {REACTIVE_ONLY_BELOW_DAYS:g} days of load",
        lead_time=lead_time,
        policy=policy,
        decision=decision,
        shares=shares,
        score=score_issued(ports.records.issued(cluster, now - _SCORED_FOR), series),
        observation=observation(settings, state, now),
    )
    _publish(ports, check)
    _remember(ports, cluster, forecast, lead_time, decision)
    report = _report(check)
    ports.records.save_report(cluster, report.model_dump(mode="json"))
    ports.events.put(decision_event(ports.environment, report.model_dump(mode="json")))
    return report


@dataclass(frozen=True)
class _Check:
    """One check: what was seen, what was decided, and by which rules."""

    settings: ClusterSettings
    now: datetime
    inputs: DecisionInputs
    forecast: Forecast
    history: str
    lead_time: LeadTime
    policy: ScalingPolicy
    decision: ScalingDecision
    shares: Mapping[str, Reading]
    score: Score
    observation: Observation


def scaling_policy(
    settings: ClusterSettings,
    prices: PriceTable,
    fleet: FleetState | None,
    capacity_per_replica: Capacity,
) -> ScalingPolicy:
    """The cluster's rules; the minimum lifetime is at least what the hydration is worth in replica-hours."""
    gib = sum(volume_bytes(settings, fleet).values()) / GIB
    hydration_usd = usd(prices.initialization(gib, settings.initialization_rate_mib_per_s), 6)
    replica_hour = usd(prices.instance_hour(settings.instance_type), 6)
    minutes = minimum_lifetime_minutes(hydration_usd, replica_hour, settings.limits.minimum_lifetime_minutes)
    return ScalingPolicy(
        min_replicas=settings.min_replicas,
        max_replicas=settings.max_replicas,
        capacity=with_headroom(capacity_per_replica, settings.forecast.headroom),
        quantile=settings.forecast.quantile,
        period_seconds=60.0 * settings.forecast.schedule_minutes,
        minimum_lifetime_seconds=60.0 * minutes,
        hold_after_trouble_seconds=60.0 * settings.holds.minutes,
        is_reactive=settings.forecast.rule == "reactive",
    )


def return_lead_time(
    environment: str,
    fleet: FleetState | None,
    shortage: int,
    inputs: LeadTimeInputs,
    past: PastSteps,
    now: datetime,
    build: LeadTime,
) -> LeadTime | None:
    """How long the slowest return takes where parked replicas alone make up for the shortage; None where they do not.

    With one replica to build among those that are missing, the alarm must come as early as a build needs. So it must
    where a plan would build in place of the return.
    """
    ready = [] if fleet is None else returnable(fleet, environment, now)
    if len(ready) < shortage:
        return None
    back = predict_return(inputs, parked_seconds(ready[shortage - 1], now), past)
    if why_too_far_behind(back) is not None or back.p50_seconds >= build.p50_seconds:
        return None
    return back if back.p90_seconds < build.p90_seconds else None


def _publish(ports: Ports, check: _Check) -> None:
    decision, forecast = check.decision, check.forecast
    acts = not check.observation.observing
    values = {
        Metric.REQUIRED_REPLICAS: float(decision.required),
        Metric.REPLICA_SHORTAGE: float(decision.shortage if acts else 0),
        Metric.REPLICA_SURPLUS: float(decision.surplus if acts else 0),
        Metric.SCALING_DECISION: float(decision.shortage - decision.surplus),
        Metric.DECISION_ALARM: float(_is_alarm(check) or bool(_PAGING & decision.numbers.keys())),
        Metric.LEAD_TIME_SECONDS: check.lead_time.p90_seconds,
        Metric.FORECAST_DEGRADED: float(_is_degraded(check)),
        Metric.OBSERVING: float(check.observation.observing),
    }
    known = {
        Metric.SERVING_REPLICAS: decision.numbers.get("serving", -1.0),
        Metric.CAPACITY_PER_REPLICA: check.policy.capacity.per_replica,
        Metric.FORECAST_COVERAGE: _coverage(forecast, check.score),
        Metric.FORECAST_LOAD: decision.numbers.get("forecast_upper"),
        Metric.FORECAST_LOAD_P50: decision.numbers.get("forecast_p50"),
        Metric.FORECAST_LOAD_P95: decision.numbers.get("forecast_p95"),
    }
    values |= {name: value for name, value in known.items() if value is not None and value >= 0}
    ports.metrics.publish(check.settings.name, check.now, values)


def _is_degraded(check: _Check) -> bool:
    """Tells whether the forecast fails: its load is late or no guide. A history that is still short is no failure."""
    if check.forecast.standing is Standing.DEGRADED:
        return True
    return check.forecast.stale and not _awaits_load(check)


def _is_alarm(check: _Check) -> bool:
    """Tells whether the decision needs a person; a new cluster without a load does not, if its fleet is known."""
    waits = _awaits_load(check) and check.inputs.fleet.serving is not None
    return check.decision.outcome is Outcome.ALARM and not waits


def _awaits_load(check: _Check) -> bool:
    """Tells whether the cluster is in its first days, and its load has never had a point."""
    return check.observation.is_new and check.forecast.age_seconds is None


def _coverage(forecast: Forecast, score: Score) -> float | None:
    """What issued forecasts really covered, once enough were scored; the backtest's figure before that."""
    return score.coverage95 if score.scored >= LEAST_SCORED else forecast.coverage


def _remember(
    ports: Ports, cluster: str, forecast: Forecast, lead_time: LeadTime, decision: ScalingDecision
) -> None:
    state: CheckState = decision.state
    ports.records.save_check_state(cluster, state)
    if forecast.quantiles is None:
        return
    ahead = max(1, round(lead_time.p90_seconds / forecast.step_seconds)) * forecast.step_seconds
    if ahead > forecast.reach_seconds:
        return
    middle = ahead - forecast.step_seconds / 2
    issued = IssuedForecast(
        issued_at_seconds=forecast.issued_at_seconds,
        target_seconds=forecast.issued_at_seconds + ahead,
        p50=forecast.highest(0.5, middle, middle),
        p95=forecast.highest(0.95, middle, middle),
        required=decision.required,
    )
    ports.records.save_issued(cluster, issued)


def _report(check: _Check) -> ForecastReport:
    forecast, decision, lead_time = check.forecast, check.decision, check.lead_time
    reasons: Sequence[str] = forecast.reasons
    return ForecastReport(
        cluster=check.settings.name,
        at=to_iso(check.now.astimezone(UTC)),
        mode=check.settings.mode,
        action=decision.action,
        outcome=decision.outcome,
        reason=decision.reason,
        required=decision.required,
        shortage=decision.shortage,
        surplus=decision.surplus,
        serving=check.inputs.fleet.serving,
        building=check.inputs.fleet.building,
        load_now=check.inputs.load_now,
        forecast_p50=decision.numbers.get("forecast_p50"),
        forecast_p95=decision.numbers.get("forecast_p95"),
        standing=forecast.standing,
        history=check.history,
        awaits_load=_awaits_load(check) and check.inputs.fleet.serving is not None,
        coverage=_coverage(forecast, check.score),
        scored=check.score.scored,
        lead_time_p50_seconds=lead_time.p50_seconds,
        lead_time_p90_seconds=lead_time.p90_seconds,
        quantile=check.policy.quantile,
        capacity_per_replica=check.policy.capacity.per_replica,
        capacity_basis=check.policy.capacity.basis,
        observing=check.observation.observing,
        observation=check.observation.reason,
        observation_days_left=check.observation.days_left,
        score=_score_text(check.score),
        forecast_error=check.score.error50,
        numbers=dict(decision.numbers),
        reasons=(*reasons, lead_time.reason),
        read_shares=dict(check.inputs.fleet.read_shares),
        read_shares_unknown={name: one.why for name, one in check.shares.items() if isinstance(one, Unknown)},
        few_reads=tuple(sorted(check.inputs.fleet.few_reads)),
    )


def _score_text(score: Score) -> str:
    if score.coverage95 is None:
        return "no forecast could be scored yet"
    error = "" if score.error50 is None else f", p50 was off by {score.error50:.0%} on average"
    return f"{score.scored} forecasts scored: {score.coverage95:.0%} of the loads stayed under p95{error}"
