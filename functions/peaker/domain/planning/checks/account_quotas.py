"""Checks the account's quotas for a batch: vCPUs at RunInstances, storage and IOPS at CreateVolume. Pure.

AWS refuses volumes only after the snapshots, so both are looked at before. An unknown refuses nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from peaker.domain.document.plan import Check, Number, Verdict
from peaker.domain.limits.account_limits import (
    GIB_PER_TIB,
    IOPS,
    STORAGE,
    AccountUse,
    Quota,
    QuotaUse,
    vcpu_quota,
)
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.data_volumes import PlannedVolume

VCPUS, EBS_STORAGE = "vCPUs", "EBS storage"
# The rest is for others who start something in the account.
SHARE_WARN = 0.8


@dataclass(frozen=True)
class Launches:
    """Instances that begin to run.

    `builds` are of the first of `types` that the account has room for; `returns` are the types of parked replicas that
    come back.
    """

    types: tuple[str, ...]
    builds: int
    returns: tuple[str, ...] = ()

    @property
    def replicas(self) -> int:
        return self.builds + len(self.returns)


def vcpus(wanted: Launches, account: AccountUse) -> Check:
    """The first type of the capacity order that has room, launch by launch, as a run asks for it.

    The numbers are of the first type's quota; `fit` is how many replicas begin to run.
    """
    first = wanted.types[0]
    why = next(filter(None, (_why_unknown(kind, account) for kind in (first, *wanted.returns))), None)
    quota = vcpu_quota(first)
    if why is not None or quota is None:
        detail = why.why if why is not None else f"Peaker knows no quota of {first}"
        return Check(name=VCPUS, verdict="unknown", detail=detail, remedy="look in Service Quotas")
    returned, built = _begun(wanted, account)
    fit = len(returned) + len(built)
    demand = _Demand(quota, account.of(quota), _demanded(wanted, quota, account), wanted.replicas)
    detail = demand.detail
    numbers = {**demand.numbers, "replicas": wanted.replicas, "fit": fit}
    if fit < wanted.replicas:
        return _not_all(wanted, account, demand, detail, numbers)
    others = Counter(kind for kind in built if kind != first)
    if others:
        named = ", ".join(f"{count} as {kind} ({_named(kind)})" for kind, count in others.items())
        detail = f"{detail}: not all fit as {first}; {named} would"
        return Check(name=VCPUS, verdict="warn", detail=detail, remedy=demand.remedy, numbers=numbers)
    return _within(VCPUS, detail, demand, numbers)


def _begun(wanted: Launches, account: AccountUse) -> tuple[list[str], list[str]]:
    """The types of the parked ones and of the builds that would run, each as the first known type that has room."""
    room = _Room(account)
    known = [kind for kind in wanted.types if _why_unknown(kind, account) is None]
    returned = [kind for kind in wanted.returns if room.takes(kind)]
    built = [next((kind for kind in known if room.takes(kind)), None) for _ in range(wanted.builds)]
    return returned, [kind for kind in built if kind is not None]


def _not_all(
    wanted: Launches, account: AccountUse, demand: _Demand, detail: str, numbers: dict[str, Number]
) -> Check:
    """Refuses, unless the room of a later type is unknown."""
    detail = f"{detail}: {numbers['fit']} of {wanted.replicas} replicas would fit"
    unknown = [one.why for one in (_why_unknown(kind, account) for kind in wanted.types) if one is not None]
    if unknown:
        detail = f"{detail}, and of a later type nobody knows ({'; '.join(unknown)})"
    verdict: Verdict = "unknown" if unknown else "refuse"
    return Check(name=VCPUS, verdict=verdict, detail=detail, remedy=demand.remedy, numbers=numbers)


def ebs_storage(volumes: Sequence[PlannedVolume], replicas: int, account: AccountUse) -> Check:
    """All `volumes` of so many replicas that are built. `fit` is how many of them the account has room for."""
    demands = [one for kind in sorted({one.volume_type for one in volumes}) for one in
               _of_type(kind, [one for one in volumes if one.volume_type == kind], replicas, account)]  # fmt: skip
    known = [one for one in demands if one.why_unknown is None]
    unknown = [one.why_unknown.why for one in demands if one.why_unknown is not None]
    fit = min((one.fit for one in known), default=replicas)
    numbers: dict[str, Number] = {"replicas": replicas, "fit": fit}
    for one in known:
        numbers |= {f"{one.quota.code}_{name}": value for name, value in one.numbers.items()}
    detail = "; ".join([one.detail for one in known] + unknown)
    if fit < replicas:
        short = [one for one in known if one.fit < replicas]
        detail = f"{detail}: {fit} of {replicas} replicas would fit"
        remedy = "; ".join(one.remedy for one in short)
        return Check(name=EBS_STORAGE, verdict="refuse", detail=detail, remedy=remedy, numbers=numbers)
    if unknown or not known:
        detail = detail or "no volume's size is known"
        return Check(name=EBS_STORAGE, verdict="unknown", detail=detail, numbers=numbers)
    return _within(EBS_STORAGE, detail, max(known, key=lambda one: one.share), numbers)


@dataclass(frozen=True)
class _Demand:
    """An amount of a quota on top of its use, for a number of replicas."""

    quota: Quota
    use: QuotaUse
    amount: float
    replicas: int

    @property
    def why_unknown(self) -> Unknown | None:
        return next((one for one in (self.use.value, self.use.in_use) if isinstance(one, Unknown)), None)

    @property
    def after(self) -> float:
        return _value(self.use.in_use) + self.amount

    @property
    def share(self) -> float:
        limit = _value(self.use.value)
        return self.after / limit if limit > 0 else math.inf if self.after > 0 else 0.0

    @property
    def fit(self) -> int:
        """How many of the replicas have room; a rounding error of the sums keeps none out."""
        left = _value(self.use.value) - _value(self.use.in_use)
        each = self.amount / self.replicas if self.replicas else 0.0
        return self.replicas if each <= 0 else max(0, min(self.replicas, math.floor(left / each + 1e-9)))

    @property
    def numbers(self) -> dict[str, Number]:
        return {
            "in_use": round(_value(self.use.in_use), 4),
            "wanted": round(self.amount, 4),
            "quota": _value(self.use.value),
        }

    @property
    def detail(self) -> str:
        return (
            f"{self.quota.name}: {_value(self.use.in_use):.4g} in use, "
            f"{self.amount:.4g} more needed, the quota is {_value(self.use.value):g}"
        )

    @property
    def remedy(self) -> str:
        enough = math.ceil(self.after / SHARE_WARN)
        return (
            f"ask AWS for more {self.quota.name} ({self.quota.code}): aws service-quotas "
            f"request-service-quota-increase --service-code {self.quota.service} --quota-code {self.quota.code} "
            f"--desired-value {enough}"
        )


@dataclass
class _Room:
    """The rest of each quota while launches take from it."""

    account: AccountUse
    taken: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.places = Counter(self.account.reserved)

    def takes(self, kind: str) -> bool:
        """Takes the room of one more where it fits. An empty reserved place of the type is in use already."""
        if self.places[kind] > 0:
            self.places[kind] -= 1
            return True
        quota, each = vcpu_quota(kind), int(_value(self.account.vcpus_of(kind)))
        assert quota is not None
        use = self.account.of(quota)
        used = _value(use.in_use) + self.taken[quota.code]
        if used + each > _value(use.value):
            return False
        self.taken[quota.code] += each
        return True


def _demanded(wanted: Launches, quota: Quota, account: AccountUse) -> float:
    """vCPUs that all launches take of that quota, the builds as the first type, beyond reserved places."""
    kinds = Counter(wanted.returns)
    kinds[wanted.types[0]] += wanted.builds
    return sum(
        max(0, count - account.reserved.get(kind, 0)) * _value(account.vcpus_of(kind))
        for kind, count in kinds.items()
        if vcpu_quota(kind) == quota
    )


def _of_type(
    volume_type: str, volumes: Sequence[PlannedVolume], replicas: int, account: AccountUse
) -> list[_Demand]:
    amounts: Mapping[Quota | None, float] = {
        STORAGE.get(volume_type): sum(one.size_gib for one in volumes) / GIB_PER_TIB,
        IOPS.get(volume_type): float(sum(one.iops for one in volumes)),
    }
    return [
        _Demand(quota, account.of(quota), each * replicas, replicas)
        for quota, each in amounts.items()
        if quota is not None
    ]


def _within(name: str, detail: str, widest: _Demand, numbers: Mapping[str, Number]) -> Check:
    if widest.share <= SHARE_WARN:
        return Check(name=name, verdict="pass", detail=detail, numbers=dict(numbers))
    detail = f"{detail}: {widest.share:.0%} of {widest.quota.name} after it"
    return Check(name=name, verdict="warn", detail=detail, remedy=widest.remedy, numbers=dict(numbers))


def _why_unknown(kind: str, account: AccountUse) -> Unknown | None:
    quota = vcpu_quota(kind)
    if quota is None:
        return Unknown(f"Peaker knows no quota of {kind}")
    use = account.of(quota)
    readings: tuple[Reading, ...] = (account.vcpus_of(kind), use.value, use.in_use)
    return next((one for one in readings if isinstance(one, Unknown)), None)


def _named(kind: str) -> str:
    quota = vcpu_quota(kind)
    return "no quota" if quota is None else quota.code


def _value(reading: Reading) -> float:
    return reading.value if isinstance(reading, Known) else 0.0
