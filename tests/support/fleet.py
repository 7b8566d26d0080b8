"""The environment `prod` with many clusters, half behind a load balancer and half behind a DNS name."""

from __future__ import annotations

from environments.may_use import MayUse
from environments.schema import Cluster, Environment, load_environment
from peaker_contract.endpoint_settings import Route53EndpointSettings


def fleet(clusters: int) -> Environment:
    """The environment `prod` with so many clusters. A pattern has their DNS names: a policy has no room for all."""
    given = load_environment("prod", warn=lambda _: None)
    clusters_of_fleet = tuple(_cluster(given.clusters[0], number) for number in range(clusters))
    may_use = MayUse(record_patterns=("shard-*.reads.internal",))
    return given.model_copy(update={"clusters": clusters_of_fleet, "may_use": may_use})


def _cluster(like: Cluster, number: int) -> Cluster:
    name = f"shard-{number:03d}"
    if number % 2 == 0:
        return like.model_copy(update={"name": name})
    by_name = Route53EndpointSettings(
        kind="route53",
        port=3306,
        health_port=9200,
        hosted_zone_id="Z0123456789ABCDEFGHIJ",
        record_name=f"{name}.reads.internal",
        ttl_seconds=30,
    )
    return like.model_copy(update={"name": name, "read_endpoint": by_name})
