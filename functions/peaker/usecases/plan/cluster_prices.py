"""The prices that hold for a cluster now; a plan asks for one that was never asked for."""

from __future__ import annotations

from peaker.domain.planning.fetched_prices import is_first_need, price_table
from peaker.domain.planning.prices import PriceTable
from peaker.ports import Ports
from peaker.usecases.plan.refresh_prices import ask_for_prices, stored_prices, wanted_types
from peaker_contract.cluster import ClusterSettings


def cluster_prices(ports: Ports, settings: ClusterSettings) -> PriceTable:
    """From the settings, the stored prices and, in us-east-1, the shipped table. Raises Retryable errors only."""
    return price_table(settings, stored_prices(ports), ports.clock.now())


def prices_for_plan(ports: Ports, settings: ClusterSettings) -> PriceTable:
    """The same; what was never asked for is asked for at once, so that the first plan has its price."""
    stored = stored_prices(ports)
    if is_first_need(stored, settings, ports.clock.now()):
        stored = ask_for_prices(ports, settings.region, wanted_types(ports), stored)
    return price_table(settings, stored, ports.clock.now())
