"""The month's rows, as page and terminal show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peaker_cli.durations import clock

_HOUR_SECONDS = 3600
SUMMARY_HEAD = ("part", "replica-hours", "USD")
PEAK_HEAD = ("peak replica", "from", "until", "hours", "USD", "USD/1,000", "how")


@dataclass(frozen=True)
class Savings:
    """What the month saved, and against what; `tone` is good, bad or empty where nothing was compared."""

    tone: str
    sentence: str


def savings(document: Mapping[str, Any]) -> Savings:
    """Compares the month's dollars with those of replicas that are always on, from Peaker's first look on."""
    paid, always, base = document["total_usd"], document["always_on"], document["base"]["usd"]
    if paid is None or always["usd"] is None or base is None:
        return Savings("", "A price is unknown, so what was saved is unknown")
    if not always["peak_replicas"]:
        return Savings("", f"{as_usd(paid)} in all; no peak replica served, so nothing is compared")
    other = base + always["usd"]
    saved, percent = other - paid, (other - paid) / other if other else 0.0
    ran = (
        f"{always['peak_replicas']} peak replica{'s' if always['peak_replicas'] > 1 else ''} always on since"
    )
    against = f"{'saved against' if saved >= 0 else 'more than with'} {ran} {clock(always['from'])}"
    return Savings(
        "good" if saved >= 0 else "bad",
        f"{as_usd(abs(saved))} ({abs(percent):.0%}) {against}: {as_usd(paid)} instead of {as_usd(other)}",
    )


def headline(document: Mapping[str, Any]) -> str:
    """Returns whose month it is, and what it saved against what."""
    span = f"{clock(document['from'])} to {clock(document['until'])}"
    return f"{document['cluster']}, {span}: {savings(document).sentence}"


def summary_rows(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns name, replica-hours, dollars."""
    peak, idle, always = document["peak"], document["idle"], document["always_on"]
    rows = [
        ("base", _hours(document["base"]["replica_hours"]), as_usd(document["base"]["usd"])),
        ("peak", _hours(peak["replica_hours"]), as_usd(peak["usd"])),
        ("of these idle", _hours(idle["replica_hours"]), as_usd(idle["usd"])),
        ("of these builds that failed", "", as_usd(peak["failed_usd"])),
        ("of these above what the instance carries", "", as_usd(document["mismatch_usd"])),
        ("parked", _hours(document["parked"]["replica_hours"]), as_usd(document["parked"]["usd"])),
        ("in all", "", as_usd(document["total_usd"])),
    ]
    if always["peak_replicas"]:
        instead = f"instead {always['peak_replicas']} always on since {clock(always['from'])}"
        rows.append((instead, "", as_usd(always["usd"])))
    return rows


def unknown_rows(document: Mapping[str, Any]) -> list[str]:
    """Lists the unknown or unseen parts of the summary, with the reasons."""
    whys = [
        (name, document[part]["why_unknown"]) for name, part in (("base", "base"), ("idle hours", "idle"))
    ]
    said = [f"{name}: {why}" for name, why in whys if why]
    if document["load"]["period_seconds"] >= _HOUR_SECONDS and document["load"]["from"]:
        said.append("load: by the hour, as CloudWatch keeps it of that time; peaks within one are not seen")
    return said


def peak_rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Returns each stretch of each peak replica, under PEAK_HEAD."""
    return [
        (
            one["replica"],
            clock(one["since"]),
            clock(one["until"]) if one["until"] else "runs",
            f"{one['hours']:.2f}",
            as_usd(one["usd"]),
            as_usd(one["usd_per_thousand_queries"], 6),
            "failed" if one["failed"] else "returned" if one["returned"] else "built",
        )
        for one in document["peaks"]
    ]


def _hours(hours: float | None) -> str:
    return "unknown" if hours is None else f"{hours:,.2f}"


def as_usd(amount: float | None, digits: int = 2) -> str:
    """`$1,234.50`, or unknown."""
    return "unknown" if amount is None else f"${amount:,.{digits}f}"
