"""The port on the read endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from peaker.domain.replicas.inventory import TargetHealth
    from peaker_contract.cluster import ClusterSettings


class TrafficRouter(Protocol):
    """The read endpoint: a serving group of proven replicas, and a warming group of those and the newcomers.

    Every method may be called twice.
    """

    def register(self, settings: ClusterSettings, instance_id: str) -> None:
        """Put it into the warming group."""

    def promote(self, settings: ClusterSettings, instance_id: str) -> None:
        """Put it into the serving group too."""

    def deregister(self, settings: ClusterSettings, instance_id: str) -> None:
        """Begin to drain it in both groups. A target that is not registered is not an error."""

    def health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        """State of every target of the serving group by instance id; one that is missing is not registered."""

    def warming_health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        """The same of the warming group."""

    def set_share(self, settings: ClusterSettings, share: float) -> None:
        """Send that share (0 to 1, both excluded) of new connections through the warming group.

        A newcomer gets `share` of what it would get as one of the proven replicas. Neither group's weight becomes 0,
        at which a load balancer would close the group's connections.
        """

    def read_shares(self, settings: ClusterSettings) -> dict[str, float]:
        """Share (0 to 1) of new connections that each target gets now, by the endpoint's weights and health."""
