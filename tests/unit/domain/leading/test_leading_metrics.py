"""Leading metrics: when one is believed, what it does to a forecast, and all that leaves a forecast as it was."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.record import pinball
from peaker.domain.known_events import (
    HolidayCalendar,
    PublicHoliday,
    RepeatingEvent,
    forecast_with_events,
)
from peaker.domain.leading import (
    LeadingMetric,
    forecast_with_leading,
    rolling_with_leading,
    unknown_metric,
)

from tests.unit.domain.forecasting.loads import START
from tests.unit.domain.leading.drawn import (
    DAY,
    LEAD_SECONDS,
    PER_HOUR,
    STEP,
    Drawn,
    Floats,
    drawn,
    said,
    usual,
    with_metric,
    without_metric,
)

# Steps since the first login of a burst that the load does not show yet.
JUST_BEGUN = 2


@pytest.fixture(scope="module")
def before_a_burst() -> Drawn:
    return drawn(last_burst_ago=JUST_BEGUN)


def is_as_without(load: LoadSeries, values: Floats) -> str:
    """What is said of the metric, once the forecast is the same to the last bit as without it."""
    aware, plain = with_metric(load, values), without_metric(load)
    assert aware.quantiles is not None
    assert plain.quantiles is not None
    assert np.array_equal(aware.quantiles, plain.quantiles)
    assert aware.events == ()
    assert aware.reasons[:-1] == plain.reasons
    return said(aware)


@pytest.mark.parametrize("lag_minutes", [30, 40, 60])
def test_the_lag_of_a_metric_that_leads_is_found_within_a_step(lag_minutes: int) -> None:
    here = drawn(lag_minutes=lag_minutes)
    text = said(with_metric(here.load, here.logins))
    found = re.match(r"used \(lag (\d+) min\)", text)
    assert found is not None, text
    assert abs(int(found.group(1)) - lag_minutes) <= STEP / 60


def test_what_it_says_is_told_with_the_losses_on_days_it_had_not_learned_from(before_a_burst: Drawn) -> None:
    text = said(with_metric(before_a_burst.load, before_a_burst.logins))
    assert re.fullmatch(
        r"used \(lag \d+ min\), now up to x1\.\d\d: on 2\d days that it had not learned from, the loss of p50 was \d+% "
        r"(lower|higher) and that of p95 [1-9]\d% lower(; a replica takes 30 min, .*)?",
        text,
    ), text


def test_a_burst_is_expected_before_the_load_shows_it(before_a_burst: Drawn) -> None:
    aware = with_metric(before_a_burst.load, before_a_burst.logins)
    plain = without_metric(before_a_burst.load)
    soon = before_a_burst.lag_steps - 1
    assert aware.quantile(0.95)[soon] > 1.25 * plain.quantile(0.95)[soon]
    assert aware.quantile(0.5)[soon] > 1.25 * plain.quantile(0.5)[soon]


def test_it_says_nothing_of_what_lies_beyond_its_lag(before_a_burst: Drawn) -> None:
    aware, plain = (one.quantiles for one in (
        with_metric(before_a_burst.load, before_a_burst.logins), without_metric(before_a_burst.load)
    ))  # fmt: skip
    assert aware is not None
    assert plain is not None
    beyond = before_a_burst.lag_steps + 1
    assert np.array_equal(aware[beyond:], plain[beyond:])


def test_the_decision_is_told_what_raised_the_forecast(before_a_burst: Drawn) -> None:
    aware = with_metric(before_a_burst.load, before_a_burst.logins)
    (signal,) = aware.events
    assert 1.25 < signal.factor < 2.0
    assert aware.issued_at_seconds <= signal.start_seconds < signal.end_seconds
    assert signal.end_seconds <= aware.issued_at_seconds + (before_a_burst.lag_steps + 1) * STEP
    assert re.fullmatch(
        r"with logins above its usual, which leads by \d+ min \(as far as x1\.\d\d\)", signal.text
    )


def test_a_metric_that_is_at_its_usual_leaves_the_forecast_as_it_is() -> None:
    here = drawn(last_burst_ago=-DAY)
    assert is_as_without(here.load, here.logins).startswith("used (lag ")


def test_a_metric_below_its_usual_lowers_nothing(before_a_burst: Drawn) -> None:
    fewer = before_a_burst.logins.copy()
    fewer[-JUST_BEGUN - 2 :] = 0.2 * before_a_burst.logins[-JUST_BEGUN - 2 :]
    assert is_as_without(before_a_burst.load, fewer).startswith("used (lag ")


def test_however_high_it_is_the_forecast_at_most_doubles(before_a_burst: Drawn) -> None:
    many = before_a_burst.logins.copy()
    many[-JUST_BEGUN - 1 :] *= 2.9
    aware, plain = with_metric(before_a_burst.load, many), without_metric(before_a_burst.load)
    assert aware.quantiles is not None
    assert plain.quantiles is not None
    ratio = aware.quantiles / plain.quantiles
    assert 1.5 < ratio.max() <= 2.2, "twice, and the offset within the logarithm"
    assert aware.quantiles.max() <= max(
        plain.quantiles.max(), 1.05 * np.nanmax(before_a_burst.load.values[-28 * DAY :])
    )


def test_one_wild_point_is_no_rise() -> None:
    here = drawn(last_burst_ago=-DAY)
    wild = here.logins.copy()
    wild[-1] *= 50
    assert is_as_without(here.load, wild)


def test_over_the_next_week_the_loss_is_lower_with_it() -> None:
    here = drawn(days=56)
    origins = range(49 * DAY, 56 * DAY - here.lag_steps, 5)
    losses = {}
    for name, metrics in (("with", [LeadingMetric("logins", here.logins)]), ("without", [])):
        rolling = rolling_with_leading(here.load, (), metrics, origins, [LEAD_SECONDS], DAY)
        ahead = here.lag_steps - 1
        found = [(origin + ahead, one.quantile(0.95)[ahead - 1]) for origin, (one,) in rolling]
        at, p95 = np.array([step for step, _ in found]), np.array([value for _, value in found])
        losses[name] = float(pinball(here.load.values[at], p95, 0.95).mean())
    assert losses["with"] < 0.85 * losses["without"]


def lagging(here: Drawn, random: np.random.Generator) -> Floats:
    return np.roll(here.load.values, 3) * np.exp(random.normal(0, 0.05, len(here.logins)))


def the_load_itself(here: Drawn, random: np.random.Generator) -> Floats:
    del random
    return here.load.values.copy()


def its_weekly_shape(here: Drawn, random: np.random.Generator) -> Floats:
    return 80 * usual(len(here.logins)) * np.exp(random.normal(0, 0.1, len(here.logins)))


def noise(here: Drawn, random: np.random.Generator) -> Floats:
    return 100 * np.exp(random.normal(0, 0.5, len(here.logins)))


def rare_events(here: Drawn, random: np.random.Generator) -> Floats:
    return np.where(random.random(len(here.logins)) < 0.01, 40.0, 0.0)


def others_bursts(here: Drawn, random: np.random.Generator) -> Floats:
    return drawn(seed=int(random.integers(1_000, 2_000)), days=len(here.logins) // DAY).logins


@pytest.mark.parametrize(
    "metric", [lagging, the_load_itself, its_weekly_shape, noise, rare_events, others_bursts]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_metric_that_does_not_lead_changes_nothing(
    metric: Callable[[Drawn, np.random.Generator], Floats], seed: int
) -> None:
    here = drawn(seed)
    assert is_as_without(here.load, metric(here, np.random.default_rng(seed))).startswith("not used")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (7.0, "not used: it never differs from its usual"),
        (0.0, "not used: it never differs from its usual"),
        (1e15, "not used: it never differs from its usual"),
        (np.nan, "not used: it has no points"),
    ],
)
def test_a_constant_says_nothing(value: float, says: str) -> None:
    here = drawn()
    assert is_as_without(here.load, np.full(len(here.logins), value)) == says


def test_a_metric_that_stopped_an_hour_ago_is_unknown(before_a_burst: Drawn) -> None:
    stopped = before_a_burst.logins.copy()
    stopped[-PER_HOUR:] = np.nan
    text = is_as_without(before_a_burst.load, stopped)
    assert re.match(r"not used now \(lag \d+ min\): its newest point is 60 min late, so it is unknown", text)


def test_a_metric_whose_relation_broke_last_week_is_not_used_any_more() -> None:
    here = drawn(days=56)
    broken = here.logins.copy()
    broken[-7 * DAY :] = drawn(seed=99, days=56, every_hours=8.0).logins[-7 * DAY :]
    text = is_as_without(here.load, broken)
    assert text.endswith("but in the last week it was higher with it")


def test_a_metric_of_a_few_weeks_is_not_believed_yet() -> None:
    here = drawn()
    young = here.logins.copy()
    young[: -30 * DAY] = np.nan
    text = is_as_without(here.load, young)
    assert re.fullmatch(
        r"not used: \d+ days of it can be held against the weeks before them, 21 are needed", text
    )


def test_gaps_are_stepped_over_and_the_rest_still_leads(before_a_burst: Drawn) -> None:
    random = np.random.default_rng(5)
    holed = before_a_burst.logins.copy()
    holed[random.random(len(holed)) < 0.2] = np.nan
    holed[20 * DAY : 22 * DAY] = np.nan
    holed[-PER_HOUR:] = before_a_burst.logins[-PER_HOUR:]
    assert said(with_metric(before_a_burst.load, holed)).startswith("used (lag ")


def test_one_that_could_not_be_read_is_told_with_the_reason() -> None:
    here = drawn()
    gone = unknown_metric("logins", "it could not be read: cloudwatch:GetMetricData: Throttling", here.load)
    aware = forecast_with_leading(here.load, (), [gone], LEAD_SECONDS)
    assert np.array_equal(aware.quantile(0.95), without_metric(here.load).quantile(0.95))
    assert said(aware) == "not used: it could not be read: cloudwatch:GetMetricData: Throttling"


def test_a_young_load_has_no_forecast_to_raise() -> None:
    here = drawn(days=2)
    aware = with_metric(here.load, here.logins)
    assert aware.quantiles is None
    assert said(aware) == "not used: nothing is forecast"


def test_of_two_metrics_that_see_the_same_one_counts(before_a_burst: Drawn) -> None:
    both = [LeadingMetric(name, before_a_burst.logins) for name in ("logins", "sessions")]
    twice = forecast_with_leading(before_a_burst.load, (), both, LEAD_SECONDS)
    once = with_metric(before_a_burst.load, before_a_burst.logins)
    assert np.array_equal(twice.quantile(0.95), once.quantile(0.95))
    assert [one.name for one in twice.events] == ["logins", "sessions"]


def test_within_a_known_event_its_own_days_speak() -> None:
    here = drawn(seed=3, days=56, last_burst_ago=JUST_BEGUN)
    match_days = [14, 20, 27, 33, 41, 50]
    values, logins = here.load.values.copy(), here.logins.copy()
    starts = [*(START + (day * 24 + 18) * 3600.0 for day in match_days), here.load.end_seconds]
    event = RepeatingEvent("cup match", tuple(starts), 3 * 3600.0)
    for first, end in event.steps(here.load):
        values[first:end] *= 2
        logins[max(0, first - 3) : end] *= 2
    load = LoadSeries(START, STEP, values)
    aware = forecast_with_leading(load, [event], [LeadingMetric("logins", logins)], LEAD_SECONDS)
    assert said(aware).startswith("used (lag ")
    assert [one.name for one in aware.events] == ["cup match"]
    known = forecast_with_events(load, [event], LEAD_SECONDS)
    assert np.array_equal(aware.quantile(0.95), known.quantile(0.95))


def test_on_a_public_holiday_earlier_ones_speak() -> None:
    here = drawn(seed=3, days=56, last_burst_ago=JUST_BEGUN)
    values = here.load.values.copy()
    for day in (19, 33, 47):
        values[day * DAY : (day + 1) * DAY] *= 3
    load, metrics = LoadSeries(START, STEP, values), [LeadingMetric("logins", here.logins)]
    days = [PublicHoliday("Jubilee", 2, START + day * 86_400.0) for day in (19, 33, 47, 56)]
    calendar = HolidayCalendar(tuple(days), 6, START + 400 * 86_400.0)
    aware = forecast_with_leading(load, (), metrics, LEAD_SECONDS, holidays=calendar)
    assert said(aware).startswith("used (lag ")
    assert [one.name for one in aware.events] == ["Jubilee"]
    known = forecast_with_events(load, (), LEAD_SECONDS, holidays=calendar)
    assert np.array_equal(aware.quantile(0.95), known.quantile(0.95))
    ((_, (replayed,)),) = rolling_with_leading(
        load, (), metrics, [len(values) - 1], [LEAD_SECONDS], DAY, holidays=calendar
    )
    assert [one.name for one in replayed.events] == ["Jubilee"]


def test_a_replay_knows_only_what_was_known_at_the_time() -> None:
    here = drawn(days=52)
    origins = [50 * DAY + 7, 50 * DAY + 60]
    later_differs = here.logins.copy()
    later_differs[origins[-1] + 1 :] = 3.0
    (first, second) = (
        [one for _, one in rolling_with_leading(here.load, (), [metric], origins, [LEAD_SECONDS], DAY)]
        for metric in (LeadingMetric("logins", values) for values in (here.logins, later_differs))
    )
    for (mine,), (theirs,) in zip(first, second, strict=True):
        assert np.array_equal(mine.quantile(0.95), theirs.quantile(0.95))
        assert mine.reasons == theirs.reasons


@pytest.mark.parametrize("seed", range(2))
def test_drawn_metrics_without_a_relation_are_not_used(seed: int) -> None:
    """20 of them here; of 3,200 drawn with other seeds none was."""
    random = np.random.default_rng(seed)
    here = drawn(seed + 10, days=42)
    for kind in (lagging, its_weekly_shape, noise, rare_events, others_bursts) * 2:
        metrics = [LeadingMetric("logins", kind(here, random))]
        aware = forecast_with_leading(here.load, (), metrics, LEAD_SECONDS)
        assert said(aware).startswith("not used"), kind
