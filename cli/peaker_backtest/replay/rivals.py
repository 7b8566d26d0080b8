"""Rivals in the replay: reactive scaling, a schedule by the hour, and static fleets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from peaker.domain.planning.scaling_policy import replicas_for

from peaker_backtest.replay.simulation import (
    Event,
    FleetInTime,
    Floats,
    Outcome,
    Scenario,
    outcome_of,
    simulate_decisions,
)

SCHEDULED_FROM_DAYS = 14


def simulate_static_peak(scenario: Scenario) -> Outcome:
    """Returns the smallest constant fleet that is never short in the compared steps: nobody can know it before."""
    compared = scenario.series.values[scenario.compared_from : scenario.last]
    return _constant("static peak", scenario, static_replicas(scenario, compared))


def simulate_fleet(scenario: Scenario, replicas: int) -> Outcome:
    """Returns what the fleet of today comes to, if it stays."""
    return _constant("today's fleet", scenario, replicas)


def simulate_schedule(scenario: Scenario) -> Outcome:
    """Returns what a schedule comes to that a cron job keeps: each hour what its load of the last two weeks took.

    That is the highest load of the same hour in the 14 days before the day. A replica is built a lead time before it
    serves and drains after it.
    """
    series = scenario.series
    day, hour = series.steps_per_day, max(1, 3600 // series.step_seconds)
    into_day = round(series.start_seconds % 86_400 / series.step_seconds)
    serving = np.empty(scenario.last - scenario.first, dtype=np.int64)
    for step in range(scenario.first, scenario.last):
        midnight = step - (step + into_day) % day
        slot = (step + into_day) % day // hour * hour
        starts = [midnight - days * day + slot for days in range(1, SCHEDULED_FROM_DAYS + 1)]
        known = [series.values[max(0, at) : max(0, at + hour)] for at in starts]
        serving[step - scenario.first] = static_replicas(scenario, np.concatenate(known))
    lead, drain = scenario.lead_steps, scenario.drain_steps
    around = np.pad(serving, (drain, lead), mode="edge")
    paid = np.lib.stride_tricks.sliding_window_view(around, lead + drain + 1).max(axis=1)
    return outcome_of("cron schedule", scenario, serving, paid.astype(np.int64), ())


def static_replicas(scenario: Scenario, loads: Floats) -> int:
    """Replicas that the highest of these loads takes, within the limits."""
    seen = loads[np.isfinite(loads)]
    wanted = replicas_for(float(seen.max()) if len(seen) else 0.0, scenario.capacity_per_replica)
    return min(scenario.max_replicas, max(scenario.min_replicas, wanted))


def _constant(name: str, scenario: Scenario, replicas: int) -> Outcome:
    """Returns what so many replicas come to that always serve."""
    course = np.full(scenario.last - scenario.first, replicas, dtype=np.int64)
    return outcome_of(name, scenario, course, course.copy(), ())


def simulate_reactive(scenario: Scenario, target: float) -> Outcome:
    """Replays reactive scaling: launches at `target` utilisation, retirements after max(60 min, L) below."""
    values = scenario.series.values
    patience = max(3600.0, scenario.lead_seconds)
    low_since: float | None = None

    def decide_at(step: int, fleet: FleetInTime) -> Event | None:
        nonlocal low_since
        load = values[step]
        if not np.isfinite(load):
            # An alarm without data is no alarm, and its low periods are counted from the beginning.
            low_since = None
            return None
        wanted = replicas_for(float(load) / target, scenario.capacity_per_replica)
        wanted = min(scenario.max_replicas, max(scenario.min_replicas, wanted))
        now = scenario.at_end_of(step)
        coming = fleet.serving + len(fleet.arrivals)
        if wanted > coming:
            low_since = None
            started = fleet.launch(step, wanted - coming)
            return Event(step, "scale_out", started, f"load {load:g}") if started else None
        if wanted >= fleet.serving:
            low_since = None
            return None
        low_since = now if low_since is None else low_since
        if now - low_since < patience:
            return None
        count = fleet.serving - wanted
        fleet.retire(step, count)
        low_since = None
        return Event(step, "scale_in", count, f"load {load:g} for {patience / 60:.0f} min")

    # Their launches wait for none before: no lease of a cluster is in their way.
    unlimited = replace(scenario, batches_overlap=True)
    return simulate_decisions(f"reactive at {target:.0%}", unlimited, decide_at)
