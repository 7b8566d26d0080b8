"""The fleet of a replay takes time to leave: what drains still costs, and is called back at once."""

from __future__ import annotations

import numpy as np
from peaker.domain.forecasting import LoadSeries
from peaker_backtest.replay.simulation import Event, FleetInTime, Scenario, simulate_decisions
from peaker_backtest.scenario import Options, make_scenario

STEP_SECONDS = 300


def scenario(**changes: int) -> Scenario:
    """Five-minute steps, an hour's lead, a drain of 20 minutes; two replicas serve at first."""
    series = LoadSeries(0.0, STEP_SECONDS, np.full(48, 1.0))
    given = {"lead_steps": 12, "drain_steps": 4, "start_with": 2, "decide_every_steps": 1, **changes}
    return Scenario(series, 12, 36, capacity_per_replica=1.0, **given)


def course(scene: Scenario, needed_at: int | None) -> tuple[list[int], list[int]]:
    """What serves and what is paid for in each step: one replica goes at once, and one is needed at a step."""

    def decide_at(step: int, fleet: FleetInTime) -> Event | None:
        if step == scene.first - 1:
            fleet.retire(step, 1)
        elif step - scene.first == needed_at:
            fleet.launch(step, 1)
        return None

    outcome = simulate_decisions("test", scene, decide_at)
    return outcome.serving.tolist(), outcome.paid.tolist()


def test_a_replica_that_drains_costs_and_serves_nobody() -> None:
    serving, paid = course(scenario(), None)
    assert set(serving) == {1}
    assert paid[:6] == [2, 2, 2, 2, 1, 1]


def test_without_a_drain_it_costs_nothing_from_the_next_step_on() -> None:
    assert course(scenario(drain_steps=0), None) == ([1] * 24, [1] * 24)


def test_an_addition_during_a_drain_calls_the_drained_one_back() -> None:
    """A step later it serves, as the load balancer takes five minutes; nothing is built."""
    serving, paid = course(scenario(), 1)
    assert serving[:5] == [1, 1, 1, 2, 2]
    assert set(paid) == {2}


def test_after_the_drain_it_is_built_for_a_lead_time() -> None:
    serving, _ = course(scenario(), 5)
    assert serving.index(2) == 5 + 1 + 12


def test_a_replay_looks_as_often_as_the_cluster_does() -> None:
    series = LoadSeries(0.0, STEP_SECONDS, np.full(40 * 288, 1.0))
    deployed = make_scenario(series, Options(quantile=0.95, schedule_minutes=15, drain_minutes=17))
    assert (deployed.decide_every_steps, deployed.drain_steps) == (3, 4)
    assert make_scenario(series, Options(quantile=0.95)).decide_every_steps == 1
