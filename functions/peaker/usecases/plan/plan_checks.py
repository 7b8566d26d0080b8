"""The plan's checks with numbers. Pure; doctor has those that ask the account and the network."""

from __future__ import annotations

from peaker.domain.document.plan import Check, ScaleOutPlan
from peaker.domain.planning.capacity_order import types_in_order
from peaker.domain.planning.checks.account_quotas import Launches, ebs_storage, vcpus
from peaker.domain.planning.checks.bandwidth import SizedVolume, iops_per_gib, look_at_bandwidth
from peaker.domain.planning.checks.headroom import (
    binary_logs,
    buffer_pool,
    initialization_rate,
    zones_in_order,
)
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.runs.past_runs import PastSteps
from peaker.usecases.plan.plan_facts import PlanFacts


def plan_checks(facts: PlanFacts, plan: ScaleOutPlan) -> tuple[Check, ...]:
    """The checks of a plan, in the order in which they are shown. Nothing is asked of the hosts."""
    settings, fleet, account = facts.settings, facts.fleet, facts.account
    volumes = [
        SizedVolume(one.name, one.volume_type, one.size_gib, one.iops, one.throughput_mib_per_s)
        for one in plan.volumes
    ]
    found = look_at_bandwidth(volumes, settings.instance_type, facts.promise, facts.prices) if volumes else []
    if plan.builds and volumes:
        found.append(iops_per_gib(volumes))
    found.append(buffer_pool(_pool(facts.past), _memory(facts.promise), settings.instance_type))
    found.append(vcpus(_launches(fleet, plan), account))
    if plan.builds and volumes:
        found.append(ebs_storage(volumes, plan.builds, account))
    # A return was judged by its own parking; all others need the log from the donor's snapshot on.
    copied = [one for one in plan.members if one.method is None or one.method.action != "return"]
    if copied:
        lead = copied[0].lead_time
        found.append(binary_logs(None if lead is None else lead.p90_seconds, facts.binary_logs_kept))
    built = [one for one in copied if one.method is None or one.method.action == "build"]
    if built:
        rates = [one.initialization_rate_mib_per_s or 0 for member in built for one in member.volumes]
        found.append(
            initialization_rate(float(sum(rates)), facts.region, settings.initialization_rate_mib_per_s)
        )
        found.append(zones_in_order(built[0].zones, fleet.by_zone))
        found += [types_in_order(plan.types)] if len(plan.types) > 1 else []
    return tuple(found)


def _launches(fleet: FleetState, plan: ScaleOutPlan) -> Launches:
    """What the members launch and start; a parked replica's instance counts only once it runs."""
    returns = [one.method.replica for one in plan.members if one.method and one.method.comes_back]
    parked = [fleet.replica(one) for one in returns if one is not None]
    types = tuple(one.instance.instance_type for one in parked if one is not None)
    return Launches(plan.launch_order, plan.builds, types)


def _pool(past: PastSteps) -> Reading:
    if not past.pool_bytes:
        return Unknown("no run has told yet how much a donor holds in its buffer pool")
    return Known(past.pool_bytes[-1])


def _memory(promise: InstancePromise | Unknown) -> Reading:
    if isinstance(promise, Unknown):
        return promise
    return (
        Unknown("EC2 names no memory of the type")
        if promise.memory_mib is None
        else Known(promise.memory_mib)
    )
