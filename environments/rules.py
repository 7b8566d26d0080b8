"""What settings must be to each other. A rule names the settings that it reads and runs when all of them are valid.

So one wrong setting hides no other fault, and a fault is told at the setting that has to change.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from environments.endpoint_settings import (
    LONGEST_WAIT_SECONDS,
    ROUTE53_PROPAGATION_SECONDS,
    Health,
    NlbEndpoint,
    Ramp,
    Route53Endpoint,
)
from environments.field_types import Fault
from environments.load_settings import CalendarEvent, Forecast
from environments.prices import shipped_hourly_usd
from environments.storage_settings import Volume, lies_in

if TYPE_CHECKING:
    from environments.settings import Cluster, Limits

Rule = Callable[..., Iterator[Fault]]

LOAD_BALANCER_NAME_LIMIT = 32
# The warming target group is called like the load balancer, and then so.
WARMING_SUFFIX = "-w"
ROUTE53_LONGEST_WATCH_MINUTES = 5
# An advanced parameter of the Parameter Store (botocore, ssm:PutParameter); the cluster's settings are one.
PARAMETER_CHARACTERS = 8_192
# Two target group ARNs and a listener ARN with their names, at their longest.
_ENDPOINT_ARN_CHARACTERS = 620
# Environment and region go into it as well.
_ADDED_CHARACTERS = 70


def broken(rules: Sequence[Rule], valid: Mapping[str, Any]) -> Iterator[Fault]:
    """The faults by the rules that can be judged: those all of whose settings are in `valid`."""
    for rule in rules:
        names = inspect.signature(rule).parameters
        if all(name in valid for name in names):
            yield from rule(**{name: valid[name] for name in names})


def given_twice(field: str, values: Sequence[str]) -> Iterator[Fault]:
    """A fault at each place of a list where a value comes again."""
    for index, value in enumerate(values):
        if value in values[:index]:
            yield Fault((field, index), f"{value} is given twice: remove one")


def _max_leaves_room_for_min(min_replicas: int, max_replicas: int) -> Iterator[Fault]:
    if max_replicas < min_replicas:
        yield Fault(("max_replicas",), f"must be at least min_replicas ({min_replicas}), got {max_replicas}")


def _event_stays_within_max(
    calendar: Sequence[CalendarEvent], min_replicas: int, max_replicas: int
) -> Iterator[Fault]:
    if max_replicas < min_replicas:
        return
    for index, event in enumerate(calendar):
        if event.min_replicas is not None and event.min_replicas > max_replicas:
            yield Fault(
                ("calendar", index, "min_replicas"),
                f"must be at most max_replicas ({max_replicas}), got {event.min_replicas}: lower it, or raise "
                "max_replicas",
            )


def _event_comes_once(calendar: Sequence[CalendarEvent]) -> Iterator[Fault]:
    for index, event in enumerate(calendar):
        if event in calendar[:index]:
            yield Fault(("calendar", index), f"is given twice ({event.reason}): remove one")


def _floor_stays_within_max(health: Health, max_replicas: int) -> Iterator[Fault]:
    if health.floor_replicas > max_replicas:
        yield Fault(
            ("health", "floor_replicas"),
            f"must be at most max_replicas ({max_replicas}), got {health.floor_replicas}: so many replicas never "
            "serve, and lag would eject nobody",
        )


def _dns_name_is_watched_often(
    read_endpoint: NlbEndpoint | Route53Endpoint, health: Health
) -> Iterator[Fault]:
    if isinstance(read_endpoint, Route53Endpoint) and health.watch_minutes > ROUTE53_LONGEST_WATCH_MINUTES:
        yield Fault(
            ("health", "watch_minutes"),
            f"must be at most {ROUTE53_LONGEST_WATCH_MINUTES} with a route53 read endpoint, which hears of a bad "
            f"replica only by the watch, two of its periods late; got {health.watch_minutes}",
        )


def _ramp_ends(read_endpoint: NlbEndpoint | Route53Endpoint, ramp: Ramp) -> Iterator[Fault]:
    followed = 0
    if isinstance(read_endpoint, Route53Endpoint):
        followed = ROUTE53_PROPAGATION_SECONDS + read_endpoint.ttl_seconds
    seconds = len(ramp.shares) * (max(ramp.step_seconds, followed) + ramp.window_seconds)
    if seconds > LONGEST_WAIT_SECONDS:
        most = LONGEST_WAIT_SECONDS // len(ramp.shares) - ramp.window_seconds
        yield Fault(
            ("ramp", "step_seconds"),
            f"must be at most {most} with {len(ramp.shares)} shares and windows of {ramp.window_seconds} s: the ramp "
            f"would take {seconds} s, and the workflow waits {LONGEST_WAIT_SECONDS}; got {ramp.step_seconds}",
        )


def _forecast_comes_before_it_is_too_late(forecast: Forecast, limits: Limits) -> Iterator[Fault]:
    if forecast.schedule_minutes > limits.prewarm_deadline_minutes:
        yield Fault(
            ("forecast", "schedule_minutes"),
            f"must be at most limits.prewarm_deadline_minutes ({limits.prewarm_deadline_minutes}), got "
            f"{forecast.schedule_minutes}: a forecast that is rarer than a replica takes comes too late for it",
        )


def _volumes_have_places_of_their_own(volumes: Sequence[Volume]) -> Iterator[Fault]:
    for field in ("name", "device", "mount_point"):
        taken = [str(getattr(volume, field)) for volume in volumes]
        for index, value in enumerate(taken):
            if value in taken[:index]:
                other = volumes[taken.index(value)].name
                message = f"must be another than that of the volume {other}, got {value} for both"
                yield Fault(("volumes", index, field), message)


def _mounts_are_not_nested(volumes: Sequence[Volume]) -> Iterator[Fault]:
    for (first, one), (second, other) in combinations(enumerate(volumes), 2):
        if one.mount_point == other.mount_point:
            continue
        for index, inner, outer in ((second, other, one), (first, one, other)):
            if lies_in(inner.mount_point, outer.mount_point):
                yield Fault(
                    ("volumes", index, "mount_point"),
                    f"must not lie in {outer.mount_point}, where {outer.name} is mounted; take a directory beside it; "
                    f"got {inner.mount_point}",
                )


def _a_volume_is_called_data(volumes: Sequence[Volume]) -> Iterator[Fault]:
    if "data" not in {volume.name for volume in volumes}:
        message = "must include the volume named data, which holds the datadir: add it or rename one"
        yield Fault(("volumes",), message)


def _security_groups_come_once(security_group_ids: Sequence[str]) -> Iterator[Fault]:
    yield from given_twice("security_group_ids", security_group_ids)


def _zones_have_subnets_of_their_own(subnets: Mapping[str, str]) -> Iterator[Fault]:
    zones = list(subnets)
    for index, zone in enumerate(zones):
        first = next((one for one in zones[:index] if subnets[one] == subnets[zone]), None)
        if first is not None:
            yield Fault(
                ("subnets", zone),
                f"must be a subnet in {zone}, got {subnets[zone]}, which is given for {first} already: a subnet lies "
                "in one zone",
            )


def _rate_is_sold_there(
    subnets: Mapping[str, str], initialization_rate_mib_per_s: int | None
) -> Iterator[Fault]:
    local = [zone for zone in subnets if re.search(r"-[0-9]+-", zone)]
    if initialization_rate_mib_per_s is not None and local:
        yield Fault(
            ("initialization_rate_mib_per_s",),
            f"is not sold in local and Wavelength zones ({', '.join(local)}): remove it, or them",
        )


def _names_fit_a_load_balancer(
    environment: str, name: str, read_endpoint: NlbEndpoint | Route53Endpoint
) -> Iterator[Fault]:
    prefix = f"peaker-{environment}-"
    most = LOAD_BALANCER_NAME_LIMIT - len(prefix) - len(WARMING_SUFFIX)
    if isinstance(read_endpoint, NlbEndpoint) and len(name) > most:
        yield Fault(
            ("name",),
            f"must be at most {most} characters, because a target group is called {prefix}<name>{WARMING_SUFFIX} and "
            f"AWS allows {LOAD_BALANCER_NAME_LIMIT}; got {name}",
        )


def _zones_lie_in_the_region(region: str, subnets: Mapping[str, str]) -> Iterator[Fault]:
    for zone in subnets:
        if not re.fullmatch(
            rf"{re.escape(region)}([a-z]|-[a-z]+-[0-9]+[a-z]|-wl[0-9]+-[a-z]+-wlz-[0-9]+)", zone
        ):
            yield Fault(("subnets", zone), f"must be a zone of the region {region}, got {zone}")


def _budget_pays_for_a_replica(
    region: str, instance_type: str, instance_hourly_usd: float | None, limits: Limits
) -> Iterator[Fault]:
    price = instance_hourly_usd or shipped_hourly_usd(region, instance_type)
    if price is not None and limits.max_hourly_cost_usd is not None and limits.max_hourly_cost_usd < price:
        yield Fault(
            ("limits", "max_hourly_cost_usd"),
            f"must be at least the price of one replica, {price:g} for {instance_type} in {region} without its "
            f"volumes, got {limits.max_hourly_cost_usd:g}: no replica could ever be built",
        )


def _clusters_have_names_of_their_own(clusters: Sequence[Cluster]) -> Iterator[Fault]:
    for index, cluster in enumerate(clusters):
        for other in clusters[:index]:
            if cluster.name == other.name:
                yield Fault(("clusters", index, "name"), f"must be another name, got {cluster.name} twice")
            elif cluster.name.replace("-", "") == other.name.replace("-", ""):
                message = f"must differ from {other.name} by more than hyphens, got {cluster.name}"
                yield Fault(("clusters", index, "name"), message)


def _target_groups_have_names_of_their_own(clusters: Sequence[Cluster]) -> Iterator[Fault]:
    balanced = {cluster.name for cluster in clusters if isinstance(cluster.read_endpoint, NlbEndpoint)}
    for index, cluster in enumerate(clusters):
        other = cluster.name.removesuffix(WARMING_SUFFIX)
        if cluster.name in balanced and other != cluster.name and other in balanced:
            yield Fault(
                ("clusters", index, "name"),
                f"must be another name, got {cluster.name}: the warming target group of {other} is called so",
            )


def _clusters_have_dns_names_of_their_own(clusters: Sequence[Cluster]) -> Iterator[Fault]:
    """Two clusters behind one name would get each other's reads."""
    taken: dict[tuple[str, str], str] = {}
    for index, cluster in enumerate(clusters):
        endpoint = cluster.read_endpoint
        if isinstance(endpoint, Route53Endpoint):
            other = taken.setdefault((endpoint.hosted_zone_id, endpoint.record_name), cluster.name)
            if other != cluster.name:
                yield Fault(
                    ("clusters", index, "read_endpoint", "record_name"),
                    f"must be another name than that of {other}, got {endpoint.record_name} for both",
                )


def parameter_faults(cluster: Cluster) -> Iterator[Fault]:
    """A cluster whose settings are longer than the parameter that holds them, once deployed."""
    deployed = cluster.model_dump(mode="json", exclude_none=True)
    characters = len(json.dumps(deployed, sort_keys=True, separators=(",", ":"))) + _ADDED_CHARACTERS
    if isinstance(cluster.read_endpoint, NlbEndpoint):
        characters += _ENDPOINT_ARN_CHARACTERS
    if characters > PARAMETER_CHARACTERS:
        yield Fault(
            (),
            f"takes up to {characters} characters as deployed, and a parameter of the Parameter Store holds "
            f"{PARAMETER_CHARACTERS}: remove calendar events that are over, or shorten reasons and watched metrics",
        )


# Read from one cluster alone.
CLUSTER_RULES: tuple[Rule, ...] = (
    _max_leaves_room_for_min,
    _event_stays_within_max,
    _event_comes_once,
    _floor_stays_within_max,
    _dns_name_is_watched_often,
    _ramp_ends,
    _forecast_comes_before_it_is_too_late,
    _volumes_have_places_of_their_own,
    _mounts_are_not_nested,
    _a_volume_is_called_data,
    _security_groups_come_once,
    _zones_have_subnets_of_their_own,
    _rate_is_sold_there,
)
# Read from a cluster, and the name and region of its environment.
PLACE_RULES: tuple[Rule, ...] = (
    _names_fit_a_load_balancer,
    _zones_lie_in_the_region,
    _budget_pays_for_a_replica,
)
# Read from all clusters.
ENVIRONMENT_RULES: tuple[Rule, ...] = (
    _clusters_have_names_of_their_own,
    _target_groups_have_names_of_their_own,
    _clusters_have_dns_names_of_their_own,
)
