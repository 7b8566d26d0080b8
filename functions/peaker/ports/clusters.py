"""The ports that tell the deployed clusters and the time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from peaker_contract.cluster import ClusterSettings


class Clock(Protocol):
    """The time now."""

    def now(self) -> datetime:
        """Aware, UTC, never going backwards by more than the machine's clock does."""


class ClusterDirectory(Protocol):
    """The deployed settings."""

    def settings(self, cluster: str) -> ClusterSettings:
        """Settings of one cluster. Raises UnknownCluster, naming those that exist."""

    def names(self) -> list[str]:
        """The clusters of this environment, sorted."""
