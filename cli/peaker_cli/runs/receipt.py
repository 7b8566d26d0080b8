"""A run's receipt for a person: every step, its minutes and numbers, what was made and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from peaker.domain.decoding import understood
from peaker.domain.report.event import started_by
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.failure import STOPPED_BY_HAND
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from peaker_cli.durations import as_usd, clock, duration
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import table_of
from peaker_cli.storage.storage_proof import PARTS_OF_PROOF, PROOF_STEP, proof_lines
from peaker_contract.catalogue import serving_state

# Outcomes of a run of which nothing stays.
UNDONE = ("rolled_back",)
_OUTCOME_STYLE = {"succeeded": "green", "nothing_to_do": "cyan"}


# Raises ControlPlaneError for a receipt that this release cannot read.
READABLE = understood(ControlPlaneError, "the receipt (--json prints it as it is)")


@READABLE
def render_receipt(
    receipt: Mapping[str, Any], real_seconds_per_cloud_second: float | None = None
) -> RenderableType:
    """A receipt for a person. With a scaled clock, real durations stand beside the cloud's."""
    style = _OUTCOME_STYLE.get(receipt["outcome"], "red")
    outcome = str(receipt["outcome"]).replace("_", " ")
    head = Text.assemble(
        (f"{receipt['operation']} of {receipt['cluster']}: ", "bold"), (outcome, f"bold {style}"),
        f"   {receipt['run_id']}\n",
        f"why: {why_of(receipt)}\n",
        f"started by {started_by(Trigger.model_validate(receipt['trigger']))}\n",
        f"from {clock(receipt['started_at'])} to {clock(receipt['finished_at'])}, ",
        _both(receipt["seconds"], real_seconds_per_cloud_second),
    )  # fmt: skip
    parts: list[RenderableType] = [head, _steps(receipt, real_seconds_per_cloud_second)]
    parts.append(Text(f"resources: {_made(receipt)}"))
    told = (_way(receipt), _cost(receipt), _other_costs(receipt), _parking(receipt), _standing(receipt),
            _spent(receipt), _lead(receipt))  # fmt: skip
    parts += [Text(line) for line in told if line]
    parts += [Text(line) for line in _members(receipt)]
    for table in outcome_tables(receipt):
        parts += [Text(), table]
    parts += [Text(line, overflow="fold") for line in proof_lines(receipt)]
    parts += [Text(f"note: {note}") for note in receipt.get("notes") or ()]
    failure = receipt.get("failure")
    if failure and failure["error"] != STOPPED_BY_HAND:
        parts.append(
            Text(f"failed at {failure['failed_step']}: {failure['error']}\n{failure['cause']}", style="red")
        )
    return Group(*parts)


def why_of(receipt: Mapping[str, Any]) -> str:
    """Returns why the run began. The receipt of one that a person stopped has that person's reason alone."""
    failure = receipt.get("failure") or {}
    if failure.get("error") == STOPPED_BY_HAND:
        return f"stopped by hand: {failure['cause']}"
    by_hand = receipt["reason"] in (None, "", "manual")
    return "started by hand" if by_hand else str(receipt["reason"])


def receipt_sentences(receipt: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields what stands in no table: name and sentence."""
    told = (_way(receipt), _parking(receipt), _standing(receipt), _spent(receipt), _lead(receipt))
    for line in told:
        name, colon, sentence = line.partition(": ")
        if colon:
            yield name, sentence
    yield "resources", _made(receipt)
    yield from (("note", str(note)) for note in receipt.get("notes") or ())


def _steps(receipt: Mapping[str, Any], real: float | None) -> RenderableType:
    rows = [
        (clock(step["started_at"]), str(step["step"]), _both(step["seconds"], real), numbers_of(step))
        for step in receipt["steps"]
    ]
    wide = max((len(name) for _, name, _, _ in rows), default=0)
    parts: list[RenderableType] = []
    for start, name, seconds, numbers in rows:
        parts.append(Text(f"{start}  {name:<{wide}}  {seconds}"))
        # Below, so that an id is never broken.
        parts += [Padding(Text(numbers), (0, 0, 0, 4))] if numbers else []
    return Group(*parts)


def _made(receipt: Mapping[str, Any]) -> str:
    made = [
        f"{r['kind'].replace('_', ' ')} {r['id'] or r['name']} ({r['state']})" for r in receipt["resources"]
    ]
    return ", ".join(made) if made else "none made"


def _members(receipt: Mapping[str, Any]) -> list[str]:
    return [
        f"member {one['number']}: {_how(one)}"
        + (f", {one['instance_id']}" if one["instance_id"] else "")
        + (f", serves since {clock(one['serving_at'])}" if one["serving_at"] else "")
        + (f": {one['failure']}" if one["failure"] else "")
        + ("" if one["run_id"] == receipt["run_id"] else f" ({one['run_id']})")
        for one in _several(receipt)
    ]


def _how(member: dict[str, Any]) -> str:
    """`build, in service`; of one that was to go where it stands, and that it was refused where it was."""
    if member["method"] is not None:
        return f"{member['method']}, {member['state'].replace('_', ' ')}"
    stands = str(member.get("stands") or member["state"]).replace("_", " ")
    return stands if member["state"] in ("gone", "in_service") else f"{stands}, {member['state']}"


def _cost(receipt: Mapping[str, Any]) -> str:
    cost = receipt.get("cost")
    if not cost:
        return ""
    kept = cost["per_month_if_kept"]
    hourly = "unknown price" if cost["hourly"] is None else f"${cost['hourly']:.4f}/h"
    once = as_usd(cost["once"], 4, "an unknown price")
    so_far = as_usd(cost["so_far"], 4)
    line = (
        f"cost{_priced_member(receipt)}: {so_far} for {cost['replica_hours']:.2f} replica-hours at {hourly}"
    )
    line += f" and {once} once"
    line += f" (by {cost['source']})" if cost.get("source") else ""
    if receipt["outcome"] in UNDONE:
        return line
    if cost.get("snapshots_gib"):
        stands = cost["snapshots_hourly"]
        line += f"; kept snapshots of at most {cost['snapshots_gib']:g} GiB cost "
        line += "an unknown price" if stands is None else f"${stands:.4f}/h"
    return line + ("" if kept is None else f"; keeping the replica on costs ${kept:.2f} a month")


def _priced_member(receipt: Mapping[str, Any]) -> str:
    """Each replica of a batch has a receipt, and its cost stands there."""
    own = [one["number"] for one in _several(receipt) if one["run_id"] == receipt["run_id"]]
    return f" of member {own[0]}" if own else ""


def _several(receipt: Mapping[str, Any]) -> list[dict[str, Any]]:
    members = list(receipt.get("members") or ())
    return members if len(members) > 1 else []


def _other_costs(receipt: Mapping[str, Any]) -> str:
    told = [
        f"of member {one['number']}: peaker receipt {one['run_id']}"
        for one in _several(receipt)
        if one["run_id"] != receipt["run_id"]
    ]
    return f"cost {', '.join(told)}" if told and receipt.get("cost") else ""


def _way(receipt: Mapping[str, Any]) -> str:
    method = (receipt.get("plan") or {}).get("method")
    return f"way: {method['action']}, {method['reason']}" if method else ""


def _parking(receipt: Mapping[str, Any]) -> str:
    parking = receipt.get("parking")
    if not parking:
        return ""
    serving = parking["serving_hourly_usd"]
    hourly = "unknown" if serving is None else f"${serving:.4f}/h"
    stands = parking["parked_hourly_usd"]
    parked = "at an unknown price" if stands is None else f"${stands:.4f}/h"
    costs = f"parked {parked}, in service {hourly}"
    return f"{parking['action']}: {costs}; {parking['reason']}"


def _standing(receipt: Mapping[str, Any]) -> str:
    replica = receipt.get("replica")
    if not replica:
        return ""
    line = f"replica {replica['instance_id']}: {replica['state'].replace('_', ' ')}, built by {replica['built_by']}"
    if replica.get("parked_until"):
        line += f", until {clock(replica['parked_until'])} ({replica['until_reason']})"
    ramp: dict[str, Any] = next(
        (one["numbers"] for one in receipt["steps"] if one["step"] == serving_state()), {}
    )
    taken = ramp.get("share_of_a_peer")
    return line if taken is None else f"{line}; at the end of its ramp it took {taken:.0%} of a peer's reads"


def _spent(receipt: Mapping[str, Any]) -> str:
    replica = receipt.get("replica") or {}
    return f"it cannot return as it is: {replica['spent']}" if replica.get("spent") else ""


def _lead(receipt: Mapping[str, Any]) -> str:
    lead = receipt.get("forecast_lead")
    if not lead:
        return ""
    line = f"forecast lead: alarm at {clock(lead['alarm_at'])}"
    if lead["serving_at"]:
        line += (
            f", serving at {clock(lead['serving_at'])} ({duration(lead['seconds_alarm_to_serving'])} later)"
        )
    if lead["load_crossed_at"]:
        line += f", load over capacity at {clock(lead['load_crossed_at'])}"
    return line


# What a step records for the machinery, not for a reader.
_UNTOLD = {
    "run_id", "pid", "sha256", "already_running", "mounted", "map_unreadable", "source_checked",
    "source_position_known", "page_list_found", "attached", "planning_seconds", "cpu_seconds", "eta_seconds",
}  # fmt: skip


def numbers_of(step: Mapping[str, Any]) -> str:
    """Describes a step's numbers, without those that the storage proof tells by itself."""
    untold = _UNTOLD | (PARTS_OF_PROOF if step["step"] == PROOF_STEP else frozenset())
    told = {
        key: value
        for key, value in step["numbers"].items()
        if key not in untold and value not in (None, "", [], {})
    }
    return "  ".join(f"{key}={_short(value)}" for key, value in told.items())


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return _short_list(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(each)}" for key, each in list(value.items())[:6])
    text = str(value)
    return text if len(text) <= 90 else text[:87] + "..."


def _short_list(values: list[Any]) -> str:
    """Samples as their lag, other records as their count."""
    if all(isinstance(value, dict) for value in values):
        lags = [value["lag_seconds"] for value in values if "lag_seconds" in value]
        return (
            "lag " + ", ".join("?" if lag is None else f"{lag:g}" for lag in lags) + " s"
            if lags
            else str(len(values))
        )
    return ", ".join(_short(value) for value in values[:6]) + (", ..." if len(values) > 6 else "")


def _both(seconds: float | None, real: float | None) -> str:
    if real is None or seconds is None:
        return duration(seconds)
    return f"{duration(seconds)} ({seconds * real:.1f} s)"


OUTCOME_COLUMNS = ("part", "planned", "in 9 of 10 cases", "took", "plan off by")


def outcome_tables(receipt: Mapping[str, Any]) -> Iterator[Table]:
    """Yields a table for each member, in their order; none for receipts of before plans were compared."""
    for named, rows in outcome_rows(receipt):
        title = f"lead time{' of ' * bool(named)}{named}: plan against outcome"
        yield table_of(OUTCOME_COLUMNS, rows, right=OUTCOME_COLUMNS[1:], title=title)


def outcome_rows(receipt: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yields the rows of each member that was compared, under its name where there are several."""
    members = receipt.get("members") or ()
    for member in members:
        if outcome := member.get("outcome"):
            parts = [(str(one["part"]).replace("_", " "), one) for one in outcome["parts"]]
            between = {"planned_seconds": None, "took_seconds": outcome["between_steps_seconds"]}
            rows = [*parts, ("between steps", between), ("plan to serving", outcome)]
            yield "" if len(members) == 1 else f"member {member['number']}", [_compared(*row) for row in rows]


def _compared(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    planned, took = figures["planned_seconds"], figures["took_seconds"]
    slow = figures.get("planned_p90_seconds")
    return name, duration(planned), duration(slow), duration(took), _off(planned, took)


def _off(planned: float | None, took: float | None) -> str:
    """Returns the error in percent of the real time; a dash where either is unknown or nothing passed."""
    if planned is None or not took:
        return "-"
    return f"{(planned - took) / took:+.0%}"
