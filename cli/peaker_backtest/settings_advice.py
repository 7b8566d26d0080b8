"""The settings to choose, in words and as a table: the cheaper rule, and the line of the settings."""

from __future__ import annotations

from peaker_backtest.replay.trials import FORECAST, Choice
from peaker_backtest.report import BacktestReport

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
    """Returns the line of a cluster's settings that has this choice."""
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
