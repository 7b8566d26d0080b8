"""The capacity of a replica in words, and as JSON values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from peaker.domain.forecasting.series import DAY_SECONDS
from peaker.domain.planning.reaction import load_text

from peaker_backtest.capacity.evidence import OddDay
from peaker_backtest.capacity.proposal import CapacityProposal, Evidence, SettingNow, Standing
from peaker_backtest.report import BacktestReport

_ODD_SHOWN = 5


def advice_on_capacity(report: BacktestReport) -> list[str]:
    """What a replica was seen to serve, what to set, and on what evidence; empty where it was not asked for."""
    proposal = report.capacity
    if proposal is None:
        return []
    lines = [_answer(proposal, report.load_unit)]
    if proposal.standing is not Standing.UNKNOWN:
        lines.append(_setting(proposal))
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
    proposal = report.capacity
    if proposal is None:
        return None
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
    }
