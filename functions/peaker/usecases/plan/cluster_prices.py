"""The prices that hold for a cluster now; a plan asks for one that was never asked for."""

from __future__ import annotations

from collections.abc import Callable

from peaker.domain.prices.fetched_prices import LINUX, is_first_need, price_table
from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Unknown
from peaker.ports.bundle import Ports
from peaker.usecases.plan.refresh_prices import ask_for_prices, stored_prices, wanted_types
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import PeakerError, Retryable


def cluster_prices(ports: Ports, settings: ClusterSettings) -> PriceTable:
    """From the settings, the stored prices and, in us-east-1, the shipped table. Raises Retryable errors only."""
    billed = billed_as(ports.compute.platform, settings)
    return price_table(settings, stored_prices(ports), ports.clock.now(), billed)


def storage_prices(ports: Ports, settings: ClusterSettings) -> PriceTable:
    """The same for who pays for no instance: EC2 is not asked what the image is billed as."""
    return price_table(settings, stored_prices(ports), ports.clock.now())


def prices_for_plan(ports: Ports, settings: ClusterSettings) -> PriceTable:
    """As cluster_prices; what was never asked for is asked for at once, so that the first plan has its price."""
    stored = stored_prices(ports)
    if is_first_need(stored, settings, ports.clock.now()):
        stored = ask_for_prices(ports, settings.region, wanted_types(ports), stored)
    billed = billed_as(ports.compute.platform, settings)
    return price_table(settings, stored, ports.clock.now(), billed)


def billed_as(platform: Callable[[str], str | Unknown], settings: ClusterSettings) -> str | Unknown:
    """EC2's word for what instances of the cluster's image cost: Linux/UNIX, or with a licence.

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
