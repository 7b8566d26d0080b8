"""What a backtest says at a glance: the headline, what it assumes, and what a reader must know beside it."""

from __future__ import annotations

import numpy as np
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.planning.needed_replicas import load_text
from peaker.domain.planning.scaling_policy import KEEP_LEAD_TIMES

from peaker_backtest.replay.simulation import Outcome
from peaker_backtest.replay.trials import (
    FORECAST,
    LEAST_COMPARED_DAYS,
    Answer,
    Choice,
    Worth,
    days_needed,
    short_weight,
)
from peaker_backtest.report import REACTIVE_TARGETS, BacktestReport, days_of, iso_at
from peaker_backtest.scenario import DEFAULT_REPLICAS_AT_PEAK, NEEDED, PEAK_QUANTILE, peak_of

GLOSSARY = (
    ("load", "what the column or metric says, averaged over each step; its unit is that of your file"),
    (
        "replica-hour",
        "one replica, paid for one hour; a replica is paid for from the start of its build to the end of its drain",
    ),
    ("short", "the load took more replicas than served; short minutes count time, however many were missing"),
    ("replica-hours short", "missing replicas times hours: two missing for half an hour are one"),
    ("lead time", "from the decision to add a replica until it serves, warm"),
    ("Peaker", "adds replicas ahead of the forecast, removes them when load and forecast stay low"),
    (
        "static peak",
        "the smallest constant fleet that is never short in the compared days; known only afterwards",
    ),
    (
        "cron schedule",
        "each hour as many replicas as the highest load of that hour in the last two weeks took, built a lead time "
        "before",
    ),
    (
        "reactive at N %",
        "adds replicas once those that run are loaded above N %, with the same lead time; removes them after a lead "
        "time of low load, an hour at least",
    ),
    ("oracle", "Peaker's rules with a forecast that knows the future: what a perfect forecast would reach"),
    ("p50, p95", "the load stays below it with 50 % or 95 % probability, as forecast one lead time before"),
    (
        "weighted",
        "replica-hours, with each replica-hour short counted as many times as the served quantile stands for; in "
        "Peaker's its own bill",
    ),
    (
        "warm-up",
        "the days with under 14 days of history, in which nothing may be removed; left out of the comparison",
    ),
)


def history_days(report: BacktestReport) -> float:
    return days_of(report.scenario, len(report.scenario.series.values))


def headline(report: BacktestReport) -> str:
    """Returns the answer, the days it is about, and every policy it compares with its figures."""
    if report.worth is None:
        return answer(report)
    each = "; ".join(_figures(report, one) for one in report.compared)
    return " ".join([answer(report), *savings(report), f"{compared_days(report)}: {each}.", weighing(report)])


def savings(report: BacktestReport) -> list[str]:
    """Returns what Peaker saves a month against each rival, in dollars and percent; empty without a price."""
    ours = report.dollars_a_month(report.peaker)
    if report.worth is None or report.worth.answer is Answer.NO_CAPACITY or ours is None:
        return []
    each = []
    for one in report.compared[1:]:
        theirs = report.dollars_a_month(one) or 0.0
        share = f" ({abs(theirs - ours) / theirs:.0%})" if theirs else ""
        each.append(
            f"${abs(theirs - ours):,.0f}{share} {'less' if ours <= theirs else 'more'} than {one.name}"
        )
    own = report.options.own_usd_a_month
    return [f"Peaker costs ${ours:,.0f} a month, its own ${own:g} included: {', '.join(each)}."]


def answer(report: BacktestReport) -> str:
    return _too_short(report) if report.worth is None else _answer(report, report.worth)


def compared_days(report: BacktestReport) -> str:
    scenario = report.scenario
    days = days_of(scenario, scenario.last - scenario.compared_from)
    span = f"{iso_at(scenario, scenario.compared_from)[:10]} to {iso_at(scenario, scenario.last)[:10]}"
    return f"Compared over {days:.1f} days ({span})"


def weighing(report: BacktestReport) -> str:
    return f"Weighted counts a replica-hour short as {short_weight(report.scenario.quantile):g}."


def _too_short(report: BacktestReport) -> str:
    missing = days_needed(history_days(report), 0.0)
    more = (
        f"export {missing:.1f} days more" if missing > 0
        else f"give --days {LEAST_COMPARED_DAYS:.0f} or more, {report.options.days} leave too few to compare"
    )  # fmt: skip
    return f"Too short to judge: {history_days(report):.1f} days of load, and {NEEDED}: {more}."


def _answer(report: BacktestReport, worth: Worth) -> str:
    if worth.answer is Answer.NO_CAPACITY:
        return (
            "No verdict: what one replica serves is assumed. Give --capacity, the load at which a replica still "
            "answers as you need it."
        )
    if worth.answer is Answer.EVEN:
        return (
            f"It makes no difference: Peaker and the best other policy, {worth.best_rival}, are within 1 %."
        )
    if worth.answer is Answer.DOES_NOT_PAY:
        return f"It does not pay: {worth.best_rival} does better."
    return f"It pays: {worth.best_rival}, the best other policy, does worse."


def _figures(report: BacktestReport, outcome: Outcome) -> str:
    figures = outcome.compared
    name = outcome.name
    if outcome is report.static_peak:
        name += f" ({replicas_text(int(outcome.serving[-1]))})"
    elif outcome in report.reactive:
        name += f" (the best of {len(REACTIVE_TARGETS)} targets)"
    dollars = report.dollars(figures.replica_hours)
    cost = "" if dollars is None else f" (${dollars:,.2f})"
    return (
        f"{name} {figures.replica_hours:,.0f} replica-hours{cost}, short {figures.short_minutes:,.0f} min, "
        f"weighted {report.weighted(outcome):,.0f}"
    )


def replicas_text(count: int) -> str:
    return f"{count} replica" + ("" if count == 1 else "s")


def assumptions(report: BacktestReport) -> list[str]:
    """Returns the assumptions behind the figures, one sentence each: given or assumed, and how to change it."""
    scenario, options = report.scenario, report.options
    weight = short_weight(scenario.quantile)
    lines = [_capacity(report), _lead(report)]
    lines.append(
        f"Quantile: p{100 * scenario.quantile:g} of the forecast is served ({options.basis('quantile')}). It stands "
        f"for {weight:g} spare replica-hours per replica-hour short, and so each one short is weighed."
    )
    if scenario.headroom:
        lines.append(
            f"Headroom: {scenario.headroom:.0%} of each replica stays free ({options.basis('headroom')})."
        )
    lines.append(f"Rhythm: of the hours of {options.time_zone} ({options.basis('time_zone')}).")
    lines.append(
        f"Replicas: {scenario.min_replicas} ({options.basis('min_replicas')}) to {scenario.max_replicas:,} "
        f"({options.basis('max_replicas')}), kept {options.minimum_lifetime_minutes:g} min at least and for the next "
        f"{KEEP_LEAD_TIMES:g} lead times, "
        "by Peaker, reactive scaling and the oracle. One that leaves drains and costs for "
        f"{options.drain_minutes:g} min more, and is called back if needed meanwhile. "
        f"Peaker looks every {scenario.policy().period_seconds / 60:g} min and builds any number "
        "at once, and the next ones when these serve; the others wait for none."
    )
    if options.replica_hour_usd is None:
        why = options.given_by.get("replica_hour_usd", "not given")
        lines.append(
            f"Price: {why}; --replica-hour-usd adds dollars, and Peaker's own bill to its weighted sum."
        )
    else:
        lines.append(
            f"Price: ${options.replica_hour_usd:g} per replica-hour ({options.basis('replica_hour_usd')}); "
            f"volumes and snapshots are not in it. Peaker's own bill, ${options.own_usd_a_month:g} a month, is."
        )
    lines.append(
        f"The static peak and the reactive target ({', '.join(f'{each:.0%}' for each in REACTIVE_TARGETS)} were run) "
        "are chosen with hindsight, in favour of the others. Peaker, reactive scaling and the oracle start with the "
        "replicas that the load of the hour before took, and a tenth more."
    )
    return lines


def _capacity(report: BacktestReport) -> str:
    scenario, options = report.scenario, report.options
    text = f"Capacity: one replica serves {load_text(scenario.capacity_per_replica)} {report.load_unit}"
    if options.capacity_per_replica is not None:
        return f"{text} ({options.basis('capacity_per_replica')})."
    highest = float(np.nanmax(scenario.series.values))
    return (
        f"{text}: assumed, 1/{DEFAULT_REPLICAS_AT_PEAK} of the load's {100 * PEAK_QUANTILE:g}th percentile "
        f"{load_text(peak_of(scenario.series))} (its highest is {load_text(highest)}), so that the peak takes about "
        f"{DEFAULT_REPLICAS_AT_PEAK} replicas. Give --capacity for an answer about your replicas."
    )


def _lead(report: BacktestReport) -> str:
    scenario, options = report.scenario, report.options
    text = f"Lead time: {scenario.lead_seconds / 60:g} min"
    if abs(scenario.lead_seconds / 60 - options.lead_minutes) < 1e-6:
        return f"{text} ({options.basis('lead_minutes')})."
    return (
        f"{text}: {options.lead_minutes:g} min ({options.basis('lead_minutes')}), rounded up to whole steps, because "
        f"the load is replayed in steps of {scenario.step_seconds / 60:g} min."
    )


def notes(report: BacktestReport) -> list[str]:
    """Returns notes on the headline: the warm-up, shortage of the static fleet, gaps."""
    scenario = report.scenario
    found = _warm_up(report)
    if report.worth is not None and report.static_peak.compared.short_minutes > 0:
        found.append(
            f"--max-replicas {scenario.max_replicas} is too few for the peak: even the static peak is short for "
            f"{report.static_peak.compared.short_minutes:,.0f} min."
        )
    idle = {name: share for name, share in report.standing_shares.items() if name != "normal" and share > 0}
    if report.worth is not None and idle:
        shares = ", ".join(f"{name} in {share:.0%}" for name, share in idle.items())
        found.append(
            f"Nothing could be removed in some checks of the compared days: the forecast was {shares}."
        )
    unseen = int((~np.isfinite(scenario.load())).sum())
    if unseen:
        found.append(
            f"{unseen:,} of {len(scenario.load()):,} replayed steps have no load: they count as neither short nor "
            "served."
        )
    return found


def _warm_up(report: BacktestReport) -> list[str]:
    scenario = report.scenario
    begin = iso_at(scenario, scenario.first)[:10]
    if report.worth is None:
        days = days_of(scenario, scenario.last - scenario.first)
        return [
            f"The figures below are of {days:.1f} replayed days, warm-up and all: they are no comparison, and "
            "none of them says whether it pays."
        ]
    steps = scenario.compared_from - scenario.first
    if not steps:
        return []
    hours = ", ".join(f"{one.name} {one.warm_up.replica_hours:,.0f}" for one in report.compared)
    return [
        f"Warm-up, left out of the comparison: {begin} to {iso_at(scenario, scenario.compared_from)[:10]} "
        f"({days_of(scenario, steps):.1f} days), with under 14 days of history, in which nothing may be removed. It "
        f"took these replica-hours: {hours}. A cluster whose metric already has its history has no warm-up: up to "
        f"{KEPT_HISTORY_DAYS} days are read from CloudWatch."
    ]


NOISE = 0.02

SETTINGS_COLUMNS = (
    "settings", "rule", "quantile", "headroom", "replica-hours", "cost (USD)", "short (min)", "weighted",
)  # fmt: skip


def advice_on_settings(report: BacktestReport) -> list[str]:
    """Returns the cheaper rule and the line of the cheapest settings; empty where none were tried."""
    trials = report.trials
    if trials is None:
        return []
    now, best = trials.now, trials.cheapest
    each = "; ".join(f"{one.choice}: {trials.weighted(one):,.0f}" for one in trials.best_of_each_rule)
    found = [f"The cheapest rule on this load is `{best.choice.rule}` (weighted replica-hours, {each})."]
    if best is now:
        return [
            *found,
            f"Settings: {now.choice} stay, the cheapest of {len(trials.every)} that were replayed.",
        ]
    share = 1 - trials.weighted(best) / trials.weighted(now)
    noise = "" if share >= NOISE else f"; below {NOISE:.0%} two replays may differ by chance"
    return [
        *found,
        f"Settings: {best.choice} are {share:.1%} cheaper than {now.choice}{noise}. Nothing is changed. To have it so, "
        f"set in the cluster's settings: {settings_line(best.choice)}",
    ]


def cheapest_rule(report: BacktestReport) -> str | None:
    """Returns `forecast` or `reactive`, by which of them has the cheapest settings; None where none were tried."""
    return None if report.trials is None else report.trials.cheapest.choice.rule


def settings_line(choice: Choice) -> str:
    given = f"rule: {choice.rule}, headroom: {choice.headroom:g}"
    if choice.rule == FORECAST:
        given += f", quantile: {choice.quantile:g}"
    return f"forecast: {{{given}}}"


def table_settings(report: BacktestReport) -> list[list[str]]:
    """Returns the present settings and the cheapest of each rule, the cheapest first."""
    trials = report.trials
    if trials is None:
        return []
    shown = sorted(
        {one.choice: one for one in (trials.now, *trials.best_of_each_rule)}.values(), key=trials.weighted
    )
    rows = []
    for one in shown:
        choice, figures = one.choice, one.figures
        dollars = report.dollars(figures.replica_hours)
        rows.append(
            [
                "now" if one is trials.now else "cheapest" if one is trials.cheapest else "tried",
                choice.rule,
                f"{choice.quantile:g}" if choice.rule == FORECAST else "",
                f"{choice.headroom:g}",
                f"{figures.replica_hours:,.0f}",
                "unknown" if dollars is None else f"{dollars:,.0f}",
                f"{figures.short_minutes:,.0f}",
                f"{trials.weighted(one):,.0f}",
            ]
        )
    return rows
