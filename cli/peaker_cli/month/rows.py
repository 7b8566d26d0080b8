"""The month's rows, as page and terminal show them."""

from __future__ import annotations

from typing import Any

from peaker_cli.durations import clock

_HOUR_SECONDS = 3600
PEAK_HEAD = ("peak replica", "from", "until", "hours", "USD", "USD/1,000", "how")


def headline(document: dict[str, Any]) -> str:
    """Whose month, what it cost, and what it saved against replicas that are always on."""
    span = f"{clock(document['from'])} to {clock(document['until'])}"
    paid, always, base = document["total_usd"], document["always_on"]["usd"], document["base"]["usd"]
    head = f"{document['cluster']}, {span}: {as_usd(paid)} in all"
    if paid is None or always is None or base is None or not document["always_on"]["peak_replicas"]:
        return head
    saved = base + always - paid
    return f"{head}, {as_usd(abs(saved))} {'less' if saved >= 0 else 'more'} than with the peak always on"


def summary_rows(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Returns name, replica-hours, dollars."""
    peak, idle, always = document["peak"], document["idle"], document["always_on"]
    return [
        ("base", _hours(document["base"]["replica_hours"]), as_usd(document["base"]["usd"])),
        ("peak", _hours(peak["replica_hours"]), as_usd(peak["usd"])),
        ("of these idle", _hours(idle["replica_hours"]), as_usd(idle["usd"])),
        ("of these builds that failed", "", as_usd(peak["failed_usd"])),
        ("of these above what the instance carries", "", as_usd(document["mismatch_usd"])),
        ("parked", _hours(document["parked"]["replica_hours"]), as_usd(document["parked"]["usd"])),
        ("in all", "", as_usd(document["total_usd"])),
        (
            f"instead {always['peak_replicas']} always on since {clock(always['from'])}",
            "",
            as_usd(always["usd"]),
        ),
    ]


def unknown_rows(document: dict[str, Any]) -> list[str]:
    """Lists the unknown or unseen parts of the summary, with the reasons."""
    whys = [
        (name, document[part]["why_unknown"]) for name, part in (("base", "base"), ("idle hours", "idle"))
    ]
    said = [f"{name}: {why}" for name, why in whys if why]
    if document["load"]["period_seconds"] >= _HOUR_SECONDS and document["load"]["from"]:
        said.append("load: by the hour, as CloudWatch keeps it of that time; peaks within one are not seen")
    return said


def peak_rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
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
