"""The clusters of a file by the kind of their read endpoint; a kind that nobody has provided for is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, assert_never

from peaker_contract.cluster import ClusterBlock
from peaker_contract.endpoint_settings import NlbEndpoint, Route53EndpointSettings

ClusterT = TypeVar("ClusterT", bound=ClusterBlock)


@dataclass(frozen=True)
class ClustersByEndpoint(Generic[ClusterT]):
    """Each cluster with its endpoint, in the order of the file."""

    balanced: list[tuple[ClusterT, NlbEndpoint]] = field(default_factory=list)
    by_name: list[tuple[ClusterT, Route53EndpointSettings]] = field(default_factory=list)


def by_endpoint(clusters: Iterable[ClusterT]) -> ClustersByEndpoint[ClusterT]:
    """The clusters behind a load balancer, and those behind a DNS name."""
    found: ClustersByEndpoint[ClusterT] = ClustersByEndpoint()
    for cluster in clusters:
        match cluster.read_endpoint:
            case NlbEndpoint() as endpoint:
                found.balanced.append((cluster, endpoint))
            case Route53EndpointSettings() as endpoint:
                found.by_name.append((cluster, endpoint))
            case other:
                assert_never(other)
    return found
