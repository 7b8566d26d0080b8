"""A scale-out plan as a page: its options with times and dollars, what it would make, and its checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from xml.etree.ElementTree import Element

from peaker.domain.instants import from_iso, seconds_between
from peaker_pages.charts import Segment, TimeAxis, bars
from peaker_pages.elements import Node, badge, card, cards, el, facts, note, page, section, table, verdict

from peaker_cli.durations import as_usd, clock, duration
from peaker_cli.runs.plan import READABLE, deadline_line, option_name, plan_facts, plan_verdict

_TONES = {"pass": "good", "warn": "warn", "refuse": "bad", "unknown": "warn"}
_PARTS = ("part", "median", "9 of 10 cases")


@READABLE
def render_page(plan: Mapping[str, Any]) -> str:
    """Returns one file without anything to fetch."""
    choice, checks, lead = plan.get("choice"), plan.get("checks") or (), plan["lead_time"]
    return page(
        f"Plan for {plan['cluster']}",
        note(f"as of {clock(plan['planned_at'])}; nothing is touched by a plan"),
        list(_verdicts(plan)),
        section("Options", *_options(choice, plan["planned_at"])) if choice else None,
        section("What it would make", facts(plan_facts(plan))),
        section("Checks", table(("check", "verdict", "with numbers"), map(_check, checks)))
        if checks
        else None,
        section("Parts of the lead time", table(_PARTS, _parts(lead), _PARTS[1:])) if lead else None,
    )


def _verdicts(plan: Mapping[str, Any]) -> Iterator[Element]:
    for one in plan["refusals"]:
        yield verdict(
            "REFUSED", "bad", one["reason"], el("p", f"{one['code']}; nothing would be built.", class_="do")
        )
    for lifted in plan.get("lifted", ()):
        yield verdict("ABOVE A LIMIT", "warn", str(lifted))
    if not plan["refusals"]:
        ready, hourly = clock(plan["ready_at"]), plan["price"]["hourly"]
        price = "at an unknown price" if hourly is None else f"at ${hourly:.4f} an hour each"
        number = len(plan.get("members") or (1,))
        replicas = "1 replica" if number == 1 else f"{number} replicas"
        yield verdict("", "good", f"{replicas} {plan_verdict(plan)}, ready at {ready}, {price}")


def _options(choice: Mapping[str, Any], planned_at: str) -> list[Node]:
    """A card for each option, and below them how soon each is ready."""
    start, options = from_iso(planned_at), choice["options"]
    deadline = from_iso(choice["ready_by"]) if choice["ready_by"] else None
    late = max(start + timedelta(seconds=one["p90_seconds"]) for one in options)
    # A deadline far behind the last option would leave nothing to see of them.
    seen = deadline is not None and seconds_between(late, deadline) < seconds_between(start, late)
    axis = TimeAxis(start, max(late, deadline) if deadline and seen else late)
    rows = [
        (option_name(one), list(_spans(axis, start, one)), duration(one["p50_seconds"])) for one in options
    ]
    lines = [note(deadline_line(choice))] if deadline else [note(choice["reason"])]
    made = [_option(one, index == choice["index"], start) for index, one in enumerate(options)]
    keys = [("until half of such runs serve", "peaker"), ("until 9 of 10 serve", "band")]
    if deadline and seen:
        rows.append(("deadline", [Segment(axis.at(deadline), 0.2, "short")], clock(deadline)))
    return [*lines, cards(made), bars(rows, axis.ticks(), keys)]


def _option(one: Mapping[str, Any], taken: bool, start: Any) -> Element:
    usd = as_usd(one["usd"])
    ready = clock(start + timedelta(seconds=one["p90_seconds"]))
    lines = [
        ("", f"in 9 of 10 cases {duration(one['p90_seconds'])}, by {ready}"),
        ("", f"{usd} until it serves"),
        ("short", f"not now: {one['why_not']}" if one["why_not"] else ""),
    ]
    name = f"{option_name(one)}{', taken' if taken else ''}"
    return card(name, duration(one["p50_seconds"]), lines, "taken" if taken else "")


def _spans(axis: TimeAxis, start: Any, one: Mapping[str, Any]) -> Iterator[Segment]:
    half, most = (axis.at(start + timedelta(seconds=one[name])) for name in ("p50_seconds", "p90_seconds"))
    yield Segment(0, half, "peaker", f"median {duration(one['p50_seconds'])}")
    yield Segment(half, max(0.0, most - half), "band", f"in 9 of 10 cases {duration(one['p90_seconds'])}")


def _parts(lead: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    slow = lead.get("p90_parts") or {}
    for name, seconds in sorted(lead["parts"].items(), key=lambda part: -part[1]):
        yield name.replace("_", " "), duration(seconds), duration(slow.get(name))
    yield (
        "the whole, with what passes side by side",
        duration(lead["seconds"]),
        duration(lead.get("p90_seconds")),
    )


def _check(one: Mapping[str, Any]) -> tuple[Node, ...]:
    remedy = el("p", f"→ {one['remedy']}", class_="note") if one["remedy"] else None
    return one["name"], badge(one["verdict"], _TONES[one["verdict"]]), [one["detail"], remedy]
