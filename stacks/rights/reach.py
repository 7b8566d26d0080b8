"""The reach lists foreign resources that functions may use: those of `may_use`, else those that clusters
name.

Whatever carries the environment's name or tags needs no list: a cluster that is added uses it at once. What lies
outside of it (images, subnets, roles, keys, zones) is listed, and the list is the shared stack's business.
"""

from __future__ import annotations

from dataclasses import dataclass

from environments.clusters_by_endpoint import by_endpoint
from environments.schema import Cluster, Environment


@dataclass(frozen=True)
class Reach:
    """Sorted ids and ARNs; each may hold wildcards where `may_use` does."""

    image_patterns: tuple[str, ...]
    subnet_patterns: tuple[str, ...]
    security_group_patterns: tuple[str, ...]
    instance_role_patterns: tuple[str, ...]
    reservation_groups: tuple[str, ...]
    kms_key_patterns: tuple[str, ...]
    hosted_zones: tuple[str, ...]
    record_patterns: tuple[str, ...]
    balanced: bool

    @property
    def by_name(self) -> bool:
        """Tells whether readers find a cluster by a DNS name; `balanced`: by a load balancer."""
        return bool(self.hosted_zones)


def reach_of(environment: Environment) -> Reach:
    """Returns the reach of the environment with all of its clusters."""
    clusters = environment.clusters
    kinds = by_endpoint(clusters)
    endpoints = [endpoint for _, endpoint in kinds.by_name]
    used = {
        "image_patterns": {one.image_id for one in clusters},
        "subnet_patterns": {subnet for one in clusters for subnet in one.subnets.values()},
        "security_group_patterns": {group for one in clusters for group in one.security_group_ids},
        "instance_role_patterns": {arn for one in clusters if (arn := _instance_role_arn(environment, one))},
        "reservation_groups": {
            group for one in clusters if (group := one.capacity_reservation_group_arn) is not None
        },
        "kms_key_patterns": {key for one in clusters for key in one.kms_key_arns},
        "hosted_zones": {one.hosted_zone_id for one in endpoints},
        "record_patterns": {one.record_name for one in endpoints},
    }
    allowed = {} if environment.may_use is None else environment.may_use.model_dump(exclude_none=True)
    reach = {name: tuple(sorted(allowed.get(name, found))) for name, found in used.items()}
    return Reach(**reach, balanced=bool(kinds.balanced))


def _instance_role_arn(environment: Environment, cluster: Cluster) -> str | None:
    """The role in the cluster's instance profile; the console gives both the same name. None without a profile."""
    if cluster.instance_profile is None:
        return None
    by_name = f"arn:{environment.partition}:iam::{environment.account}:role/{cluster.instance_profile}"
    return cluster.instance_role_arn or by_name
