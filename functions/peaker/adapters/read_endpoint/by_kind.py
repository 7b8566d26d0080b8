"""Each cluster's read endpoint by the kind that its settings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from peaker.adapters.read_endpoint.elb import ElbReadEndpoint
from peaker.adapters.read_endpoint.health_checks import ReplicaHealthChecks
from peaker.adapters.read_endpoint.route53 import Route53ReadEndpoint
from peaker.domain.replicas.inventory import TargetHealth
from peaker.ports.endpoint import TrafficRouter
from peaker_contract.cluster import ClusterSettings
from peaker_contract.endpoint_settings import NlbEndpointSettings, Route53EndpointSettings


def read_endpoints(client: Callable[[str], Any]) -> ReadEndpointByKind:
    """The read endpoints of an environment, of whatever kinds; `client` gives the client of a service by its name."""
    route53 = client("route53")
    by_name = Route53ReadEndpoint(route53, client("ec2"), ReplicaHealthChecks(route53, client("cloudwatch")))
    return ReadEndpointByKind(ElbReadEndpoint(client("elbv2")), by_name)


class ReadEndpointByKind:
    """Port TrafficRouter; hands every call to the adapter of the cluster's kind."""

    def __init__(self, nlb: TrafficRouter, route53: TrafficRouter) -> None:
        self._nlb = nlb
        self._route53 = route53

    def register(self, settings: ClusterSettings, instance_id: str) -> None:
        self._of(settings).register(settings, instance_id)

    def promote(self, settings: ClusterSettings, instance_id: str) -> None:
        self._of(settings).promote(settings, instance_id)

    def deregister(self, settings: ClusterSettings, instance_id: str) -> None:
        self._of(settings).deregister(settings, instance_id)

    def health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        return self._of(settings).health(settings)

    def warming_health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        return self._of(settings).warming_health(settings)

    def set_share(self, settings: ClusterSettings, share: float) -> None:
        self._of(settings).set_share(settings, share)

    def read_shares(self, settings: ClusterSettings) -> dict[str, float]:
        return self._of(settings).read_shares(settings)

    def _of(self, settings: ClusterSettings) -> TrafficRouter:
        match settings.read_endpoint:
            case NlbEndpointSettings():
                return self._nlb
            case Route53EndpointSettings():
                return self._route53
            case other:
                assert_never(other)
