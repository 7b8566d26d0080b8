"""RefreshPrices: hourly looked at, weekly asked for."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from peaker.domain.prices.fetched_prices import fetched, kept, why_due
from peaker.domain.prices.price_table import FetchedPrices
from peaker.domain.reading import Unknown
from peaker.ports.bundle import Ports
from peaker_contract.errors import PeakerError, Retryable


class PriceReport(BaseModel):
    """What a look at the prices did: asked and stored, asked in vain, or found them good."""

    model_config = ConfigDict(frozen=True)

    outcome: str
    reason: str
    instance_types: tuple[str, ...]


def refresh_prices(ports: Ports) -> PriceReport:
    """Ask the Price List API for the types of all clusters when the stored prices are a week old, or lack one.

    A refusal is no failure: the old prices stay, with the reason, and the next look asks again.
    """
    names = ports.clusters.names()
    if not names:
        return PriceReport(outcome="nothing_to_do", reason="there is no cluster", instance_types=())
    region = ports.clusters.settings(names[0]).region
    wanted = wanted_types(ports)
    stored = stored_prices(ports)
    why = why_due(stored, region, wanted, ports.clock.now())
    if why is None:
        return PriceReport(outcome="nothing_to_do", reason="the prices are complete", instance_types=wanted)
    after = ask_for_prices(ports, region, wanted, stored)
    if after.failure is not None:
        return PriceReport(outcome="kept", reason=f"{why}; {after.failure}", instance_types=wanted)
    return PriceReport(outcome="fetched", reason=why, instance_types=wanted)


def wanted_types(ports: Ports) -> tuple[str, ...]:
    """The types of all clusters. One type's slip of the keyboard is asked for too, and has no price."""
    clusters = (ports.clusters.settings(name) for name in ports.clusters.names())
    return tuple(sorted({kind for settings in clusters for kind in settings.instance_types}))


def stored_prices(ports: Ports) -> FetchedPrices | Unknown:
    """What is stored. Raises Retryable errors only: prices that may not be read are unknown."""
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
        after = fetched(region, ports.price_list.quote(region, wanted), now)
    except PeakerError as error:
        after = kept(region, before, str(error), now)
    try:
        ports.stored_prices.write(after)
    except PeakerError as error:
        return after.model_copy(update={"failure": f"not stored: {error}", "failed_at": now})
    return after
