"""What the methods take that restore a snapshot and read: all, what is used, the hot set, at a paid rate. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from peaker.domain.limits.account_limits import LEAST_RATE
from peaker.domain.planning.methods.rates import RatedBuild, built_with, cheapest_rates
from peaker.domain.planning.methods.situation import (
    GIB,
    DataVolume,
    MethodEstimate,
    MethodName,
    Situation,
    estimate,
)

_DONOR = "one snapshot of its volumes; its page list is written first"
_SOURCE = "sends the log from the snapshot on"


def full_read(situation: Situation) -> MethodEstimate:
    """The whole of every volume, what no file uses too."""
    whole = tuple(replace(one, used_bytes=one.size_gib * GIB, hot_bytes=None) for one in situation.volumes)
    frame = situation.frame.before_database()
    build = _unpaid(replace(situation, volumes=whole, serve_when="all", frame=frame))
    return _read(MethodName.FULL_READ, build, situation, basis=f"{_gb(whole, 'all')} as it lies")


def used_blocks(situation: Situation) -> MethodEstimate:
    """All that files use, at the default rate."""
    build = _unpaid(replace(situation, serve_when="all"))
    why = None
    if situation.serve_when == "hot":
        why = "prewarm.serve_when is hot: a run waits for the hot set alone"
    return _read(
        MethodName.USED_BLOCKS, build, situation, why, f"{_gb(situation.volumes, 'all')} that files use"
    )


def hot_first(situation: Situation) -> MethodEstimate:
    """The blocks of the donor's buffer pool; it serves then, and the rest follows beside the database."""
    known = all(one.hot_bytes is not None for one in situation.volumes)
    if situation.serve_when == "all":
        why = "prewarm.serve_when is all: a run waits for all that is used"
        if not known:
            return estimate(MethodName.HOT_FIRST, why_not=f"{why}; how large the hot set is was not measured")
    else:
        why = None
    # By the settings' own choice the frame is one of the hot set already.
    frame = situation.frame if situation.serve_when == "hot" else situation.frame.before_database()
    build = _unpaid(replace(situation, serve_when="hot", frame=frame))
    amount = _gb(situation.volumes, "hot") if known else f"at most {_gb(situation.volumes, 'all')}"
    basis = f"{amount} of hot blocks; the rest follows while it serves"
    return _read(MethodName.HOT_FIRST, build, situation, why, basis)


def provisioned_rate(situation: Situation) -> MethodEstimate:
    """The same as the settings wait for, at the cheapest initialization rates that are in time."""
    name = MethodName.PROVISIONED_RATE
    if situation.local_zones:
        return estimate(name, why_not="EBS has no initialization rate in local and Wavelength zones")
    if situation.rate_ceiling_mib_per_s is None:
        return estimate(
            name,
            why_not="initialization_rate_mib_per_s is not set: a rate is paid for only up to what it allows",
        )
    build = cheapest_rates(situation)
    if build is None:
        quota = situation.rate_quota_mib_per_s
        return estimate(
            name,
            why_not=f"the region's quota is {quota:g} MiB/s for each replica, the least rate is {LEAST_RATE}",
        )
    rates = dict(zip((one.name for one in situation.volumes), build.rates, strict=True))
    shown = ", ".join(f"{key} {_rate(rate)}" for key, rate in rates.items())
    found = _read(name, build, situation, basis=f"{shown} MiB/s; at most {situation.rate_ceiling_mib_per_s}")
    return found.model_copy(update={"rates_mib_per_s": rates})


def at_the_settings_rate(situation: Situation) -> MethodEstimate:
    """What the settings ask for: their rate on every volume, whatever it costs; None where they name none."""
    rate = situation.rate_ceiling_mib_per_s
    build = built_with(situation, tuple(rate for _ in situation.volumes))
    found = _read(
        MethodName.PROVISIONED_RATE,
        build,
        situation,
        basis=f"{_rate(rate)} MiB/s for each volume, by the settings",
    )
    return found.model_copy(
        update={"rates_mib_per_s": dict.fromkeys((one.name for one in situation.volumes), rate)}
    )


def _unpaid(situation: Situation) -> RatedBuild:
    return built_with(situation, tuple(None for _ in situation.volumes))


def _read(
    name: MethodName, build: RatedBuild, situation: Situation, why_not: str | None = None, basis: str = ""
) -> MethodEstimate:
    known = math.isfinite(build.p90_seconds) and bool(situation.volumes)
    return estimate(
        name,
        why_not=why_not if known else "no replica shows how large the volumes are",
        p50=build.p50_seconds if known else None,
        p90=build.p90_seconds if known else None,
        warm=build.warm_seconds if known else None,
        warm_p90=build.warm_p90_seconds if known else None,
        usd=build.usd,
        basis=basis,
        on_donor=_DONOR,
        on_source=_SOURCE,
        rates=dict.fromkeys((one.name for one in situation.volumes), None),
    )


def _gb(volumes: tuple[DataVolume, ...], which: Literal["all", "hot"]) -> str:
    amounts = [(one.hot_bytes or 0.0) if which == "hot" else one.used_bytes for one in volumes]
    return f"{sum(amounts) / 1e9:.1f} GB"


def _rate(rate: int | None) -> str:
    return "default" if rate is None else str(rate)
