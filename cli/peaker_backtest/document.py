"""The backtest as JSON: every figure of the headline, and the course from which each can be computed again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from peaker_backtest.replay.simulation import Event, Figures, Outcome, Scenario
from peaker_backtest.replay.trials import LEAST_COMPARED_DAYS, WARM_UP_DAYS, Answer, days_needed, short_weight
from peaker_backtest.report import BacktestReport, days_of, iso_at
from peaker_backtest.verdict import (
    advice_on_settings,
    assumptions,
    cheapest_rule,
    headline,
    history_days,
    notes,
    settings_line,
)


def as_document(report: BacktestReport) -> dict[str, Any]:
    """Returns the report as JSON values; times are ISO 8601, shares 0 to 1, loads in the units of the input."""
    scenario = report.scenario
    return {
        "source": report.source,
        "read": list(report.read),
        "headline": headline(report),
        "verdict": _verdict(report),
        "assumptions": assumptions(report),
        "notes": notes(report),
        "warnings": list(report.warnings),
        "from": iso_at(scenario, scenario.first),
        "compared_from": None if report.worth is None else iso_at(scenario, scenario.compared_from),
        "to": iso_at(scenario, scenario.last),
        "step_seconds": scenario.step_seconds,
        "lead_time_minutes": scenario.lead_seconds / 60,
        "drain_minutes": scenario.drain_steps * scenario.step_seconds / 60,
        "capacity_per_replica": scenario.capacity_per_replica,
        "load_unit": report.load_unit,
        "quantile": scenario.quantile,
        "short_weight": short_weight(scenario.quantile),
        "min_replicas": scenario.min_replicas,
        "max_replicas": scenario.max_replicas,
        "replica_hour_usd": report.options.replica_hour_usd,
        "own_usd_a_month": report.options.own_usd_a_month,
        "policies": [_policy(report, outcome) for outcome in report.policies],
        "settings": _settings(report),
        "forecast_standing": report.standing_shares,
        "decisions": [_event(scenario, event) for event in report.peaker.events],
        "course": course(report, report.policies),
    }


def course(report: BacktestReport, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Returns load, required replicas and each policy's replicas per step from `start` (epoch seconds) on.

    Unknown loads are null. The first compared step is `compared_from_step`.
    """
    scenario = report.scenario
    return {
        "start": scenario.series.start_seconds + scenario.first * scenario.step_seconds,
        "step_seconds": scenario.step_seconds,
        "compared_from_step": scenario.compared_from - scenario.first,
        "load": [float(load) if math.isfinite(load) else None for load in scenario.load()],
        "required": [None if count < 0 else count for count in scenario.required().tolist()],
        "policies": {
            one.name: {"serving": one.serving.tolist(), "paid": one.paid.tolist()} for one in outcomes
        },
    }


def document_text(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":")) + "\n"


def _verdict(report: BacktestReport) -> dict[str, Any]:
    worth, scenario = report.worth, report.scenario
    days = {
        "history_days": round(history_days(report), 2),
        "needed_days": WARM_UP_DAYS + LEAST_COMPARED_DAYS,
    }
    if worth is None:
        return {
            "answer": Answer.TOO_SHORT.value,
            **days,
            "missing_days": days_needed(history_days(report), 0.0),
        }
    return {
        "answer": worth.answer.value,
        **days,
        "compared_days": round(days_of(scenario, scenario.last - scenario.compared_from), 2),
        "compared": [one.name for one in report.compared],
        "best_rival": worth.best_rival,
        "weighted_replica_hours": {name: round(total, 2) for name, total in worth.totals.items()},
    }


def _policy(report: BacktestReport, outcome: Outcome) -> dict[str, Any]:
    steps = report.scenario.compared_from - report.scenario.first
    return {
        "name": outcome.name,
        **_figures(report, outcome.compared),
        "weighted_replica_hours": round(report.weighted(outcome), 2),
        "dollars_a_month": _cents(report.dollars_a_month(outcome)),
        "warm_up": _figures(report, outcome.warm_up) if steps else None,
    }


def _figures(report: BacktestReport, figures: Figures) -> dict[str, Any]:
    return {
        "short_minutes": figures.short_minutes,
        "short_share": round(figures.short_share, 6),
        "short_replica_hours": round(figures.short_replica_hours, 2),
        "replica_hours": round(figures.replica_hours, 2),
        "dollars": _cents(report.dollars(figures.replica_hours)),
        "scale_outs": figures.scale_outs,
        "scale_ins": figures.scale_ins,
    }


def _cents(dollars: float | None) -> float | None:
    return None if dollars is None else round(dollars, 2)


def _settings(report: BacktestReport) -> dict[str, Any] | None:
    trials = report.trials
    if trials is None:
        return None
    return {
        "said": advice_on_settings(report),
        "cheapest_rule": cheapest_rule(report),
        "cheapest": asdict(trials.cheapest.choice),
        "line": settings_line(trials.cheapest.choice),
        "now": asdict(trials.now.choice),
        "tried": [
            {
                **asdict(one.choice),
                **_figures(report, one.figures),
                "weighted_replica_hours": round(trials.weighted(one), 2),
            }
            for one in trials.every
        ],
    }


def _event(scenario: Scenario, event: Event) -> dict[str, Any]:
    return {
        "at": iso_at(scenario, event.step + 1),
        "action": event.action,
        "replicas": event.replicas,
        "reason": event.reason,
    }
