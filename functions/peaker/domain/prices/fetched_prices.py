"""Prices as the Price List API gave them, what they are worth with age, and which ones hold for a cluster. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from peaker.domain.instants import require_utc
from peaker.domain.prices.price_table import (
    SHIPPED_EBS,
    SHIPPED_SOURCE,
    EbsPrices,
    FetchedPrices,
    PriceTable,
)
from peaker.domain.reading import Unknown
from peaker_contract.cluster import ClusterSettings
from peaker_contract.load_settings import INSTANCE_HOURLY_USD, SHIPPED_REGION

REFRESHED_AFTER = timedelta(days=7)
# Older ones are still used, and it is said: three refreshes have failed.
OLD_AFTER = timedelta(weeks=3)
# After a refusal nobody but the schedule asks again so soon.
RETRIED_AFTER = timedelta(hours=1)
_REASON_CHARACTERS = 300
# EC2's word for what has no price of a licence on top (ec2:DescribeImages, PlatformDetails); what the Price List is
# asked for, and what the shipped table holds.
LINUX = "Linux/UNIX"
_REMEDY = "instance_hourly_usd in the settings gives one"


def kept(region: str, before: FetchedPrices | Unknown, why: str, now: datetime) -> FetchedPrices:
    """The prices that stay after a try that failed, with the reason."""
    stays = (
        before
        if isinstance(before, FetchedPrices) and before.region == region
        else FetchedPrices(region=region)
    )
    return stays.model_copy(update={"failed_at": require_utc(now), "failure": why[:_REASON_CHARACTERS]})


def why_due(prices: FetchedPrices | Unknown, region: str, wanted: Iterable[str], now: datetime) -> str | None:
    """Why the schedule should ask now; None while what is there is complete and younger than a week."""
    if isinstance(prices, Unknown) or prices.region != region or prices.fetched_at is None:
        return "no prices were fetched yet"
    missing = sorted(set(wanted) - set(prices.instance_hourly_usd))
    if missing:
        return f"{', '.join(missing)} was never asked for"
    age = now - prices.fetched_at
    return f"the prices are {_age(age)} old" if age >= REFRESHED_AFTER else None


def is_first_need(prices: FetchedPrices | Unknown, settings: ClusterSettings, now: datetime) -> bool:
    """Whether a plan should ask itself: a price is missing that was never asked for, and no try has just failed."""
    known = price_table(settings, prices, now)
    missing = [kind for kind in settings.instance_types if isinstance(known.instance_hour(kind), Unknown)]
    if not missing and known.ebs.gp3_gib_month is not None:
        return False
    if isinstance(prices, Unknown) or prices.region != settings.region:
        return True
    if prices.failed_at is not None and now - prices.failed_at < RETRIED_AFTER:
        return False
    return prices.fetched_at is None or any(kind not in prices.instance_hourly_usd for kind in missing)


def price_table(
    settings: ClusterSettings,
    prices: FetchedPrices | Unknown,
    now: datetime,
    billed_as: str | Unknown = LINUX,
) -> PriceTable:
    """The prices that hold for a cluster whose image EC2 bills as `billed_as`.

    First what its settings say, then what the Price List API said of its region, and in us-east-1 alone what Peaker
    brings along. The rest is unknown, and so is an instance with a licence: those prices are Linux's.
    """
    local = _local_zones(settings)
    ours = (
        prices
        if isinstance(prices, FetchedPrices) and prices.region == settings.region and not local
        else None
    )
    shipped = settings.region == SHIPPED_REGION and not local
    hourly = dict(INSTANCE_HOURLY_USD) if shipped else {}
    if ours is not None:
        hourly |= {kind: usd for kind, usd in ours.instance_hourly_usd.items() if usd is not None}
        for kind in (kind for kind, usd in ours.instance_hourly_usd.items() if usd is None):
            hourly.pop(kind, None)
    if billed_as != LINUX:
        hourly = {}
    if settings.instance_hourly_usd is not None:
        hourly[settings.instance_type] = settings.instance_hourly_usd
    return PriceTable(
        region=settings.region,
        source=_source(settings, ours, shipped, now),
        why_unknown=_why_unknown(settings, prices, ours, now),
        instance_hourly=hourly,
        ebs=_ebs(settings, ours, shipped),
        why_no_instance=_why_not_linux(settings, billed_as),
    )


def _why_not_linux(settings: ClusterSettings, billed_as: str | Unknown) -> str | None:
    if billed_as == LINUX:
        return None
    why = billed_as.why if isinstance(billed_as, Unknown) else f"{settings.image_id} is billed as {billed_as}"
    return f"{why}, and the prices that Peaker asks for are those of {LINUX}; {_REMEDY}"


def _local_zones(settings: ClusterSettings) -> list[str]:
    """Zones outside the region's own: local and Wavelength zones."""
    return [
        zone for zone in settings.subnets if not re.fullmatch(rf"{re.escape(settings.region)}[a-z]", zone)
    ]


def _ebs(settings: ClusterSettings, ours: FetchedPrices | None, shipped: bool) -> EbsPrices:
    known = SHIPPED_EBS.model_dump() if shipped else {}
    if ours is not None:
        known |= ours.ebs.model_dump(exclude_none=True)
    rate = settings.initialization_rate_mib_per_s
    if settings.initialization_usd_per_gib is not None and rate:
        known["initialization_per_gib_per_mib_per_s"] = settings.initialization_usd_per_gib / rate
    return EbsPrices(**known)


def _source(settings: ClusterSettings, ours: FetchedPrices | None, shipped: bool, now: datetime) -> str:
    """Where the prices of a plan come from, the instance's first."""
    sources = ["instance_hourly_usd in the settings"] if settings.instance_hourly_usd is not None else []
    if ours is not None and ours.fetched_at is not None:
        sources.append(_fetched(ours, ours.fetched_at, now))
        asked = ours.instance_hourly_usd.get(settings.instance_type)
        if shipped and asked is None and settings.instance_hourly_usd is None and _ships(settings, ours):
            sources.insert(0, SHIPPED_SOURCE)
        elif (
            shipped and settings.initialization_rate_mib_per_s and settings.initialization_usd_per_gib is None
        ):
            sources.append(f"the initialization rate by {SHIPPED_SOURCE}")
    elif shipped:
        sources.append(SHIPPED_SOURCE)
    return "; ".join(sources) or f"no source of prices for {settings.region}"


def _ships(settings: ClusterSettings, ours: FetchedPrices) -> bool:
    """Whether the shipped table has what the Price List API was not asked for."""
    kind = settings.instance_type
    return kind in INSTANCE_HOURLY_USD and kind not in ours.instance_hourly_usd


def _fetched(ours: FetchedPrices, at: datetime, now: datetime) -> str:
    age = now - at
    text = f"AWS Price List, {ours.region}, of {at:%Y-%m-%d} ({_age(age)} old)"
    if age < OLD_AFTER:
        return text
    why = f": {ours.failure}" if ours.failure else ""
    return f"{text}: OLD, not refreshed for {age.days // 7} weeks{why}"


def _why_unknown(
    settings: ClusterSettings, prices: FetchedPrices | Unknown, ours: FetchedPrices | None, now: datetime
) -> str:
    if local := _local_zones(settings):
        why = f"{', '.join(local)} have prices of their own, which Peaker does not know"
    elif ours is None:
        why = (
            prices.why if isinstance(prices, Unknown) else f"the fetched prices are those of {prices.region}"
        )
    elif ours.failure is not None:
        why = f"the AWS Price List could not be read: {ours.failure}"
    elif ours.fetched_at is None:
        why = "the AWS Price List was not asked yet"
    else:
        why = f"the AWS Price List of {ours.fetched_at:%Y-%m-%d} has none, or several"
    return f"{why}; {_REMEDY}"


def _age(age: timedelta) -> str:
    return f"{age.days} days" if age >= timedelta(days=2) else f"{max(0.0, age.total_seconds()) / 3600:.0f} h"
