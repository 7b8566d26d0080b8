"""The month's rows, as page and terminal show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peaker_cli.durations import as_usd, clock

_HOUR_SECONDS = 3600
SUMMARY_HEAD = ("part", "replica-hours", "USD")
PEAK_HEAD = ("peak replica", "from", "until", "hours", "USD", "USD/1,000", "how")


def savings(document: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the tone, good, bad or empty where nothing was compared, and what was saved against what."""
    paid, always, base = document["total_usd"], document["always_on"], document["base"]["usd"]
    if paid is None or always["usd"] is None or base is None:
        return ("", "A price is unknown, so what was saved is unknown")
    if not always["peak_replicas"]:
        return ("", f"{as_usd(paid)} in all; no peak replica served, so nothing is compared")
    other = base + always["usd"]
    saved, percent = other - paid, (other - paid) / other if other else 0.0
    ran = (
        f"{always['peak_replicas']} peak replica{'s' if always['peak_replicas'] > 1 else ''} always on since"
    )
    against = f"{'saved against' if saved >= 0 else 'more than with'} {ran} {clock(always['from'])}"
    return (
        "good" if saved >= 0 else "bad",
        f"{as_usd(abs(saved))} ({abs(percent):.0%}) {against}: {as_usd(paid)} instead of {as_usd(other)}",
    )


def headline(document: Mapping[str, Any]) -> str:
    span = f"{clock(document['from'])} to {clock(document['until'])}"
    return f"{document['cluster']}, {span}: {savings(document)[1]}"


def summary_rows(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
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
