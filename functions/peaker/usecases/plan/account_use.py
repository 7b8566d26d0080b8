"""Asks AWS for the account's quotas and their use, for a plan and for `peaker doctor`.

Asked of EC2's lists, not of CloudWatch's usage metrics: those come minutes late, when a peak that many clusters share
is over the quota already, and there are none of EBS' storage. An answer that AWS does not give is unknown, and refuses
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from peaker.domain.limits.account_limits import (
    GIB_PER_TIB,
    INITIALIZATION_RATE_QUOTA,
    IOPS,
    STORAGE,
    AccountUse,
    Quota,
    QuotaUse,
    RegionRate,
    region_rate,
    vcpu_quota,
    vcpus_in_use,
    volume_quotas,
)
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.inventory import CapacityReservation, Instance, Volume
from peaker.ports.bundle import Ports
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import PeakerError

FoundT = TypeVar("FoundT")


class Ask(Protocol):
    """AWS's answer, or Unknown; `permission` names the call in IAM's words."""

    def __call__(self, permission: str, read: Callable[[], FoundT]) -> FoundT | Unknown: ...


@dataclass(frozen=True)
class Sources:
    """The calls that ask for the account's use."""

    instances: Callable[[], Sequence[Instance] | Unknown]
    default_vcpus: Callable[[Sequence[str]], Mapping[str, int]]
    places: Callable[[], Sequence[CapacityReservation]]
    volumes_of_type: Callable[[str], Sequence[Volume] | Unknown]
    quota: Callable[[Quota], float | None]


def account_use(ports: Ports, settings: ClusterSettings, fleet: FleetState) -> AccountUse:
    sources = Sources(
        ports.compute.on_demand_instances,
        ports.compute.default_vcpus,
        ports.compute.capacity_reservations,
        ports.storage.volumes_of_type,
        ports.account_quotas.value,
    )
    types = [one.instance.instance_type for one in fleet.replicas if one.is_parked]
    return ask_account(sources, settings, types, _or_unknown)


def initialization_rate_of_region(ports: Ports) -> RegionRate:
    """As Service Quotas has it; AWS's default where Service Quotas does not answer."""
    try:
        value = ports.account_quotas.value(INITIALIZATION_RATE_QUOTA)
    except PeakerError as error:
        return region_rate(Unknown(f"the account's own is unknown: {error}"))
    return region_rate(Unknown("Service Quotas does not have it") if value is None else Known(value))


def ask_account(sources: Sources, settings: ClusterSettings, types: Iterable[str], ask: Ask) -> AccountUse:
    """`types` are those of parked replicas, which may come back; the settings' own are asked for anyway."""
    wanted = {*settings.instance_types, *types}
    instances = ask("ec2:DescribeInstances", sources.instances)
    places = ask("ec2:DescribeCapacityReservations", sources.places)
    running = [] if isinstance(instances, Unknown) else [one.instance_type for one in instances]
    empty = [] if isinstance(places, Unknown) else [one.instance_type for one in _empty(places)]
    every = sorted({*wanted, *running, *empty})
    vcpus = ask("ec2:DescribeInstanceTypes", lambda: sources.default_vcpus(every))
    kinds = sorted({one.volume_type for one in settings.volumes})
    uses: dict[str, QuotaUse] = {}
    for quota in dict.fromkeys(one for one in map(vcpu_quota, sorted(wanted)) if one is not None):
        unknown = next((one for one in (instances, places) if isinstance(one, Unknown)), None)
        used = unknown or vcpus_in_use(quota, [*running, *empty], vcpus)
        uses[quota.code] = QuotaUse(_quota(sources, quota, ask), used)
    for kind in kinds:
        volumes = ask("ec2:DescribeVolumes", lambda kind=kind: sources.volumes_of_type(kind))  # type: ignore[misc]
        for quota in volume_quotas(kind):
            uses[quota.code] = QuotaUse(_quota(sources, quota, ask), _volumes_in_use(quota, kind, volumes))
    reserved = Counter() if isinstance(places, Unknown) else _reserved_for(settings, places)
    return AccountUse(uses, vcpus, reserved)


def _quota(sources: Sources, quota: Quota, ask: Ask) -> Reading:
    value = ask("servicequotas:GetServiceQuota", lambda: sources.quota(quota))
    if isinstance(value, Unknown):
        return value
    return Unknown(f"Service Quotas has no {quota.code} ({quota.name})") if value is None else Known(value)


def _volumes_in_use(quota: Quota, kind: str, volumes: Sequence[Volume] | Unknown) -> Reading:
    if isinstance(volumes, Unknown):
        return volumes
    if quota == IOPS.get(kind):
        return Known(float(sum(one.iops or 0 for one in volumes)))
    assert quota == STORAGE[kind]
    return Known(sum(one.size_gib for one in volumes) / GIB_PER_TIB)


def _empty(places: Iterable[CapacityReservation]) -> list[CapacityReservation]:
    """Each as often as it has room: EC2 counts that as if an instance ran there."""
    return [one for one in places for _ in range(one.available)]


def _reserved_for(settings: ClusterSettings, places: Iterable[CapacityReservation]) -> Counter[str]:
    """The empty places that launches of the cluster may take, by type; none for a cluster that names no group.

    EC2 does not list a group's reservations, so each targeted one of a type of the settings counts as the group's.
    """
    if settings.capacity_reservation_group_arn is None:
        return Counter()
    fitting = [
        one for one in _empty(places) if one.is_targeted and one.instance_type in settings.instance_types
    ]
    return Counter(one.instance_type for one in fitting)


def _or_unknown(permission: str, read: Callable[[], FoundT]) -> FoundT | Unknown:
    try:
        return read()
    except PeakerError as error:
        return Unknown(f"{permission}: {error}")
