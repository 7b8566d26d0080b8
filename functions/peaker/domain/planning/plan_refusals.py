"""The rules that a plan would break, with their numbers; and the two limits that a person's start may pass. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from peaker.domain.document.plan import PlannedMember, Price, Refusal, ScaleOutPlan
from peaker.domain.instants import in_words
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.data_volumes import DataVolume, PlannedVolume
from peaker.domain.replicas.donor import DonorChoice
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.domain.runs.batch import MOST_WANTED
from peaker.domain.runs.ledger import LeaseRow
from peaker.domain.storage.set_manifest import unequal_members
from peaker_contract.cluster import ClusterSettings

# The two limits that a person's start may pass. An unknown and an impossibility stay refused.
LIMITS = frozenset({"ceiling", "budget"})
# SNS takes 100 characters.
_LONGEST_SUBJECT = 100


def running_operation(lease: LeaseRow | None) -> Refusal | None:
    """Refused while another run holds the cluster's lease (I6)."""
    if lease is None:
        return None
    return Refusal(
        code="operation_running",
        reason=f"{lease.operation} {lease.run_id} holds the lease until {in_words(lease.held_until)}; "
        "one operation per cluster at a time (I6)",
    )


def above_ceiling(fleet: FleetState, settings: ClusterSettings, count: int) -> Refusal | None:
    """Refused where so many more would exceed max_replicas (I12)."""
    counted = fleet.under_ceiling
    if len(counted) + count <= settings.max_replicas:
        return None
    serving = sum(one.is_serving for one in counted)
    building = sum(one.is_building and not one.is_serving for one in counted)
    others = [one for one in counted if not one.is_serving and not one.is_building]
    standing = "".join(f" + {one.instance_id} ({_why_counted(one)})" for one in others)
    return Refusal(
        code="ceiling",
        reason=f"{serving} serving + {building} building{standing} + {count} wanted exceeds max_replicas "
        f"{settings.max_replicas}, the ceiling (I12)",
    )


def above_batch(count: int) -> Refusal | None:
    """Refused where some would begin only when others have ended, and the plan would say otherwise."""
    if count <= MOST_WANTED:
        return None
    return Refusal(
        code="batch",
        reason=f"{count} wanted, and one run brings {MOST_WANTED} at most side by side: ask for {MOST_WANTED}, and for "
        "the rest when that run has ended",
    )


def _why_counted(replica: Replica) -> str:
    row = replica.ledger_row
    return replica.health_text if row is None or not replica.is_standing else row.state.value


def source_unknown(fleet: FleetState) -> Refusal | None:
    """Refused where the source that the new replica would follow is unknown (I4)."""
    if not isinstance(fleet.source, Unknown):
        return None
    return Refusal(
        code="source_unknown",
        reason=f"the source is unknown: {fleet.source.why}; what is unknown is held (I4)",
    )


def no_donor(choice: DonorChoice) -> Refusal | None:
    """Refused where no replica can be snapshotted; the source never is (I2)."""
    if choice.donor is not None:
        return None
    return Refusal(
        code="no_donor", reason=f"no replica can be snapshotted: {choice.text}; the source never is (I2)"
    )


def unequal_layout(volumes: Sequence[PlannedVolume]) -> Refusal | None:
    """Refused where the volumes of one array or group differ where they must be alike."""
    reasons = unequal_members(volumes, {one.name: one.size_gib for one in volumes})
    return Refusal(code="layout", reason="; ".join(reasons)) if reasons else None


def over_budget(
    fleet: FleetState,
    settings: ClusterSettings,
    members: Sequence[PlannedMember],
    parked: Reading,
    dearer: Reading,
) -> Refusal | None:
    """Without a budget no price is needed; with one, an unknown price refuses (I4).

    `dearer` is the price of peak replicas of other types above that of the usual type, USD per hour.
    """
    limit = settings.limits.max_hourly_cost_usd
    if limit is None:
        return None
    found = peak_hourly(fleet, members, parked, dearer)
    if isinstance(found, Unknown):
        reason = f"{found.why}; so the budget, max_hourly_cost_usd {limit:g}, cannot be checked (I4)"
        return Refusal(code="price_unknown", reason=reason)
    if found.value <= limit:
        return None
    price = max((one.price for one in members), key=_dearest)
    reason = (
        f"{len(fleet.peak)} peak replicas + {len(members)} wanted at ${price.hourly or 0.0:.3f}/h"
        f"{_and(dearer, 'for dearer types')}{_and(parked, 'of parked volumes')}"
        f"{_and(Known(price.snapshots_hourly or 0.0), 'of kept snapshots')} are "
        f"${found.value:.2f}/h, above the budget, max_hourly_cost_usd {limit:g} (I12)"
    )
    return Refusal(code="budget", reason=reason)


def peak_hourly(
    fleet: FleetState, members: Sequence[PlannedMember], parked: Reading, dearer: Reading
) -> Reading:
    """The sum that the budget counts once all members serve, USD per hour. `parked`, `dearer`: see `over_budget`."""
    price = max((one.price for one in members), key=_dearest)
    unknown = [one.why for one in (parked, dearer) if isinstance(one, Unknown)]
    if price.hourly is None or price.snapshots_hourly is None or unknown:
        return Unknown([*price.unknown[:1], *unknown][0])
    also = sum(one.value for one in (parked, dearer) if isinstance(one, Known))
    return Known(price.hourly * (len(fleet.peak) + len(members)) + also + price.snapshots_hourly)


def _dearest(price: Price) -> float:
    """An unknown price may be the dearest (I4)."""
    return math.inf if price.hourly is None else price.hourly


def _and(reading: Reading, words: str) -> str:
    return f" and ${reading.value:.3f}/h {words}" if isinstance(reading, Known) and reading.value else ""


def taken_devices(mapped: Sequence[str], volumes: Sequence[DataVolume]) -> list[str]:
    """Names the volumes that no instance of the image could attach: it maps their device name, as sd or as xvd."""
    names = {_device(name): name for name in mapped}
    return [
        f"maps {names[_device(one.device)]}, where {one.name} is to be attached ({one.device}): give {one.name} "
        "another `device`"
        for one in volumes
        if _device(one.device) in names
    ]


def _device(name: str) -> str:
    return name.removeprefix("/dev/").replace("xvd", "sd", 1)


def passing_limits(plan: ScaleOutPlan, reason: str) -> ScaleOutPlan:
    """The plan with `lifted` limits in place of the refusals that a person's start passes, and the person's reason."""
    lifted = tuple(
        f"{one.code} ({one.reason}), because a person's start says: {reason}"
        for one in plan.refusals
        if one.code in LIMITS
    )
    left = tuple(one for one in plan.refusals if one.code not in LIMITS)
    return plan.model_copy(update={"refusals": left, "lifted": lifted})


def refused_by_limits_alone(plan: ScaleOutPlan) -> bool:
    """Whether the same start with above_limits would be carried out."""
    return bool(plan.refusals) and all(one.code in LIMITS for one in plan.refusals)


def above_limits_page(plan: ScaleOutPlan, missing: int, environment: str) -> tuple[str, str, str]:
    """The page about a start that only a limit refused: subject, text, and the input by which a person starts it."""
    start = json.dumps({"cluster": plan.cluster, "count": missing, "above_limits": True, "reason": "say why"})
    hourly = plan.price.hourly
    cost = "an unknown price" if hourly is None else f"${hourly:.4f} an hour"
    lines = [
        f"{plan.cluster} is short of replicas, and an automatic scale_out was refused: {plan.refusal_text}",
        "",
        f"{missing} missing; each costs {cost}.",
        f"To build them all the same, start scale_out of environment {environment} with this input:",
        "",
        start,
    ]
    subject = f"{plan.cluster} ({environment}): scale_out is refused by a limit"
    return subject[:_LONGEST_SUBJECT], "\n".join(lines), start
