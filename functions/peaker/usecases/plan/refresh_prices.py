"""RefreshPrices asks for new prices weekly; a cluster's prices are those that hold for it now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from peaker.domain.decoding import Frozen
from peaker.domain.prices.fetched_prices import LINUX, is_first_need, kept, price_table, why_due
from peaker.domain.prices.price_table import FetchedPrices, PriceTable
from peaker.domain.reading import Unknown
from peaker.ports.bundle import Ports
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import PeakerError, Retryable


class PriceReport(Frozen):
    """The outcome of a look at the prices: asked and stored, asked in vain, or found them good."""

    outcome: str
    reason: str
    instance_types: tuple[str, ...]


def refresh_prices(ports: Ports) -> PriceReport:
    """Ask the Price List API for the types of all clusters when the stored prices are a week old, or lack one.

    A refusal is no failure: the old prices stay, with the reason, and the next look asks again.
    """
    clusters = readable_clusters(ports)
    if not clusters:
        return PriceReport(outcome="nothing_to_do", reason="there is no cluster", instance_types=())
    region, wanted = clusters[0].region, types_of(clusters)
    stored = stored_prices(ports)
    why = why_due(stored, region, wanted, ports.clock.now())
    if why is None:
        return PriceReport(outcome="nothing_to_do", reason="the prices are complete", instance_types=wanted)
    after = ask_for_prices(ports, region, wanted, stored)
    if after.failure is not None:
        return PriceReport(outcome="kept", reason=f"{why}; {after.failure}", instance_types=wanted)
    return PriceReport(outcome="fetched", reason=why, instance_types=wanted)


def readable_clusters(ports: Ports) -> list[ClusterSettings]:
    """Returns the settings of all clusters but those that do not fit this release, or do not answer now."""
    found = []
    for name in ports.clusters.names():
        with suppress(PeakerError):
            found.append(ports.clusters.settings(name))
    return found


def types_of(clusters: Iterable[ClusterSettings]) -> tuple[str, ...]:
    """The instance types of the clusters. One type's slip of the keyboard is asked for too, and has no price."""
    return tuple(sorted({kind for settings in clusters for kind in settings.instance_types}))


def stored_prices(ports: Ports) -> FetchedPrices | Unknown:
    """The stored prices. Raises Retryable errors only: prices that may not be read are unknown."""
    try:
        return ports.stored_prices.read()
    except Retryable:
        raise
    except PeakerError as error:
        return Unknown(f"the stored prices cannot be read: {error}")


def ask_for_prices(
    ports: Ports, region: str, wanted: tuple[str, ...], before: FetchedPrices | Unknown
) -> FetchedPrices:
    """The new prices, or the old ones with the reason; both are stored, for which a refusal is no failure either."""
    now = ports.clock.now()
    try:
        quote = ports.price_list.quote(region, wanted)
        after = FetchedPrices(region=region, fetched_at=now, **dict(quote))
    except PeakerError as error:
        after = kept(region, before, str(error), now)
    try:
        ports.stored_prices.write(after)
    except PeakerError as error:
        return after.model_copy(update={"failure": f"not stored: {error}", "failed_at": now})
    return after


def cluster_prices(ports: Ports, settings: ClusterSettings) -> PriceTable:
    """From the settings, the stored prices and, in us-east-1, the shipped table. Raises Retryable errors only."""
    billed = billed_as(ports.compute.platform, settings)
    return price_table(settings, stored_prices(ports), ports.clock.now(), billed)


def storage_prices(ports: Ports, settings: ClusterSettings) -> PriceTable:
    """The same without instances: EC2 is not asked how the image is billed."""
    return price_table(settings, stored_prices(ports), ports.clock.now())


def prices_for_plan(ports: Ports, settings: ClusterSettings) -> PriceTable:
    """As cluster_prices; a price that was never asked for is asked for at once, so that the first plan has it."""
    stored = stored_prices(ports)
    if is_first_need(stored, settings, ports.clock.now()):
        wanted = types_of([settings, *readable_clusters(ports)])
        stored = ask_for_prices(ports, settings.region, wanted, stored)
    billed = billed_as(ports.compute.platform, settings)
    return price_table(settings, stored, ports.clock.now(), billed)


def billed_as(platform: Callable[[str], str | Unknown], settings: ClusterSettings) -> str | Unknown:
    """EC2's word for the billing of the cluster's image: Linux/UNIX, or with a licence.

    `platform` asks EC2 for that of an image. Raises Retryable.
    """
    if settings.instance_hourly_usd is not None and not settings.fallback_instance_types:
        return LINUX
    try:
        return platform(settings.image_id)
    except Retryable:
        raise
    except PeakerError as error:
        return Unknown(f"what {settings.image_id} is billed as is not known: {error}")
