"""A receipt as a page: its steps on a time axis, await before and after the prewarm, the ramp, and the dollars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from peaker.domain.instants import from_iso
from peaker.domain.runs.failure import STOPPED_BY_HAND
from peaker_pages.charts import Segment, TimeAxis, bars
from peaker_pages.elements import Node, card, cards, el, facts, note, page, section, table, verdict

from peaker_cli.durations import as_usd, clock, duration
from peaker_cli.runs.receipt import (
    OUTCOME_COLUMNS,
    READABLE,
    UNDONE,
    numbers_of,
    outcome_rows,
    receipt_sentences,
    why_of,
)
from peaker_cli.storage.storage_proof import PROOF_STEP, proof_lines
from peaker_contract.catalogue import serving_state

_TONES = {"succeeded": "good", "rolled_forward": "good", "nothing_to_do": "", "refused": "warn"}
_AWAITS = (("cold", "await_cold_ms", "short"), ("after the prewarm", "await_first_ms", "peaker"),
           ("second read", "await_second_ms", "band"))  # fmt: skip
_WINDOWS = ("comparison", "share asked for", "reads of a peer's", "mean, peers'", "what followed")


@READABLE
def render_page(receipt: Mapping[str, Any]) -> str:
    """Returns one file without anything to fetch."""
    steps, failure = receipt["steps"], receipt.get("failure")
    outcomes = [
        el("div", el("h3", title) if title else None, table(OUTCOME_COLUMNS, rows, OUTCOME_COLUMNS[1:]))
        for title, rows in outcome_rows(receipt)
    ]
    detail = ((step["step"], clock(step["started_at"]), numbers_of(step)) for step in steps)
    return page(
        f"{receipt['operation']} of {receipt['cluster']}",
        note(receipt["run_id"]),
        verdict(
            str(receipt["outcome"]).replace("_", " ").upper(),
            _TONES.get(receipt["outcome"], "bad"),
            f"{duration(receipt['seconds'])}, from {clock(receipt['started_at'])} to {clock(receipt['finished_at'])}",
            el(
                "p",
                f"Failed at {failure['failed_step']}: {failure['error']}. {failure['cause']}",
                class_="do",
            )
            if failure and failure["error"] != STOPPED_BY_HAND
            else None,
        ),
        cards(_cards(receipt)),
        section("Steps", *_timeline(receipt)),
        list(_proof(receipt)),
        list(_ramp(steps)),
        section("Dollars", *_dollars(receipt)),
        section("Replicas", facts(_members(receipt))) if receipt.get("members") else None,
        section("Lead time: plan against outcome", *outcomes) if outcomes else None,
        section("What else it says", facts(receipt_sentences(receipt))),
        el("details", el("summary", "Numbers of each step"), table(("step", "start", "numbers"), detail)),
    )


def _cards(receipt: Mapping[str, Any]) -> Iterator[Any]:
    started = receipt["trigger"].get("alarm") or receipt["trigger"].get("kind") or "unknown"
    yield card(
        "started by",
        {"manual": "a person"}.get(started, str(started)),
        [("", why_of(receipt))],
    )
    cost = receipt.get("cost") or {}
    so_far = cost.get("so_far")
    hours = f"{cost['replica_hours']:.2f} replica-hours" if cost else "it has no price"
    yield card("cost", as_usd(so_far), [("", hours)])
    lead = receipt.get("forecast_lead") or {}
    if lead.get("seconds_alarm_to_serving") is not None:
        crossed = lead.get("load_crossed_at")
        below = (
            f"load over capacity at {clock(crossed)}"
            if crossed
            else "the load did not cross the capacity yet"
        )
        yield card("alarm to serving", duration(lead["seconds_alarm_to_serving"]), [("", below)])
    if replica := receipt.get("replica"):
        yield card("replica", str(replica["state"]).replace("_", " "), [("", replica["instance_id"])])


def _timeline(receipt: Mapping[str, Any]) -> list[Node]:
    """Steps that wait for others (their children's time lies within) are drawn pale."""
    start, end = from_iso(receipt["started_at"]), from_iso(receipt["finished_at"])
    axis = TimeAxis(start, end)
    failed = (receipt.get("failure") or {}).get("failed_step")
    rows = []
    for step in sorted(receipt["steps"], key=lambda one: str(one["started_at"])):
        began, seconds = from_iso(step["started_at"]), step["seconds"]
        over = end if seconds is None else began + timedelta(seconds=seconds)
        colour = (
            "short" if step["step"] == failed else "always" if seconds is None or _waits(step) else "peaker"
        )
        left = axis.at(began)
        took = (
            duration(seconds) if seconds is not None else "failed" if colour == "short" else "no end recorded"
        )
        rows.append(
            (step["step"], [Segment(left, axis.at(over) - left, colour, f"{clock(began)}, {took}")], took)
        )
    keys = [("worked", "peaker"), ("waited for others, or no end recorded", "always")]
    if failed:
        keys.append(("failed", "short"))
    return [bars(rows, axis.ticks(), keys)] if rows else [note("It has no step.")]


def _waits(step: Mapping[str, Any]) -> bool:
    return "members" in step["numbers"] and "outcome" in step["numbers"]


def _proof(receipt: Mapping[str, Any]) -> Iterator[Node]:
    """Yields the await of each volume, cold and warm; nothing where no storage was proven."""
    if not (lines := proof_lines(receipt)):
        return
    numbers = next(one["numbers"] for one in receipt["steps"] if one["step"] == PROOF_STEP)
    volumes = [one for one in numbers.get("volumes") or () if isinstance(one, dict)] or [
        {"name": "all", **numbers}
    ]
    found = [
        (f"{one.get('name', '?')}, {word}", one.get(field), colour)
        for one in volumes
        for word, field, colour in _AWAITS
    ]
    most = max([value for _, value, _ in found if value is not None], default=0.0) or 1.0
    rows = [
        (name, [] if value is None else [Segment(0, 100 * value / most, colour)],
         "not measured" if value is None else f"{value:g} ms")
        for name, value, colour in found
    ]  # fmt: skip
    told = el("ul", (el("li", line.strip()) for line in lines), class_="notes")
    yield section("Await before and after the prewarm", bars(rows), told)


def _ramp(steps: Any) -> Iterator[Node]:
    """Yields the newcomer's share of a peer's reads, comparison by comparison."""
    ramp: Mapping[str, Any] = next((one["numbers"] for one in steps if one["step"] == serving_state()), {})
    windows = ramp.get("windows")
    if not isinstance(windows, list) or not windows:
        return
    most = max([1.0, *(one["measured_ratio"] for one in windows if one.get("measured_ratio") is not None)])
    rows = []
    for number, one in enumerate(windows, 1):
        measured, expected = one.get("measured_ratio"), one.get("expected_ratio")
        pieces = [] if measured is None else [Segment(0, 100 * measured / most, "peaker")]
        pieces += (
            []
            if expected is None
            else [Segment(99.7 * expected / most, 0.3, "load", f"{expected:.0%} expected")]
        )
        rows.append(
            (
                f"{number}, share {one['share']:g}",
                pieces,
                "not measured" if measured is None else f"{measured:.0%}",
            )
        )
    table_rows = (
        (str(number), f"{one['share']:g}", _ratio(one), _means(one), f"{one['action']}: {one['reason']}")
        for number, one in enumerate(windows, 1)
    )
    keys = [("its reads in percent of a peer's", "peaker"), ("expected at this share", "load")]
    yield section("Share of the reads over the ramp", bars(rows, keys=keys), table(_WINDOWS, table_rows))


def _ratio(one: Mapping[str, Any]) -> str:
    return "unknown" if one.get("measured_ratio") is None else f"{one['measured_ratio']:.0%}"


def _means(one: Mapping[str, Any]) -> str:
    found = (one.get("mean_ms"), one.get("peers_mean_ms"))
    return ", ".join("unknown" if value is None else f"{value:g} ms" for value in found)


def _dollars(receipt: Mapping[str, Any]) -> list[Node]:
    cost = receipt.get("cost")
    if not cost:
        return [note("The run has no price: it made nothing that is paid for, or no price was known.")]
    hours, price = cost["replica_hours"], receipt["plan"].get("price") or {}
    parts = [("instance", price.get("instance_hourly")), ("volumes", price.get("volumes_hourly"))]
    if any(hourly is None for _, hourly in parts):
        parts = [("replica", cost["hourly"])]
    rows = [
        (name, f"{hours:.2f} h", as_usd(hourly, 4), as_usd(None if hourly is None else hourly * hours, 4))
        for name, hourly in parts
    ]
    rows.append(("initialization and other one-time costs", "once", "", as_usd(cost["once"], 4)))
    rows.append(("in all", "", "", as_usd(cost["so_far"], 4)))
    lines = [note(f"by {cost['source']}")] if cost.get("source") else []
    if cost["per_month_if_kept"] is not None and receipt["outcome"] not in UNDONE:
        lines.append(note(f"keeping the replica on costs ${cost['per_month_if_kept']:.2f} a month"))
    if cost.get("snapshots_gib"):
        hourly = as_usd(cost["snapshots_hourly"], 4)
        lines.append(note(f"kept snapshots of at most {cost['snapshots_gib']:g} GiB: {hourly} an hour"))
    columns = ("item", "time", "USD an hour", "USD")
    return [table(columns, rows, columns[1:]), *lines]


def _members(receipt: Mapping[str, Any]) -> Iterator[tuple[str, Node]]:
    for one in receipt["members"]:
        state = str(one.get("stands") or one["state"]).replace("_", " ")
        words = [one["instance_id"] or "no instance", one["method"] or "was to go", state]
        words += [f"serves since {clock(one['serving_at'])}"] if one["serving_at"] else []
        words += [f"failed: {one['failure']}"] if one["failure"] else []
        own = one["run_id"] == receipt["run_id"]
        yield (
            f"member {one['number']}",
            [", ".join(words), None if own else [", ", el("code", f"peaker receipt {one['run_id']}")]],
        )
