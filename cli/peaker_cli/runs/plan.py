"""A scale-out plan for a person: what, from which donor, ready when, at what price, and every refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from peaker.domain.decoding import understood
from peaker.domain.instants import from_iso
from peaker.domain.planning.plan_refusals import LIMITS
from rich.console import Group, RenderableType
from rich.text import Text

from peaker_cli.control_plane import ControlPlane
from peaker_cli.durations import clock, duration
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import facts_of, table_of, telling
from peaker_contract.errors import AboveLimits, with_remedy

_VERDICT_STYLES = {"pass": "green", "warn": "yellow", "refuse": "red", "unknown": "magenta"}


def render_options(choice: Mapping[str, Any], planned_at: str) -> RenderableType:
    """A line per option: its median and p90, by when 9 of 10 are ready, dollars until it serves."""
    rows = (
        (
            option_name(one),
            Text("taken", style="bold green") if index == choice["index"] else "",
            duration(one["p50_seconds"]),
            duration(one["p90_seconds"]),
            clock(from_iso(planned_at) + timedelta(seconds=one["p90_seconds"])),
            "unknown" if one["usd"] is None else f"{one['usd']:.2f}",
            Text(f"not now: {one['why_not']}" if one["why_not"] else "", style="dim"),
        )
        for index, one in enumerate(choice["options"])
    )
    columns = ("option", "", "median", "p90", "ready by", "USD", "")
    return table_of(columns, rows, right=("median", "p90", "USD"), title="options")


def option_name(option: Mapping[str, Any]) -> str:
    if option["action"] == "return":
        return f"return {option['replica']}"
    rate = option["rate_mib_per_s"]
    return "build, default rate" if rate is None else f"build, {rate} MiB/s a volume"


def deadline_line(choice: Mapping[str, Any]) -> str:
    made = "is met" if choice["in_time"] else "is NOT met"
    return f"{from_iso(choice['ready_by']):%d %b %Y %H:%M} UTC {made}: {choice['reason']}"


def render_checks(checks: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A line per check with its numbers, and its remedy below."""
    rows = (
        (
            Text(one["verdict"], style=_VERDICT_STYLES[one["verdict"]]),
            one["name"],
            Text(one["detail"] + (f"\n-> {one['remedy']}" if one["remedy"] else "")),
        )
        for one in checks
    )
    return table_of(("", "", ""), rows, title="checks")


PLAN_LIMIT_SECONDS = 180
# Raises ControlPlaneError for a plan that this release cannot read.
READABLE = understood(ControlPlaneError, "the plan (--json prints it as it is)")


def planned(control: ControlPlane, operation: str, request: Mapping[str, Any]) -> Any:
    """The workflow's plan for this request; nothing is touched. Raises ControlPlaneError where there is none."""
    with telling(f"planning {operation} of {request['cluster']}"):
        execution = control.wait(control.start(operation, {**request, "mode": "plan"}), PLAN_LIMIT_SECONDS)
    if execution.failure is not None:
        raise ControlPlaneError(execution.failure_text)
    if execution.is_refused:
        raise ControlPlaneError(f"{execution.output.get('error')}: {execution.output.get('reason')}")
    return execution.output


@READABLE
def refused_text(plan: Mapping[str, Any], environment: str) -> str:
    """Why a run by this plan would change nothing, and for limits alone the line that passes them; else empty."""
    if "refusals" in plan:
        said = "; ".join(f"{one['code']}: {one['reason']}" for one in plan["refusals"])
        if said and all(one["code"] in LIMITS for one in plan["refusals"]):
            remedy = AboveLimits.remedy.replace("CLUSTER", plan["cluster"])
            return with_remedy(said, remedy.replace("TEXT", f"TEXT --env {environment}"))
        return said
    return "" if plan["replicas"] else str(plan["text"])


@READABLE
def render_plan(plan: Mapping[str, Any]) -> RenderableType:
    """The output of a plan-mode execution for a person: refused or not, then what and why."""
    choice = plan.get("choice")
    refusals = [Text(f"refused, {r['code']}: {r['reason']}", style="red") for r in plan["refusals"]]
    lifted = [Text(f"passes a limit, {one}", style="yellow") for one in plan.get("lifted", ())]
    verdict = Text(plan_verdict(plan), style="green")
    stands = refusals or [*lifted, verdict]
    head = Text.assemble((f"plan for {plan['cluster']}", "bold"), f" of {clock(plan['planned_at'])}")
    parts: list[RenderableType] = [head, *stands, Text(), facts_of(plan_facts(plan))]
    if choice:
        parts += [Text(), render_options(choice, plan["planned_at"])]
    if plan.get("checks"):
        parts += [Text(), render_checks(plan["checks"])]
    return Group(*parts)


def plan_members(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the replicas of the batch; a plan of before there were batches is its only one."""
    return plan.get("members") or [{**plan, "number": 1}]


def plan_facts(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    price, lead = plan["price"], plan["lead_time"]
    members = plan_members(plan)
    for member in sorted(members, key=lambda one: _action(one) == "build"):
        zone, ready = ", ".join(member["zones"][:1]), _ready(member, members)
        if _action(member) == "build":
            lines.append(("build", f"1 x {plan['instance_type']} in {zone}{ready}"))
        else:
            lines.append(("return", f"{member['method']['replica']}, parked{ready}"))
    fleet = f"{plan['serving']} serving, {plan['building']} building, at most {plan['max_replicas']}"
    lines.append(("fleet", fleet))
    lines.append(("donor", _donor(plan)))
    for volume in plan["volumes"]:
        lines.append((f"volume {volume['name']}", _volume(volume, plan.get("method"))))
    lines.append(("lead time", _lead_time(lead) if lead else "unknown"))
    if lead:
        lines.append(("", ", ".join(_longest_parts(lead))))
    lines.append(("ready at", clock(plan["ready_at"])))
    lines.append(("price", _price(price)))
    if len(members) > 1:
        lines.append(("batch", _batch(plan)))
    lines.append(("", f"by {price['source']}"))
    if price.get("snapshots_gib"):
        lines.append(("snapshots", _snapshots(price)))
    choice = plan.get("choice")
    if choice and choice["ready_by"]:
        lines.append(("deadline", deadline_line(choice)))
    elif plan.get("method"):
        lines.append(("way", _way(plan["method"])))
    for note in plan.get("notes", ()):
        lines.append(("note", note))
    return lines


def _donor(plan: Mapping[str, Any]) -> str:
    """Names the donor and the reason: it may not be the one that lags least."""
    donor = plan["donor"] or "none"
    return next((one for one in plan.get("donor_reasons", ()) if one.startswith(f"{donor}: ")), donor)


def _lead_time(lead: dict[str, Any]) -> str:
    slow = lead.get("p90_seconds")
    return duration(lead["seconds"]) + ("" if slow is None else f", in 9 of 10 cases {duration(slow)}")


def _longest_parts(lead: dict[str, Any]) -> Iterator[str]:
    """Yields the longest parts with the p90 of each where it is known."""
    slow = lead.get("p90_parts") or {}
    for name, seconds in sorted(lead["parts"].items(), key=lambda part: -part[1])[:5]:
        spread = f" ({duration(slow[name])})" if name in slow else ""
        yield f"{name.replace('_', ' ')} {duration(seconds)}{spread}"


def _ready(member: Mapping[str, Any], members: list[dict[str, Any]]) -> str:
    """Returns the time when a member will serve; of one replica alone the plan says so in a line of its own."""
    if len(members) == 1:
        return ""
    late = (member.get("choice") or {}).get("in_time") is False
    return f", serves at {clock(member['ready_at'])}{', after the deadline' if late else ''}"


def _batch(plan: Mapping[str, Any]) -> str:
    price = plan["batch_price"]
    if price["hourly"] is None or price["once"] is None:
        return f"{len(plan['members'])} replicas at an unknown price"
    return (
        f"{len(plan['members'])} replicas from one snapshot set: ${price['hourly']:.4f} an hour, "
        f"${price['once']:.4f} once"
    )


def _action(member: Mapping[str, Any]) -> str:
    return str(member["method"]["action"]) if member.get("method") else "build"


def plan_verdict(plan: Mapping[str, Any]) -> str:
    told = {"return": "returned", "build": "built"}
    actions = [_action(member) for member in plan_members(plan)]
    return f"would be {' and '.join(word for action, word in told.items() if action in actions)}"


def _way(method: dict[str, Any]) -> str:
    """Names the method, and the reason why parked replicas do not come back as they are."""
    rejected = "".join(f"; {name} cannot return as it is: {why}" for name, why in method["rejected"].items())
    return f"{method['reason']}{rejected}"


def _volume(volume: dict[str, Any], method: dict[str, Any] | None) -> str:
    rate = volume["initialization_rate_mib_per_s"]
    hydration = "hydrated on demand" if rate is None else f"hydrated at {rate} MiB/s"
    if method is not None and method["action"] == "return":
        hydration = "its own, warm"
    return (
        f"{volume['size_gib']} GiB {volume['volume_type']}, {volume['iops']} IOPS, "
        f"{volume['throughput_mib_per_s']} MiB/s, {hydration}"
    )


def _snapshots(price: dict[str, Any]) -> str:
    hourly = price["snapshots_hourly"]
    costs = "an unknown price" if hourly is None else f"${hourly:.4f} an hour"
    return f"at most {price['snapshots_gib']:g} GiB stay for the next copy to be incremental, {costs}"


def _price(price: dict[str, Any]) -> str:
    if price["hourly"] is None:
        return "; ".join(dict.fromkeys(price.get("unknown") or ["unknown"]))
    once = "an unknown price" if price["once"] is None else f"${price['once']:.4f}"
    return f"${price['hourly']:.4f} an hour, {once} once; ${price['per_month_if_kept']:.2f} a month if it were kept"
