"""The settings to choose, in words and as a table: the cheapest rule, the advice, and the line of the settings."""

from __future__ import annotations

from peaker_backtest.replay.settings_proposal import FORECAST, Advice, Choice, best_of_rules, frontier
from peaker_backtest.report import BacktestReport


def advice_on_settings(report: BacktestReport) -> list[str]:
    """Returns the advice on settings for these weeks, and how to set them; empty where none were tried."""
    if report.trials is None:
        return []
    found = report.trials.proposal
    if found.advice is Advice.UNKNOWN:
        return [f"Settings: nothing is proposed; {found.reason}."]
    if found.proposed is None:
        return [*_rule(report), f"Settings: {found.now.choice} stay; {found.reason}."]
    saved = abs(found.saved_replica_hours)
    dollars = "" if found.saved_usd is None else f" (${abs(found.saved_usd):,.2f})"
    less = "less" if found.saved_replica_hours >= 0 else "more"
    choice = found.proposed.choice
    return [
        *_rule(report),
        f"Settings: {choice} would have taken {saved:,.0f} replica-hours{dollars} a week {less} than "
        f"{found.now.choice}; {found.reason}.",
        f"Nothing is changed. To have it so, set in the cluster's settings: {settings_lines(choice)}",
    ]


def settings_lines(choice: Choice) -> str:
    """Returns the line of a cluster's settings that has this choice."""
    told = f"rule: {choice.rule}, headroom: {choice.headroom:g}"
    if choice.rule == FORECAST:
        told += f", quantile: {choice.quantile:g}"
    return f"forecast: {{{told}}}"


def cheapest_rule(report: BacktestReport) -> str | None:
    """Returns the cheaper rule, `forecast` or `reactive`, at the accepted shortage; None where nothing was compared.

    Where no settings are within that shortage it is the rule of the settings of now.
    """
    if report.trials is None or report.trials.proposal.advice is Advice.UNKNOWN:
        return None
    proposal = report.trials.proposal
    best = best_of_rules(report.trials.every, proposal.accepted_short_minutes)
    return best[0].choice.rule if best else proposal.now.choice.rule


def _rule(report: BacktestReport) -> list[str]:
    """Returns the cheapest rule, with the best settings of each."""
    if report.trials is None or (rule := cheapest_rule(report)) is None:
        return []
    accepted = report.trials.proposal.accepted_short_minutes
    best = best_of_rules(report.trials.every, accepted)
    if not best:
        return []
    each = "; ".join(
        f"{one.choice}: {one.replica_hours_a_week:,.0f} replica-hours and {one.short_minutes_a_week:,.0f} min short a "
        "week"
        for one in best
    )
    alone = (
        ""
        if len(best) > 1
        else f", and no settings of the other are short for {accepted:,.0f} min a week or less"
    )
    return [f"The cheapest rule on this load is `{rule}` ({each}{alone})."]


SETTINGS_COLUMNS = (
    "settings", "rule", "quantile", "headroom", "replica-hours a week", "USD a week",
    "min short a week",
)  # fmt: skip


def table_settings(report: BacktestReport) -> list[list[str]]:
    """Returns the settings that no others beat at both cost and shortage, and those of now; the cheapest first."""
    if report.trials is None or report.trials.proposal.advice is Advice.UNKNOWN:
        return []
    proposal = report.trials.proposal
    shown = frontier(report.trials.every)
    if proposal.now not in shown:
        shown = sorted([*shown, proposal.now], key=lambda one: one.replica_hours_a_week)
    rows = []
    for one in shown:
        mark = "now" if one is proposal.now else "proposed" if one is proposal.proposed else "tried"
        dollars = report.dollars(one.replica_hours_a_week)
        choice = one.choice
        rows.append(
            [
                mark,
                choice.rule,
                f"{choice.quantile:g}" if choice.rule == FORECAST else "",
                f"{choice.headroom:g}",
                f"{one.replica_hours_a_week:,.0f}",
                "unknown" if dollars is None else f"{dollars:,.0f}",
                f"{one.short_minutes_a_week:,.0f}",
            ]
        )
    return rows
