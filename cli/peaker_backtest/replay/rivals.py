"""Rivals in the replay: reactive scaling and static fleets."""

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


def simulate_static_peak(scenario: Scenario) -> Outcome:
    """Returns the smallest constant fleet that is never short in the compared steps: nobody can know it before."""
    compared = scenario.series.values[scenario.compared_from : scenario.last]
    return _constant("static peak", scenario, static_replicas(scenario, compared))


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
