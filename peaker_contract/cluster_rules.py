"""Cluster rules compare the settings of one cluster. A rule names the settings that it reads and runs when
all of them are valid.

So one wrong setting hides no other fault, and a fault is told at the setting that has to change.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from peaker_contract.endpoint_settings import (
    LONGEST_WAIT_SECONDS,
    AnyEndpoint,
    HealthSettings,
    RampSettings,
)
from peaker_contract.field_types import Fault
from peaker_contract.load_settings import (
    CalendarEvent,
    ForecastSettings,
    LimitSettings,
)
from peaker_contract.storage_settings import (
    VolumeSettings,
    fewest_members,
    lies_in,
)

Rule = Callable[..., Iterator[Fault]]


def broken(rules: Sequence[Rule], valid: Mapping[str, Any]) -> Iterator[Fault]:
    """The faults by the rules that can be judged: those all of whose settings are in `valid`."""
    for rule in rules:
        names = inspect.signature(rule).parameters
        if all(name in valid for name in names):
            yield from rule(**{name: valid[name] for name in names})


def _max_leaves_room_for_min(min_replicas: int, max_replicas: int) -> Iterator[Fault]:
    if max_replicas < min_replicas:
        yield Fault(("max_replicas",), f"must be at least min_replicas ({min_replicas}), got {max_replicas}")


def _types_come_once(instance_type: str, fallback_instance_types: Sequence[str]) -> Iterator[Fault]:
    for index, kind in enumerate(fallback_instance_types):
        if kind in (instance_type, *fallback_instance_types[:index]):
            yield Fault(
                ("fallback_instance_types", index),
                f"{kind} is asked for before: remove it, one try is enough",
            )


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


def _floor_stays_within_max(health: HealthSettings, max_replicas: int) -> Iterator[Fault]:
    if health.floor_replicas > max_replicas:
        yield Fault(
            ("health", "floor_replicas"),
            f"must be at most max_replicas ({max_replicas}), got {health.floor_replicas}: so many replicas never "
            "serve, and lag would eject nobody",
        )


def _ramp_ends(read_endpoint: AnyEndpoint, ramp: RampSettings) -> Iterator[Fault]:
    followed = read_endpoint.clients_follow_within_seconds
    seconds = len(ramp.shares) * (max(ramp.step_seconds, followed) + ramp.window_seconds)
    if seconds > LONGEST_WAIT_SECONDS:
        most = LONGEST_WAIT_SECONDS // len(ramp.shares) - ramp.window_seconds
        yield Fault(
            ("ramp", "step_seconds"),
            f"must be at most {most} with {len(ramp.shares)} shares and windows of {ramp.window_seconds} s: the ramp "
            f"would take {seconds} s, and the workflow waits {LONGEST_WAIT_SECONDS}; got {ramp.step_seconds}",
        )


def _forecast_comes_before_it_is_too_late(
    forecast: ForecastSettings, limits: LimitSettings
) -> Iterator[Fault]:
    if forecast.schedule_minutes > limits.prewarm_deadline_minutes:
        yield Fault(
            ("forecast", "schedule_minutes"),
            f"must be at most limits.prewarm_deadline_minutes ({limits.prewarm_deadline_minutes}), got "
            f"{forecast.schedule_minutes}: a forecast that is rarer than a replica takes comes too late for it",
        )


def _volumes_have_places_of_their_own(volumes: Sequence[VolumeSettings]) -> Iterator[Fault]:
    for field in ("name", "device", "mount_point"):
        taken = [str(getattr(volume, field)) for volume in volumes]
        for index, value in enumerate(taken):
            if value in taken[:index]:
                first = volumes[taken.index(value)]
                if field == "mount_point" and "single" not in (first.layout, volumes[index].layout):
                    continue
                message = f"must be another than that of the volume {first.name}, got {value} for both"
                remedy = (
                    "; volumes of one filesystem need a layout, such as raid0"
                    if field == "mount_point"
                    else ""
                )
                yield Fault(("volumes", index, field), message + remedy)


def _sets_are_of_one_kind(volumes: Sequence[VolumeSettings]) -> Iterator[Fault]:
    first_of: dict[str, VolumeSettings] = {}
    for index, volume in enumerate(volumes):
        first = first_of.setdefault(volume.mount_point, volume)
        if "single" in (first.layout, volume.layout):
            continue
        for field in ("layout", "filesystem"):
            there, here = getattr(first, field), getattr(volume, field)
            if there != here:
                message = f"must be that of {first.name}, {there}, as they are one filesystem; got {here}"
                yield Fault(("volumes", index, field), message)


def _sets_are_large_enough(volumes: Sequence[VolumeSettings]) -> Iterator[Fault]:
    places = [volume.mount_point for volume in volumes]
    for index, volume in enumerate(volumes):
        least, there = fewest_members(volume.layout), places.count(volume.mount_point)
        if places.index(volume.mount_point) == index and there < least:
            yield Fault(
                ("volumes", index, "layout"),
                f"{volume.layout} needs at least {least} volumes at {volume.mount_point}, got {there}: add them, or "
                "take the layout single",
            )


def _mounts_are_not_nested(volumes: Sequence[VolumeSettings]) -> Iterator[Fault]:
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


def _a_volume_is_called_data(volumes: Sequence[VolumeSettings]) -> Iterator[Fault]:
    in_sets = {volume.name.partition("-")[0] for volume in volumes if volume.layout != "single"}
    if "data" not in {volume.name for volume in volumes} | in_sets:
        message = (
            "must include the volume named data, or in a set data-1 and so on, which holds the datadir: add it or "
            "rename one"
        )
        yield Fault(("volumes",), message)


def _security_groups_come_once(security_group_ids: Sequence[str]) -> Iterator[Fault]:
    for index, group in enumerate(security_group_ids):
        if group in security_group_ids[:index]:
            yield Fault(("security_group_ids", index), f"{group} is given twice: remove one")


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


# Read from one cluster alone.
CLUSTER_RULES: tuple[Rule, ...] = (
    _max_leaves_room_for_min,
    _types_come_once,
    _event_stays_within_max,
    _event_comes_once,
    _floor_stays_within_max,
    _ramp_ends,
    _forecast_comes_before_it_is_too_late,
    _volumes_have_places_of_their_own,
    _sets_are_of_one_kind,
    _sets_are_large_enough,
    _mounts_are_not_nested,
    _a_volume_is_called_data,
    _security_groups_come_once,
    _zones_have_subnets_of_their_own,
    _rate_is_sold_there,
)
