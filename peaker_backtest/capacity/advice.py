"""The capacity of a replica in words, and as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from peaker.domain.forecasting.series import DAY_SECONDS
from peaker.domain.planning.reaction import load_text

from peaker_backtest.capacity.effect import CapacityEffect, CapacityFinding
from peaker_backtest.capacity.evidence import OddDay
from peaker_backtest.capacity.proposal import CapacityProposal, Evidence, SettingNow, Standing
from peaker_backtest.replay.simulation import Figures
from peaker_backtest.report import BacktestReport
from peaker_backtest.verdict import compared_days

_ODD_SHOWN = 5


def advice_on_capacity(report: BacktestReport) -> list[str]:
    """What a replica was seen to serve, what to set, and on what evidence; empty where it was not asked for."""
    finding = report.capacity
    if finding is None:
        return []
    proposal = finding.proposal
    lines = [_answer(proposal, report.load_unit)]
    if proposal.standing is not Standing.UNKNOWN:
        lines.append(_setting(proposal))
    if finding.effect is not None:
        lines.append(_effect(report, finding.effect, proposal))
    if proposal.evidence is not None:
        lines.append(_evidence(proposal, proposal.evidence))
    return lines


def _answer(proposal: CapacityProposal, unit: str) -> str:
    if proposal.standing is Standing.UNKNOWN:
        return f"Capacity of a replica: unknown; {proposal.reason}."
    assert proposal.capacity is not None
    about = "at least " if proposal.standing is Standing.AT_LEAST else ""
    between = "" if proposal.estimate is None else f" (most likely {load_text(proposal.estimate)})"
    figure = f"{about}{load_text(proposal.capacity)} {unit}{between}"
    return f"Capacity of a replica: {figure}; {proposal.limit.measure} {proposal.reason}."


def _setting(proposal: CapacityProposal) -> str:
    assert proposal.capacity is not None
    capacity = load_text(proposal.capacity)
    if proposal.now is None:
        return (
            "No capacity was given to hold it against. Nothing is changed by itself. To have it so, set "
            f"capacity_per_replica: {proposal.capacity:.12g} in the cluster."
        )
    now = load_text(proposal.now)
    said = {
        SettingNow.TOO_HIGH: f"{now}, the capacity of now, is too high: the limit is passed before it",
        SettingNow.NOT_SHOWN: f"{now}, the capacity of now, is neither shown to hold nor shown to be too high",
        SettingNow.HOLDS: f"{now}, the capacity of now, holds",
    }[proposal.setting]
    if proposal.proposed is None:
        return f"{said}; nothing is proposed."
    if proposal.capacity == proposal.now:
        return f"{said}, and is what is proposed."
    share = proposal.capacity / proposal.now - 1
    return (
        f"{said}; proposed is {capacity} ({share:+.0%}). Nothing is changed by itself. To have it so, set "
        f"capacity_per_replica: {proposal.capacity:.12g} in the cluster."
    )


def _effect(report: BacktestReport, effect: CapacityEffect, proposal: CapacityProposal) -> str:
    assert proposal.capacity is not None
    assert proposal.now is not None
    span = compared_days(report) if report.worth else "Over the replayed days"
    capacity = load_text(proposal.capacity)
    return (
        f"{span}: a capacity of {capacity} takes {_figures(report, effect.proposed)}, one of {load_text(proposal.now)} "
        f"takes {_figures(report, effect.now)}. What is short is judged by {capacity} in both."
    )


def _figures(report: BacktestReport, figures: Figures) -> str:
    dollars = report.dollars(figures.replica_hours)
    cost = "" if dollars is None else f" (${dollars:,.2f})"
    return (
        f"{figures.replica_hours:,.0f} replica-hours{cost} and is short for {figures.short_minutes:,.0f} min"
    )


def _evidence(proposal: CapacityProposal, evidence: Evidence) -> str:
    low, high = evidence.replicas
    replicas = f"{low}" if low == high else f"{low} to {high}"
    text = (
        f"Seen: {evidence.observations:,} steps on {evidence.days} days with {replicas} replicas; highest load per "
        f"replica "
        f"{load_text(evidence.highest_load)}; at the highest twentieth of the loads {proposal.limit.measure} stayed "
        f"under "
        f"{evidence.upper_at_highest:.3g} {proposal.limit.unit} in 95 % of the steps; {evidence.over_limit:,} steps "
        f"were "
        "over the limit"
    )
    notes = [*evidence.notes, *([_odd(evidence.odd)] if evidence.odd else [])]
    return ". ".join([text, *(note[0].upper() + note[1:] for note in notes)]) + "."


def _odd(odd: tuple[OddDay, ...]) -> str:
    days = ", ".join(f"{_date(one.day)} (x{one.factor:.2g})" for one in odd[:_ODD_SHOWN])
    more = f" and {len(odd) - _ODD_SHOWN} more" if len(odd) > _ODD_SHOWN else ""
    return f"odd days, unlike the others at equal loads, are left out: {days}{more}"


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_SECONDS, UTC).strftime("%Y-%m-%d")


def capacity_document(report: BacktestReport) -> dict[str, Any] | None:
    """The proposal as JSON values; null where it was not asked for. Loads per replica, measures in `limit.unit`."""
    finding = report.capacity
    if finding is None:
        return None
    proposal, evidence = finding.proposal, finding.proposal.evidence
    return {
        "standing": proposal.standing.value,
        "reason": proposal.reason,
        "said": advice_on_capacity(report),
        "limit": {
            "value": proposal.limit.value,
            "unit": proposal.limit.unit,
            "measure": proposal.limit.measure,
        },
        "now": proposal.now,
        "setting_of_now": proposal.setting.value,
        "capacity": proposal.capacity,
        "proposed": proposal.proposed,
        "estimate": proposal.estimate,
        "passed_at": proposal.passed_at,
        "within_limit_share": 0.95,
        "confidence": 0.95,
        "evidence": None if evidence is None else _evidence_document(evidence),
        "effect": None if finding.effect is None else _effect_document(report, finding),
    }


def _evidence_document(evidence: Evidence) -> dict[str, Any]:
    return {
        "observations": evidence.observations,
        "days": evidence.days,
        "replicas": list(evidence.replicas),
        "highest_load_per_replica": evidence.highest_load,
        "upper_measure_at_highest": evidence.upper_at_highest,
        "highest_measure": evidence.highest_measure,
        "over_limit": evidence.over_limit,
        "rank_correlation": round(evidence.correlation, 4),
        "odd_days": [{"day": _date(one.day), "factor": round(one.factor, 3)} for one in evidence.odd],
        "observations_of_a_test": evidence.bounds.run,
        "design_effect": round(evidence.bounds.design_effect, 3),
        "notes": list(evidence.notes),
    }


def _effect_document(report: BacktestReport, finding: CapacityFinding) -> dict[str, Any]:
    assert finding.effect is not None
    found: dict[str, Any] = {}
    for name, figures in asdict(finding.effect).items():
        dollars = report.dollars(figures["replica_hours"])
        found[name] = {
            "replica_hours": round(figures["replica_hours"], 2),
            "short_minutes": figures["short_minutes"],
            "short_replica_hours": round(figures["short_replica_hours"], 2),
            "dollars": None if dollars is None else round(dollars, 2),
        }
    return found
