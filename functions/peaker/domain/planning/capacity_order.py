"""Which instance types capacity is asked for, in which order, and why one of the settings is left out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from peaker.domain.document.plan import Check, PlannedType, Price
from peaker.domain.prices.price_table import PriceTable, total, usd
from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.inventory import InstancePromise
from peaker_contract.cluster import ClusterSettings

Promises = Mapping[str, InstancePromise | Unknown]


def capacity_order(
    settings: ClusterSettings,
    promises: Promises,
    prices: PriceTable,
    price: Price,
    replicas: int,
    parked: Reading,
    dearer_than: Callable[[str], Reading],
) -> tuple[PlannedType, ...]:
    """The settings' types. The first is judged by the plan's refusals; another is left out for a reason of its own.

    A replica with less memory than its peers would be slow where they serve from memory, and one of another
    architecture cannot boot the image. `replicas` are the peak replicas there would be, all at the dearest price:
    the budget holds at every moment (I12). `dearer_than` returns the USD per hour that running peak replicas cost above
    the price of a type. An unknown type is not taken (I4).
    """
    first = settings.instance_type
    types = [PlannedType(instance_type=first, instance_hourly=usd(prices.instance_hour(first), 6))]
    for kind in settings.fallback_instance_types:
        hourly = usd(prices.instance_hour(kind), 6)
        why = _unlike(promises.get(first), promises.get(kind), first, kind) or _over_budget(
            settings, price.with_instance(hourly, kind), replicas, parked, dearer_than(kind)
        )
        types.append(PlannedType(instance_type=kind, instance_hourly=hourly, why_not=why))
    return tuple(types)


def types_in_order(types: tuple[PlannedType, ...]) -> Check:
    """The types that are asked for, one after the other, and those that are left out."""
    taken = [one for one in types if one.why_not is None]
    left = [one for one in types if one.why_not is not None]
    detail = ", then ".join(f"{one.instance_type} ({_price(one)})" for one in taken)
    name, numbers = "instance types", {"taken": len(taken), "left_out": len(left)}
    if not left:
        return Check(name=name, verdict="pass", detail=detail, numbers=dict(numbers))
    reasons = "; ".join(f"{one.instance_type} is left out: {one.why_not}" for one in left)
    return Check(
        name=name,
        verdict="warn",
        detail=f"{detail}; {reasons}",
        remedy="change fallback_instance_types, or limits.max_hourly_cost_usd where the budget is the reason",
        numbers=dict(numbers),
    )


def _price(one: PlannedType) -> str:
    return "unknown price" if one.instance_hourly is None else f"${one.instance_hourly:g}/h"


def _unlike(
    usual: InstancePromise | Unknown | None, other: InstancePromise | Unknown | None, first: str, kind: str
) -> str | None:
    for name, promise in ((first, usual), (kind, other)):
        if not isinstance(promise, InstancePromise):
            return promise.why if isinstance(promise, Unknown) else f"EC2 was not asked what {name} is"
    assert isinstance(usual, InstancePromise)
    assert isinstance(other, InstancePromise)
    if not set(usual.architectures) & set(other.architectures):
        return f"it is {_words(other.architectures)}, {first} is {_words(usual.architectures)}"
    if usual.memory_mib is None or other.memory_mib is None:
        return f"EC2 names no memory of {first if usual.memory_mib is None else kind}"
    if other.memory_mib < usual.memory_mib:
        return f"it has {other.memory_mib:,.0f} MiB of memory, {first} has {usual.memory_mib:,.0f}"
    return None


def _words(architectures: tuple[str, ...]) -> str:
    return " and ".join(architectures) or "of an architecture that EC2 does not name"


def _over_budget(
    settings: ClusterSettings, price: Price, replicas: int, parked: Reading, dearer: Reading
) -> str | None:
    limit = settings.limits.max_hourly_cost_usd
    if limit is None:
        return None
    also = total((parked, dearer))
    if price.hourly is None or price.snapshots_hourly is None or isinstance(also, Unknown):
        return f"its price is unknown, and max_hourly_cost_usd {limit:g} cannot be checked"
    sum_usd = price.hourly * replicas + also.value + price.snapshots_hourly
    if sum_usd <= limit:
        return None
    beside = f" and ${also.value:.3f}/h for dearer types and parked volumes" if also.value else ""
    return (
        f"{replicas} peak replicas at ${price.hourly:.3f}/h{beside} are ${sum_usd:.2f}/h, "
        f"above max_hourly_cost_usd {limit:g}"
    )
