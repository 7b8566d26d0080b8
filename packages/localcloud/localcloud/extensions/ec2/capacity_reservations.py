"""On-demand capacity reservations: room that is paid for, and who runs in it. moto has none.

They are pending for a moment, active, and ended by the cloud's clock: limited ones within the hour after their end
(botocore, ec2:CreateCapacityReservation, EndDate). The local cloud's machine has room for everything, so that only the
account's quota and `faults` refuse one. Future-dated ones are refused: nobody here has asked for one yet. A resource
group of them is what `cloud.reservation_groups` says: its ARN, and the ids of its reservations.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import botocore.session
from moto.core.responses import ActionResult

from localcloud.extensions.ec2.account_limits import check_vcpus
from localcloud.extensions.ec2.state import Ec2State, ec2_error, page

ENDED_WITHIN_SECONDS = 3600.0  # cloud time
RESERVATION_ID = re.compile(r"cr-[0-9a-f]{17}")
FUTURE_DATED = ("StartDate", "CommitmentDuration", "DeliveryPreference")
TAKES_ROOM = ("pending", "running", "stopping")
OPEN = ("pending", "active")
DEFAULT_TYPE = "m1.small"  # botocore, ec2:RunInstances
PLATFORM = "Linux/UNIX"  # of all images here
RESERVED_ONLY = "capacity-reservations-only"


@dataclass
class CapacityReservation:
    """`active_at` is the machine's monotonic clock, `ends_at` the cloud's epoch: inf for one without an end."""

    id: str
    instance_type: str
    zone: str
    platform: str
    total: int
    match_criteria: str
    created: datetime
    end_date: datetime | None
    active_at: float
    ends_at: float
    ended: str | None = None
    tags: dict[str, str] = field(default_factory=dict)


class CapacityReservations:
    """Those of one cloud, and the instances that run in them."""

    def __init__(self, state: Ec2State) -> None:
        self.state = state
        self._made: dict[str, CapacityReservation] = {}
        self.groups = state.cloud.reservation_groups

    # -- the API ---------------------------------------------------------------------------------------------

    def create_capacity_reservation(self, response: Any) -> ActionResult:
        request = response.params
        self._check(request)
        response.error_on_dryrun()
        made: CapacityReservation = self.state.once(
            "CreateCapacityReservation", request, request.get("ClientToken"), lambda: self._create(response)
        )
        return ActionResult({"CapacityReservation": self._described(made)})

    def cancel_capacity_reservation(self, response: Any) -> ActionResult:
        found = self._existing(response.params["CapacityReservationId"])
        response.error_on_dryrun()
        if self._state(found) not in OPEN:
            # AWS documents no code for this: only that pending and active ones can be cancelled.
            raise ec2_error(
                "IncorrectState", f"The capacity reservation '{found.id}' is {self._state(found)}."
            )
        self._end(found, "cancelled")
        return ActionResult({"Return": True})

    def describe_capacity_reservations(self, response: Any) -> ActionResult:
        request = response.params
        for reservation_id in request.get("CapacityReservationIds", []):
            self._existing(reservation_id)
        self._fill_open_ones()
        wanted = set(request.get("CapacityReservationIds", [])) or set(self._made)
        visible = [one for one in self._made.values() if one.id in wanted and self.state.visible(one.id)]
        described = [self._described(one) for one in visible]
        found = [one for one in described if _passes(one, request.get("Filters", []))]
        shown, token = page(response, found)
        return ActionResult({"CapacityReservations": shown, "NextToken": token})

    def modify_instance_capacity_reservation_attributes(self, response: Any) -> ActionResult:
        request = response.params
        instance: Any = self.state.backend.get_instance(request["InstanceId"])
        if instance.state != "stopped":
            raise ec2_error(
                "IncorrectInstanceState",
                f"The instance '{instance.id}' is not in the 'stopped' state: it is {instance.state}.",
            )
        specification = request["CapacityReservationSpecification"]
        target, group = _target(specification), _group(specification)
        if target is not None:
            self._existing(target)
        if group is not None:
            self._members(group)
        response.error_on_dryrun()
        instance.capacity_reservation_specification = _shown(specification)
        return ActionResult({"Return": True})

    # -- launches, starts and stops --------------------------------------------------------------------------

    def check_launch(self, request: Mapping[str, Any], zone: str) -> None:
        """Raises what EC2 raises where the launch names a reservation that it does not fit into."""
        specification = request.get("CapacityReservationSpecification", {})
        kind, count = str(request.get("InstanceType") or DEFAULT_TYPE), int(request.get("MinCount", 1))
        preference = specification.get("CapacityReservationPreference")
        # EC2 API reference, CapacityReservationSpecification.
        if specification.get("CapacityReservationTarget") and preference not in (None, RESERVED_ONLY):
            raise ec2_error(
                "InvalidParameterCombination",
                f"CapacityReservationPreference {preference} cannot be given with CapacityReservationTarget.",
            )
        self._enter(specification, kind, zone, count)

    def launched(self, request: Mapping[str, Any], instances: Sequence[Any]) -> None:
        specification = request.get("CapacityReservationSpecification", {})
        for instance in instances:
            kind, zone = instance.instance_type, instance.placement.availability_zone
            instance.capacity_reservation_specification = _shown(specification)
            instance.capacity_reservation_id = self._room_of(specification, kind, zone, 1)
        self._fill_open_ones()

    def check_start(self, instance: Any) -> None:
        """A stopped instance that targets a reservation starts only there; one that targets a group, there at first."""
        specification = getattr(instance, "capacity_reservation_specification", {})
        if instance.state != "stopped":
            return
        kind, zone = instance.instance_type, instance.placement.availability_zone
        instance.capacity_reservation_id = self._enter(specification, kind, zone, 1)

    def _enter(self, specification: Mapping[str, Any], kind: str, zone: str, count: int) -> str | None:
        """The reservation that so many take, None for on-demand capacity; raises what EC2 raises."""
        target = _target(specification)
        if target is not None:
            self._require_room(target, kind, zone, count)
            return target
        found = self._room_of(specification, kind, zone, count)
        if found is None and specification.get("CapacityReservationPreference") == RESERVED_ONLY:
            raise ec2_error(
                "ReservationCapacityExceeded", f"No reservation has room for {count} {kind} in {zone}."
            )
        if found is None:
            self._check_vcpus(kind, count, "VcpuLimitExceeded")
        return found

    def _room_of(self, specification: Mapping[str, Any], kind: str, zone: str, count: int) -> str | None:
        """The reservation that is named, or the first of the named group that matches and has room."""
        group = _group(specification)
        if group is None:
            return _target(specification)
        wanted = (kind, zone, PLATFORM, "active")
        fitting = (
            one.id
            for one in self._members(group)
            if (one.instance_type, one.zone, one.platform, self._state(one)) == wanted
            and one.total - len(self._within(one)) >= count
        )
        return next(fitting, None)

    def _members(self, group_arn: str) -> list[CapacityReservation]:
        if group_arn not in self.groups:
            # AWS documents no code for a group that is not there.
            raise ec2_error("InvalidParameterValue", f"The resource group '{group_arn}' does not exist.")
        return [self._made[one] for one in self.groups[group_arn] if one in self._made]

    # -- how they stand --------------------------------------------------------------------------------------

    def _check(self, request: Mapping[str, Any]) -> None:
        if any(request.get(name) for name in FUTURE_DATED):
            raise ec2_error(
                "UnsupportedOperation", "The local cloud has no future-dated capacity reservations."
            )
        kind = request["InstanceType"]
        if not any(known.name == kind for known in self.state.backend.instance_types):
            raise ec2_error("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
        if request["InstancePlatform"] not in _platforms():
            raise ec2_error(
                "InvalidParameterValue",
                f"Invalid value '{request['InstancePlatform']}' for InstancePlatform.",
            )
        self.state.zone_of(request)
        if not 1 <= int(request["InstanceCount"]) <= 1000:
            raise ec2_error("InvalidParameterValue", "InstanceCount must be from 1 to 1000.")
        limited, end = request.get("EndDateType", "unlimited") == "limited", _instant(request.get("EndDate"))
        if limited != (end is not None):
            raise ec2_error("InvalidParameterCombination", "EndDate goes with the EndDateType 'limited'.")
        if end is not None and end <= self.state.cloud.clock.now():
            raise ec2_error("InvalidParameterValue", "The EndDate must be in the future.")

    def _check_vcpus(self, kind: str, count: int, code: str) -> None:
        """A place that nobody runs in counts as an instance."""
        rooms = [(one, one.total - len(self._within(one))) for one in self._made.values()]
        empty = [one.instance_type for one, free in rooms if self._state(one) in OPEN for _ in range(free)]
        check_vcpus(self.state, kind, count, code, empty)

    def _create(self, response: Any) -> CapacityReservation:
        request, state = response.params, self.state
        self._check_vcpus(request["InstanceType"], int(request["InstanceCount"]), "InstanceLimitExceeded")
        end = _instant(request.get("EndDate"))
        late = state.random.uniform(0.0, ENDED_WITHIN_SECONDS)
        made = CapacityReservation(
            id=f"cr-{state.random.getrandbits(68):017x}",
            instance_type=request["InstanceType"],
            zone=request["AvailabilityZone"],
            platform=request["InstancePlatform"],
            total=int(request["InstanceCount"]),
            match_criteria=request.get("InstanceMatchCriteria", "open"),
            created=state.cloud.clock.now(),
            end_date=end,
            active_at=time.monotonic() + state.transition_seconds,
            ends_at=float("inf") if end is None else end.timestamp() + late,
        )
        self._made[made.id] = made
        state.created(made.id)
        tags = response._parse_tag_specification().get("capacity-reservation", {})
        made.tags = dict(tags)
        # Where IAM and DescribeTags look for the tags of whatever there is.
        state.backend.tags[made.id] = made.tags
        return made

    def _existing(self, reservation_id: str) -> CapacityReservation:
        if not RESERVATION_ID.fullmatch(reservation_id):
            raise ec2_error("InvalidCapacityReservationId.Malformed", f'Invalid id: "{reservation_id}"')
        found = self._made.get(reservation_id)
        if found is None or not self.state.visible(reservation_id):
            raise ec2_error(
                "InvalidCapacityReservationId.NotFound",
                f"The capacity reservation '{reservation_id}' does not exist.",
            )
        return found

    def _state(self, one: CapacityReservation) -> str:
        if one.ended is None and self.state.cloud.clock.epoch() >= one.ends_at:
            self._end(one, "expired")
        if one.ended is not None:
            return one.ended
        return "active" if time.monotonic() >= one.active_at else "pending"

    def _end(self, one: CapacityReservation, state: str) -> None:
        """What runs in it goes on running, as any other instance."""
        for instance in self._within(one):
            instance.capacity_reservation_id = None
        one.ended = state

    def _within(self, one: CapacityReservation) -> list[Any]:
        return [
            instance
            for instance in self.state.backend.all_instances()
            if getattr(instance, "capacity_reservation_id", None) == one.id and instance.state in TAKES_ROOM
        ]

    def _require_room(self, reservation_id: str, kind: str, zone: str, count: int) -> None:
        one = self._made.get(reservation_id)
        if one is None or self._state(one) not in OPEN:
            raise ec2_error(
                "InvalidCapacityReservationId.NotFound",
                f"The capacity reservation '{reservation_id}' does not exist or has ended.",
            )
        if (one.instance_type, one.zone, one.platform) != (kind, zone, PLATFORM):
            raise ec2_error(
                "InvalidParameterCombination",
                f"{kind} ({PLATFORM}) in {zone} does not match the capacity reservation '{one.id}'.",
            )
        if one.total - len(self._within(one)) < count:
            raise ec2_error(
                "ReservationCapacityExceeded",
                f"The targeted capacity reservation '{one.id}' has not enough room for {count}.",
            )

    def _fill_open_ones(self) -> None:
        """Whatever runs, matches and names none runs in an open reservation by itself."""
        for one in self._made.values():
            if one.match_criteria != "open" or self._state(one) != "active":
                continue
            instances: Iterable[Any] = self.state.backend.all_instances()
            for instance in instances:
                wants = getattr(instance, "capacity_reservation_specification", {})
                place = (instance.instance_type, instance.placement.availability_zone)
                fits = place == (one.instance_type, one.zone)
                free = getattr(instance, "capacity_reservation_id", None) is None
                if fits and free and instance.state == "running" and _is_open(wants):
                    if len(self._within(one)) >= one.total:
                        break
                    instance.capacity_reservation_id = one.id

    def _described(self, one: CapacityReservation) -> dict[str, Any]:
        state = self._state(one)
        account, region = self.state.cloud.settings.account_id, self.state.cloud.settings.region
        return {
            "CapacityReservationId": one.id,
            "OwnerId": account,
            "CapacityReservationArn": f"arn:aws:ec2:{region}:{account}:capacity-reservation/{one.id}",
            "InstanceType": one.instance_type,
            "InstancePlatform": one.platform,
            "AvailabilityZone": one.zone,
            "Tenancy": "default",
            "TotalInstanceCount": one.total,
            "AvailableInstanceCount": one.total - len(self._within(one)) if state in OPEN else 0,
            "EbsOptimized": False,
            "EphemeralStorage": False,
            "State": state,
            "StartDate": one.created,
            "EndDate": one.end_date,
            "EndDateType": "unlimited" if one.end_date is None else "limited",
            "InstanceMatchCriteria": one.match_criteria,
            "CreateDate": one.created,
            "Tags": [{"Key": key, "Value": value} for key, value in one.tags.items()],
        }


def _platforms() -> Sequence[str]:
    model = botocore.session.get_session().get_service_model("ec2")
    shape: Any = model.shape_for("CapacityReservationInstancePlatform")
    return tuple(shape.enum)


def _target(specification: Mapping[str, Any]) -> str | None:
    named = specification.get("CapacityReservationTarget") or {}
    return named.get("CapacityReservationId") or None


def _group(specification: Mapping[str, Any]) -> str | None:
    named = specification.get("CapacityReservationTarget") or {}
    return named.get("CapacityReservationResourceGroupArn") or None


def _shown(specification: Mapping[str, Any]) -> dict[str, Any]:
    """As DescribeInstances answers: the target where there is one, else the preference."""
    target = specification.get("CapacityReservationTarget")
    if target:
        return {"CapacityReservationTarget": dict(target)}
    return {"CapacityReservationPreference": specification.get("CapacityReservationPreference", "open")}


def _is_open(specification: Mapping[str, Any]) -> bool:
    preference = specification.get("CapacityReservationPreference", "open")
    return bool(preference == "open" and not specification.get("CapacityReservationTarget"))


def _passes(described: Mapping[str, Any], filters: Sequence[Mapping[str, Any]]) -> bool:
    for one in filters:
        name = one["Name"].title().replace("-", "")
        if name not in described:
            raise ec2_error("InvalidParameterValue", f"The filter '{one['Name']}' is invalid")
        if described[name] not in one["Values"]:
            return False
    return True


def _instant(value: Any) -> datetime | None:
    if not value:
        return None
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found if found.tzinfo else found.replace(tzinfo=UTC)
