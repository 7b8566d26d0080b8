"""The ports on prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from peaker.domain.prices.price_table import FetchedPrices, Quote
    from peaker.domain.reading import Unknown


class PriceList(Protocol):
    """What AWS asks for its things."""

    def quote(self, region: str, instance_types: Sequence[str]) -> Quote:
        """On-demand prices of Linux instances of these types and of EBS in that region.

        Raises Throttled, AwsUnavailable, AwsCallRejected.
        """


class StoredPrices(Protocol):
    """The environment's newest answer of the price list."""

    def read(self) -> FetchedPrices | Unknown:
        """Unknown before the first one was stored."""

    def write(self, prices: FetchedPrices) -> None:
        """Store them; the last call counts."""
