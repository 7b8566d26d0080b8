"""Rules compare the settings of a file with each other and with AWS's names and prices; those of a single
cluster that a deployment keeps are in peaker_contract/cluster_rules.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from environments import aws_names
from environments.clusters_by_endpoint import by_endpoint
from environments.may_use import clusters_keep_to
from peaker_contract.cluster import ClusterBlock, deployed_document
from peaker_contract.cluster_rules import CLUSTER_RULES, Rule
from peaker_contract.endpoint_settings import (
    AnyEndpoint,
    HealthSettings,
    NlbEndpoint,
)
from peaker_contract.field_types import Fault
from peaker_contract.load_settings import LimitSettings, shipped_hourly_usd
from peaker_contract.names import prefix

LOAD_BALANCER_NAME_LIMIT = 32
# The warming target group is called like the load balancer, and then so.
WARMING_SUFFIX = "-w"
# An advanced parameter of the Parameter Store (botocore, ssm:PutParameter); the cluster's settings are one.
PARAMETER_CHARACTERS = 8_192
# Two target group ARNs and a listener ARN with their names, at their longest.
_ENDPOINT_ARN_CHARACTERS = 620
# The names of environment and region at their longest.
_ADDED_CHARACTERS = 41


def _endpoint_hears_of_the_bad_in_time(read_endpoint: AnyEndpoint, health: HealthSettings) -> Iterator[Fault]:
    most = read_endpoint.longest_check_minutes
    if most is not None and health.check_minutes > most:
        yield Fault(
            ("health", "check_minutes"),
            f"must be at most {most} with a {read_endpoint.kind} read endpoint, which hears of a bad "
            f"replica only by the check, two of its periods late; got {health.check_minutes}",
        )


def _its_balancer_reaches_every_zone(
    subnets: Mapping[str, str], read_endpoint: AnyEndpoint
) -> Iterator[Fault]:
    """A target in a zone that is not the load balancer's gets nothing."""
    if not isinstance(read_endpoint, NlbEndpoint):
        return
    for zone in subnets:
        if re.search(r"-[0-9]+-", zone):
            yield Fault(
                ("subnets", zone),
                "no network load balancer reaches local and Wavelength zones: take a read endpoint of kind route53, "
                f"or leave {zone} out",
            )
        elif read_endpoint.subnets is not None and zone not in read_endpoint.subnets:
            yield Fault(
                ("read_endpoint", "subnets"),
                f"must have a subnet in each zone of the cluster's subnets, got none in {zone}: a replica there would "
                "get no reads",
            )


def _instance_types_are_known(instance_type: str, fallback_instance_types: Sequence[str]) -> Iterator[Fault]:
    fallbacks = ((("fallback_instance_types", at), kind) for at, kind in enumerate(fallback_instance_types))
    for place, kind in ((("instance_type",), instance_type), *fallbacks):
        if kind not in aws_names.instance_types():
            yield Fault(
                place,
                f"must be an instance type that this release knows, got {kind!r} ({aws_names.NEWER})"
                f"{aws_names.nearest_instance_type(kind)}",
            )


def _fallbacks_boot_the_same_image(
    instance_type: str, fallback_instance_types: Sequence[str]
) -> Iterator[Fault]:
    wanted = aws_names.architecture_of(instance_type)
    for index, kind in enumerate(fallback_instance_types):
        if (found := aws_names.architecture_of(kind)) != wanted:
            yield Fault(
                ("fallback_instance_types", index),
                f"must be of the architecture of {instance_type}, {wanted}, that of image_id; got {kind} of {found}",
            )


def _names_fit_a_load_balancer(environment: str, name: str, read_endpoint: AnyEndpoint) -> Iterator[Fault]:
    if not isinstance(read_endpoint, NlbEndpoint):
        return
    begin = f"{prefix(environment)}-"
    most = LOAD_BALANCER_NAME_LIMIT - len(begin) - len(WARMING_SUFFIX)
    if len(name) > most:
        yield Fault(
            ("name",),
            f"must be at most {most} characters, because a target group is called {begin}<name>{WARMING_SUFFIX} and "
            f"AWS allows {LOAD_BALANCER_NAME_LIMIT}; got {name}",
        )


def _zones_lie_in_the_region(
    region: str, subnets: Mapping[str, str], read_endpoint: AnyEndpoint
) -> Iterator[Fault]:
    balanced = read_endpoint.subnets if isinstance(read_endpoint, NlbEndpoint) else None
    for at, zone in (
        *((("subnets", zone), zone) for zone in subnets),
        *((("read_endpoint", "subnets", zone), zone) for zone in balanced or ()),
    ):
        if not re.fullmatch(
            rf"{re.escape(region)}([a-z]|-[a-z]+-[0-9]+[a-z]|-wl[0-9]+-[a-z]+-wlz-[0-9]+)", zone
        ):
            yield Fault(at, f"must be a zone of the region {region}, got {zone}")


def _what_it_names_is_of_the_region(
    region: str, kms_key_arns: Sequence[str], capacity_reservation_group_arn: str | None
) -> Iterator[Fault]:
    keys = ((("kms_key_arns", at), arn) for at, arn in enumerate(kms_key_arns))
    for place, arn in (*keys, (("capacity_reservation_group_arn",), capacity_reservation_group_arn)):
        if arn is not None and arn.split(":")[3] != region:
            yield Fault(place, f"must be of the region {region}, where the replicas are; got {arn}")


def _its_role_is_of_the_account(account: str, instance_role_arn: str | None) -> Iterator[Fault]:
    """A role of another account can be passed to no instance."""
    if instance_role_arn is not None and instance_role_arn.split(":")[4] != account:
        yield Fault(
            ("instance_role_arn",), f"must be a role of the account {account}, got {instance_role_arn}"
        )


def _budget_pays_for_a_replica(
    region: str, instance_type: str, instance_hourly_usd: float | None, limits: LimitSettings
) -> Iterator[Fault]:
    price = instance_hourly_usd or shipped_hourly_usd(region, instance_type)
    if price is not None and limits.max_hourly_cost_usd is not None and limits.max_hourly_cost_usd < price:
        yield Fault(
            ("limits", "max_hourly_cost_usd"),
            f"must be at least the price of one replica, {price:g} for {instance_type} in {region} without its "
            f"volumes, got {limits.max_hourly_cost_usd:g}: no replica could ever be built",
        )


def _data_key_lies_in_the_region(region: str, data_key_arn: str | None) -> Iterator[Fault]:
    if data_key_arn is not None and data_key_arn.split(":")[3] != region:
        yield Fault(
            ("data_key_arn",),
            f"must be a key of the region {region}, where queues, topic, logs and ledger are; got {data_key_arn}",
        )


def _clusters_have_names_of_their_own(clusters: Sequence[ClusterBlock]) -> Iterator[Fault]:
    for index, cluster in enumerate(clusters):
        for other in clusters[:index]:
            if cluster.name == other.name:
                yield Fault(("clusters", index, "name"), f"must be another name, got {cluster.name} twice")
            elif cluster.name.replace("-", "") == other.name.replace("-", ""):
                message = f"must differ from {other.name} by more than hyphens, got {cluster.name}"
                yield Fault(("clusters", index, "name"), message)


def _target_groups_have_names_of_their_own(clusters: Sequence[ClusterBlock]) -> Iterator[Fault]:
    balanced = {cluster.name for cluster, _ in by_endpoint(clusters).balanced}
    for index, cluster in enumerate(clusters):
        other = cluster.name.removesuffix(WARMING_SUFFIX)
        if cluster.name in balanced and other != cluster.name and other in balanced:
            yield Fault(
                ("clusters", index, "name"),
                f"must be another name, got {cluster.name}: the warming target group of {other} is called so",
            )


def _clusters_have_dns_names_of_their_own(clusters: Sequence[ClusterBlock]) -> Iterator[Fault]:
    """Two clusters behind one name would get each other's reads."""
    taken: dict[tuple[str, str], str] = {}
    for cluster, endpoint in by_endpoint(clusters).by_name:
        other = taken.setdefault((endpoint.hosted_zone_id, endpoint.record_name), cluster.name)
        if other != cluster.name:
            yield Fault(
                ("clusters", clusters.index(cluster), "read_endpoint", "record_name"),
                f"must be another name than that of {other}, got {endpoint.record_name} for both",
            )


def _clusters_have_loads_of_their_own(clusters: Sequence[ClusterBlock]) -> Iterator[Fault]:
    """Two clusters that scale by one metric would each be built for the readers of both."""
    taken: dict[tuple[object, ...], str] = {}
    for index, cluster in enumerate(clusters):
        if (metric := cluster.load_metric) is None:
            continue
        told_by = (metric.namespace, metric.name, frozenset(metric.dimensions.items()))
        other = taken.setdefault(told_by, cluster.name)
        if other != cluster.name:
            yield Fault(
                ("clusters", index, "load_metric"),
                f"must be another metric than that of {other}: give the dimension that tells them apart, or remove "
                "both, and Peaker measures each cluster's own",
            )


def parameter_faults(cluster: ClusterBlock) -> Iterator[Fault]:
    """A cluster whose settings are longer than the parameter that holds them, once deployed."""
    deployed = deployed_document(cluster, environment="", region="", endpoint={})
    characters = len(json.dumps(deployed, sort_keys=True, separators=(",", ":"))) + _ADDED_CHARACTERS
    if by_endpoint([cluster]).balanced:
        characters += _ENDPOINT_ARN_CHARACTERS
    if characters > PARAMETER_CHARACTERS:
        yield Fault(
            (),
            f"takes up to {characters} characters as deployed, and a parameter of the Parameter Store holds "
            f"{PARAMETER_CHARACTERS}: remove events that are over, or shorten their reasons",
        )


# Read from one cluster alone.
FILE_RULES: tuple[Rule, ...] = (
    *CLUSTER_RULES,
    _endpoint_hears_of_the_bad_in_time,
    _its_balancer_reaches_every_zone,
    _instance_types_are_known,
    _fallbacks_boot_the_same_image,
)
# Read from a cluster, and the name, account and region of its environment.
PLACE_RULES: tuple[Rule, ...] = (
    _names_fit_a_load_balancer,
    _zones_lie_in_the_region,
    _what_it_names_is_of_the_region,
    _its_role_is_of_the_account,
    _budget_pays_for_a_replica,
)
# Read from all clusters, and what the environment has beside them.
ENVIRONMENT_RULES: tuple[Rule, ...] = (
    _data_key_lies_in_the_region,
    _clusters_have_names_of_their_own,
    _target_groups_have_names_of_their_own,
    _clusters_have_dns_names_of_their_own,
    _clusters_have_loads_of_their_own,
    clusters_keep_to,
)
