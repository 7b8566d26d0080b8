"""The scaling decision: what adds, what removes, what holds, what alarms."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker.domain.forecasting import LEVELS, Forecast, Standing
from peaker.domain.issued import CheckState
from peaker.domain.planning.lead_time import LeadTime
from peaker.domain.planning.needed_replicas import (
    DecisionInputs,
    FleetCounts,
    Trouble,
)
from peaker.domain.planning.scaling import Action, Outcome, ScalingDecision, decide
from peaker.domain.planning.scaling_policy import (
    Capacity,
    ScalingPolicy,
    measured_capacity,
    minimum_lifetime_minutes,
    replicas_for,
    with_headroom,
)

from peaker_contract.load_settings import CalendarEvent

NOW = 1_800_000_000.0
HOUR = 3600.0
LEAD = LeadTime(HOUR, 2 * HOUR, (), "given")
POLICY = ScalingPolicy(min_replicas=1, max_replicas=6, capacity=Capacity(100.0, "given"))
STEPS = 288


def forecast(curve: float | list[float] = 150.0, **changes: object) -> Forecast:
    """A forecast whose quantiles all follow `curve`: one value, or one per hour (the last one goes on)."""
    hours = [curve] if isinstance(curve, float) else curve
    flat = np.array([hours[min(i // 12, len(hours) - 1)] for i in range(STEPS)])
    base = Forecast(
        issued_at_seconds=NOW,
        step_seconds=300,
        levels=LEVELS,
        quantiles=np.repeat(flat[:, None], len(LEVELS), axis=1),
        standing=Standing.NORMAL,
        reasons=(),
        last_load=150.0,
        stale=False,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def known_now(load: float | None = 150.0, serving: int | None = 2, **fleet: object) -> DecisionInputs:
    peak = {f"i-{i}": NOW - 10 * HOUR for i in range((serving or 1) - 1)}
    return DecisionInputs(NOW, load, FleetCounts(serving, **{"peak_in_service_since": peak, **fleet}))  # type: ignore[arg-type]


def event(since: float, until: float, reason: str, **asked: float) -> CalendarEvent:
    begins, ends = (datetime.fromtimestamp(one, UTC) for one in (since, until))
    return CalendarEvent.model_validate({"from": begins, "until": ends, "reason": reason, **asked})


def check(
    inputs: DecisionInputs,
    expected: Forecast,
    state: CheckState | None = None,
    policy: ScalingPolicy = POLICY,
) -> ScalingDecision:
    return decide(inputs, expected, LEAD, policy, state or CheckState())


# --- forecast.rule: reactive -------------------------------------------------------------------------------

REACTIVE = replace(POLICY, is_reactive=True)


def test_the_reactive_rule_adds_for_the_load_of_now_and_for_no_forecast() -> None:
    ahead = check(known_now(load=150.0), forecast(550.0), policy=REACTIVE)
    assert (ahead.action, ahead.required) == (Action.NONE, 2)
    now = check(known_now(load=250.0), forecast(550.0), policy=REACTIVE)
    assert (now.action, now.shortage) == (Action.SCALE_OUT, 1)
    assert now.reason.endswith("; forecast.rule is reactive")


def test_the_reactive_rule_scales_at_the_target_that_headroom_leaves() -> None:
    at_70_percent = replace(REACTIVE, capacity=with_headroom(Capacity(100.0, "given"), 0.3))
    assert check(known_now(load=150.0), forecast(), policy=at_70_percent).shortage == 1


def test_the_reactive_rule_removes_after_a_lead_time_of_low_load_whatever_is_forecast() -> None:
    low, state, actions = known_now(load=80.0), CheckState(), []
    for number in range(25):
        at = replace(low, now_seconds=NOW + 300 * number)
        decision = check(at, forecast(550.0), state, REACTIVE)
        state = decision.state
        actions.append(decision.action)
    assert actions == [Action.NONE] * 24 + [Action.SCALE_IN]


def test_the_reactive_rule_knows_the_calendar_and_holds_without_a_load() -> None:
    sale = event(NOW, NOW + HOUR, "sale", min_replicas=4)
    assert check(replace(known_now(), calendar=(sale,)), forecast(), policy=REACTIVE).shortage == 2
    unknown = check(known_now(load=None), forecast(stale=True), policy=REACTIVE)
    assert (unknown.action, unknown.outcome) == (Action.NONE, Outcome.HOLD)


# --- scale-out ---------------------------------------------------------------------------------------------


def test_a_peak_at_the_lead_time_starts_a_replica_now() -> None:
    decision = check(known_now(), forecast([150.0, 150.0, 250.0, 150.0]))
    assert (decision.action, decision.outcome, decision.shortage) == (Action.SCALE_OUT, Outcome.ACT, 1)
    assert "p95 of the load in 120 min" in decision.reason
    assert decision.numbers["forecast_upper"] == 250.0


def test_the_reactive_floor_holds_when_the_forecast_is_too_low() -> None:
    decision = check(known_now(load=350.0), forecast(100.0))
    assert decision.shortage == 2
    assert "load of 350 now" in decision.reason


def test_a_load_that_those_who_serve_cannot_take_alone_is_not_said_to_be_theirs() -> None:
    """One serves at 100 each and one is being built: the load of 150 takes both."""
    at_work = check(known_now(load=150.0, serving=1, building=1), forecast(150.0))
    assert at_work.reason == "1 replica serves and 1 is being built, as needed by the load of 150 now"


def test_the_ceiling_limits_the_shortage_and_says_so() -> None:
    decision = check(known_now(load=150.0), forecast(900.0))
    assert (decision.required, decision.shortage) == (6, 4)
    assert "max_replicas 6 is the ceiling" in decision.reason


def test_a_forecast_issued_before_now_is_read_at_the_right_time() -> None:
    late = DecisionInputs(NOW + HOUR, 150.0, FleetCounts(2))
    assert check(late, forecast([150.0, 150.0, 150.0, 250.0])).shortage == 1


def test_a_young_history_serves_the_load_with_headroom() -> None:
    decision = check(known_now(load=190.0), forecast(standing=Standing.REACTIVE_ONLY, quantiles=None))
    assert decision.required == 3
    assert "70% headroom" in decision.reason


def test_what_cannot_be_forecast_is_served_as_it_comes_and_no_dearer() -> None:
    """The bands of such a load ask for anything; they neither add nor keep."""
    decision = check(known_now(load=190.0), forecast(900.0, standing=Standing.DEGRADED))
    assert (decision.action, decision.required) == (Action.NONE, 2)


def test_what_cannot_be_forecast_is_given_back_after_a_lead_time_of_low_load() -> None:
    """Two hours of lead time, a check every five minutes: 25 checks, as reactive scaling waits."""
    degraded = forecast(900.0, standing=Standing.DEGRADED)
    waiting = check(known_now(load=90.0, serving=3), degraded, CheckState(low_checks=11))
    assert (waiting.action, waiting.outcome) == (Action.NONE, Outcome.HOLD)
    patient = check(known_now(load=90.0, serving=3), degraded, CheckState(low_checks=24))
    assert (patient.action, patient.surplus) == (Action.SCALE_IN, 2)
    assert patient.state.low_checks == 0


def test_what_cannot_be_forecast_is_kept_while_the_load_is_not_measured() -> None:
    """Half an hour without a point: the last one before says nothing of the load since, and patience begins again."""
    late = forecast(10.0, standing=Standing.DEGRADED, age_seconds=1800.0)
    decision = check(known_now(load=90.0, serving=3), late, CheckState(low_checks=99))
    assert (decision.action, decision.state.low_checks) == (Action.NONE, 0)
    assert "the newest load is 30 min late" in decision.reason


def test_a_load_that_has_fallen_as_it_hardly_ever_does_keeps_its_replicas_for_half_a_lead_time() -> None:
    """What the readers stand behind is down for half an hour, and its return would take two hours of building."""
    down = forecast(0.0, fallen=True)
    waiting = check(known_now(load=0.0, serving=4), down, CheckState(low_checks=11))
    assert (waiting.action, waiting.outcome) == (Action.NONE, Outcome.HOLD)
    assert "seen 12 of 13 times in a row" in waiting.reason
    assert check(known_now(load=0.0, serving=4), down, CheckState(low_checks=12)).surplus == 3


@pytest.mark.parametrize("wrong", [{"checked_seconds": NOW + 86_400}, {"shift_seen_seconds": NOW + 86_400}])
def test_a_clock_that_was_ahead_holds_no_removal_until_its_time_comes(wrong: dict[str, float]) -> None:
    low = CheckState(low_checks=2, **wrong)  # type: ignore[arg-type]
    assert check(known_now(load=50.0, serving=3), forecast(50.0), low).surplus == 2


def test_a_factor_reaches_no_higher_than_the_highest_load_of_the_history_times_it() -> None:
    sale = event(NOW, NOW + 5 * HOUR, "sale", factor=2.0)
    inputs = replace(known_now(), calendar=(sale,))
    growing = forecast(390.0, highest_load=190.0)
    decision = check(inputs, growing)
    assert (decision.required, decision.numbers["forecast_upper"]) == (4, 390.0)
    assert check(inputs, replace(growing, highest_load=260.0)).numbers["forecast_upper"] == 520.0


def test_a_load_that_an_event_has_raised_is_not_raised_again() -> None:
    """Usual is 190 at most, and twice that is there: what cannot be forecast takes what it takes now."""
    sale = event(NOW - HOUR, NOW + 5 * HOUR, "sale", factor=2.0)
    degraded = forecast(380.0, standing=Standing.DEGRADED, highest_load=190.0)
    raised = replace(known_now(load=380.0, serving=4), calendar=(sale,))
    assert check(raised, degraded).required == 4
    rising = replace(known_now(load=150.0), calendar=(sale,))
    assert check(rising, degraded).required == 3


def test_a_lead_time_beyond_the_forecast_is_an_alarm_with_its_number() -> None:
    """Its last step says nothing of the hour in which the replica would serve."""
    far = LeadTime(20 * HOUR, 30 * HOUR, (), "given")
    decision = decide(known_now(serving=3), forecast([150.0] * 23 + [900.0]), far, POLICY, CheckState())
    assert (decision.action, decision.outcome) == (Action.NONE, Outcome.ALARM)
    assert "lead time of 30.0 h is beyond the forecast, which reaches 24.0 h" in decision.reason
    assert decision.numbers["horizon_seconds"] == 24 * HOUR
    adding = decide(known_now(load=350.0), forecast(), far, POLICY, CheckState())
    assert (adding.action, adding.shortage) == (Action.SCALE_OUT, 2)


def test_nothing_is_removed_where_the_forecast_ends_before_what_a_replica_is_kept_for() -> None:
    far = LeadTime(10 * HOUR, 15 * HOUR, (), "given")
    decision = decide(known_now(load=90.0, serving=3), forecast(90.0), far, POLICY, CheckState(low_checks=9))
    assert decision.outcome is Outcome.HOLD
    assert "the next 30.0 h count, and the forecast reaches 24.0 h" in decision.reason


def test_a_known_event_multiplies_the_forecast() -> None:
    sale = event(NOW + HOUR, NOW + 5 * HOUR, "sale", factor=2.0)
    decision = check(replace(known_now(), calendar=(sale,)), forecast())
    assert decision.required == 3


def test_a_known_event_may_ask_for_replicas() -> None:
    asked = event(NOW + HOUR, NOW + 5 * HOUR, "launch day", min_replicas=4)
    assert check(replace(known_now(), calendar=(asked,)), forecast()).required == 4


# --- unknown is not zero -----------------------------------------------------------------------------------


def test_an_unknown_fleet_is_an_alarm_and_nothing_is_done() -> None:
    decision = check(known_now(serving=None), forecast(900.0))
    assert (decision.action, decision.outcome) == (Action.NONE, Outcome.ALARM)
    assert decision.shortage == decision.surplus == 0


def test_neither_load_nor_forecast_is_an_alarm() -> None:
    decision = check(known_now(load=None), forecast(quantiles=None, standing=Standing.REACTIVE_ONLY))
    assert decision.outcome is Outcome.ALARM


# --- scale-in ----------------------------------------------------------------------------------------------


def low(state: CheckState | None = None, minutes: float = 0, **changes: object) -> ScalingDecision:
    known = replace(known_now(load=90.0, serving=3), now_seconds=NOW + 60 * minutes, **changes)  # type: ignore[arg-type]
    return check(known, forecast(90.0), state)


def test_scale_in_needs_three_low_checks_in_a_row() -> None:
    first = low()
    second = low(first.state, minutes=5)
    third = low(second.state, minutes=10)
    assert [one.surplus for one in (first, second, third)] == [0, 0, 2]
    assert third.outcome is Outcome.ACT
    assert "seen 1 of 3 times" in first.reason


READY = CheckState(low_checks=2)


LOW = known_now(load=90.0, serving=3)
KEPT: dict[str, tuple[DecisionInputs, Forecast]] = {
    "the forecast rises within two lead times": (LOW, forecast([90.0, 90.0, 90.0, 250.0])),
    "the forecast alone is low": (known_now(load=290.0, serving=3), forecast(50.0)),
    "one is in flight, and no replica that serves": (known_now(serving=2, building=1), forecast(150.0)),
    "all are base replicas": (known_now(load=90.0, serving=3, peak_in_service_since={}), forecast(90.0)),
    "the load cannot be forecast": (LOW, forecast(50.0, standing=Standing.DEGRADED)),
    "the history is young": (LOW, forecast(50.0, standing=Standing.SCALE_OUT_ONLY)),
    "another one drains": (known_now(load=90.0, serving=4, draining=1), forecast(90.0)),
}


def test_a_young_history_that_forecasts_badly_removes_as_little_as_one_that_forecasts_well() -> None:
    bad = forecast(50.0, standing=Standing.DEGRADED, is_young=True)
    patient = CheckState(low_checks=99)
    assert check(LOW, replace(bad, is_young=False), patient).surplus > 0
    assert check(LOW, bad, patient).surplus == 0


@pytest.mark.parametrize("why", KEPT)
def test_nothing_is_removed_while(why: str) -> None:
    assert check(*KEPT[why], READY).surplus == 0


def test_a_replica_younger_than_its_minimum_lifetime_stays() -> None:
    young = known_now(load=90.0, serving=2, peak_in_service_since={"i-0": NOW - 0.5 * HOUR})
    decision = check(young, forecast(90.0), READY)
    assert decision.surplus == 0
    assert "has lived 60 min" in decision.reason


def test_the_band_is_all_the_room_that_is_kept() -> None:
    """A load that never changes has a band without a width, and no replica to spare."""
    assert check(known_now(load=198.0, serving=3), forecast(198.0), READY).surplus == 1
    assert check(known_now(load=198.0, serving=3), forecast(202.0), READY).surplus == 0


@pytest.mark.parametrize("kind", ["error spike", "failover", "deploy"])
def test_after_trouble_low_load_proves_nothing(kind: str) -> None:
    decision = low(READY, troubles=(Trouble(kind, NOW - 600),))
    assert decision.surplus == 0
    assert kind in decision.reason
    assert low(READY, troubles=(Trouble(kind, NOW - 1900),)).surplus == 2


def test_a_level_shift_holds_scale_in_for_an_hour() -> None:
    seen = check(known_now(load=90.0, serving=3), forecast(90.0, shifted=True), READY)
    assert seen.surplus == 0
    assert seen.state.shift_seen_seconds == NOW
    assert low(CheckState(2, NOW - 1800)).surplus == 0
    assert low(CheckState(2, NOW - 3700)).surplus == 2


# --- figures -----------------------------------------------------------------------------------------------


def test_a_tebibyte_hydration_is_worth_three_hours_of_its_replica() -> None:
    assert minimum_lifetime_minutes(3.69, 1.11, 60) / 60 == pytest.approx(3.3, abs=0.05)
    assert minimum_lifetime_minutes(0.0, 1.11, 60) == 60


@pytest.mark.parametrize(
    ("knee_share", "capacity", "says"),
    [
        (None, 100.0, "nothing was measured"),
        (1.02, 100.0, "reach what they promise"),
        (0.7, 70.0, "70% of their IOPS"),
    ],
)
def test_measurement_lowers_the_capacity_and_never_raises_it_above_the_settings(
    knee_share: float | None, capacity: float, says: str
) -> None:
    measured = measured_capacity(100.0, knee_share)
    assert measured.per_replica == pytest.approx(capacity)
    assert says in measured.basis


def test_headroom_is_taken_from_the_capacity_and_told() -> None:
    measured = Capacity(100.0, "from the settings")
    assert with_headroom(measured, 0.0) is measured
    roomy = with_headroom(measured, 0.2)
    assert roomy.per_replica == pytest.approx(80.0)
    assert roomy.basis == "from the settings; 20% of 100 stay free"


@pytest.mark.parametrize(("hours", "surplus"), [(6, 1), (3, 0)])
def test_a_load_that_comes_later_keeps_a_replica_only_within_two_lead_times(hours: int, surplus: int) -> None:
    """150 for some hours, then 290; a lead time is two hours."""
    later = forecast([150.0] * hours + [290.0])
    assert decide(known_now(serving=3), later, LEAD, POLICY, READY).surplus == surplus


def test_a_batch_takes_along_what_is_needed_before_the_next_one_serves() -> None:
    """Three at two hours, five at three: the batch of the third is at work until then, so the others come with it."""
    rise = forecast([150.0, 150.0, 290.0, 490.0, 490.0, 490.0])
    decision = decide(known_now(), rise, LEAD, POLICY, CheckState())
    assert (decision.action, decision.required, decision.shortage) == (Action.SCALE_OUT, 5, 3)
    assert "until 240 min from now, 490" in decision.reason
    assert "the next batch begins when this one serves" in decision.reason
    overlapping = decide(known_now(), rise, LEAD, replace(POLICY, batches_overlap=True), CheckState())
    assert (overlapping.required, overlapping.shortage) == (3, 1)


def test_what_comes_later_than_a_lead_time_is_kept_only_when_it_is_likely() -> None:
    """Until a replica could be rebuilt p95 counts; after that it is rebuilt when it is needed."""
    likely = forecast([150.0] * 3 + [290.0])
    assert likely.quantiles is not None
    unlikely = likely.quantiles.copy()
    unlikely[:, : LEVELS.index(0.9)] = 150.0
    full = known_now(serving=3)
    assert decide(full, likely, LEAD, POLICY, READY).surplus == 0
    assert decide(full, replace(likely, quantiles=unlikely), LEAD, POLICY, READY).surplus == 1
    soon = replace(forecast([150.0, 290.0]), quantiles=None)
    near = forecast([150.0, 290.0]).quantiles
    assert near is not None
    near[:, : LEVELS.index(0.9)] = 150.0
    assert decide(full, replace(soon, quantiles=near), LEAD, POLICY, READY).surplus == 0


def test_a_foreseen_load_takes_its_replicas_before_it_comes_and_keeps_them_while_it_lasts() -> None:
    match = event(NOW + HOUR, NOW + 5 * HOUR, "cup final", load=390.0)
    decision = check(replace(known_now(), calendar=(match,)), forecast())
    assert (decision.action, decision.required) == (Action.SCALE_OUT, 4)
    assert "cup final" in decision.reason
    assert decision.numbers["calendar"] == 4
    over = event(NOW - 5 * HOUR, NOW - HOUR, "cup final", load=390.0)
    assert check(replace(known_now(), calendar=(over,)), forecast()).required < 4


def test_whole_replicas_serve_a_load() -> None:
    assert [replicas_for(load, 100.0) for load in (0.0, 1.0, 100.0, 100.0000000001, 101.0)] == [0, 1, 1, 1, 2]


@given(
    load=st.one_of(st.none(), st.floats(0, 5000)),
    serving=st.one_of(st.none(), st.integers(0, 12)),
    building=st.integers(0, 3),
    curve=st.lists(st.floats(0, 5000), min_size=1, max_size=24),
    standing=st.sampled_from(list(Standing)),
    stale=st.booleans(),
    checks=st.integers(0, 5),
    least=st.integers(1, 4),
)
def test_the_invariants_hold_for_every_input(
    load: float | None, serving: int | None, building: int, curve: list[float],
    standing: Standing, stale: bool, checks: int, least: int,
) -> None:  # fmt: skip
    policy = replace(POLICY, min_replicas=least, max_replicas=least + 3)
    decision = check(
        known_now(load, serving, building=building), forecast(curve, standing=standing, stale=stale),
        CheckState(checks), policy,
    )  # fmt: skip
    assert decision.reason
    assert least <= decision.required <= least + 3
    assert decision.shortage == 0 or decision.surplus == 0
    if decision.surplus:
        assert serving is not None
        assert serving - decision.surplus >= least
        assert load is not None
        assert not stale
        assert standing is Standing.NORMAL
        assert (serving - decision.surplus) * 100.0 >= load - 1e-6
    if decision.shortage:
        assert serving is not None
        assert serving + building + decision.shortage <= least + 3
    assert (decision.outcome is Outcome.ACT) == (decision.action is not Action.NONE)
