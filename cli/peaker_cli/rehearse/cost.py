"""What a rehearsal costs by the hour and once."""

from __future__ import annotations

from dataclasses import dataclass

from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Known, Reading, Unknown

from peaker_contract.cluster import ClusterSettings

# An internal load balancer with one capacity unit; custom metrics, an alarm, some hundred state transitions and events.
_BALANCER_HOUR_USD, _REST_USD = 0.03, 0.90


@dataclass(frozen=True)
class Cost:
    """Dollars by the hour and once; Unknown where a price is."""

    hourly_usd: Reading
    once_usd: float

    def of_hours(self, hours: float) -> Reading:
        if isinstance(self.hourly_usd, Unknown):
            return self.hourly_usd
        return Known(hours * float(self.hourly_usd.value) + self.once_usd)


def cost_of(settings: ClusterSettings, gib: int, prices: PriceTable) -> Cost:
    """Returns the cost of an instance, three volumes, their snapshots and a load balancer; Unknown without a price."""
    hourly = [prices.instance_hour(settings.instance_type), prices.snapshot_hour(2 * gib)]
    hourly += [prices.volume_hour("gp3", gib, 3000, 125)] * 3
    paid = prices.initialization(gib, settings.initialization_rate_mib_per_s)
    for one in (*hourly, paid):
        if isinstance(one, Unknown):
            return Cost(one, _REST_USD)
    known = sum(one.value for one in hourly if isinstance(one, Known)) + _BALANCER_HOUR_USD
    return Cost(Known(known), _REST_USD + (paid.value if isinstance(paid, Known) else 0.0))
