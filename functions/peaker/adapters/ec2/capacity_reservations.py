"""On-demand capacity reservations through EC2: of one instance each, targeted, and with an end of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated
from peaker.adapters.ec2.compute import tag_dict, tag_list
from peaker.domain.reading import Unknown
from peaker.domain.reserved_capacity.places import OPEN_STATES, CapacityReservation, ReservationSpec
from peaker_contract.errors import AwsCallRejected, ResourceNotFound
from peaker_contract.tags import OWNER_TAG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import CapacityReservationTypeDef, FilterTypeDef

# Of the platforms that EC2 reserves room for (botocore, CapacityReservationInstancePlatform) those that run MySQL
# under Linux. An image's PlatformDetails are the same words.
_PLATFORMS = frozenset({"Linux/UNIX", "Red Hat Enterprise Linux", "RHEL with HA", "SUSE Linux", "Ubuntu Pro"})
# What `reserve` asks for. EC2 names no filter for tags here (botocore, ec2:DescribeCapacityReservations).
_OURS: tuple[FilterTypeDef, ...] = (
    {"Name": "instance-match-criteria", "Values": ["targeted"]},
    {"Name": "end-date-type", "Values": ["limited"]},
)


class Ec2CapacityReservations:
    """Port CapacityReservations. Another environment of the same account may have a cluster of the same name."""

    def __init__(self, ec2: EC2Client, environment: str) -> None:
        self._ec2 = ec2
        self._environment = environment

    def of_environment(self) -> list[CapacityReservation]:
        return [one for one in self._listed(_OURS) if one.tags.get(OWNER_TAG) == self._environment]

    def of_account(self) -> list[CapacityReservation]:
        return self._listed([{"Name": "state", "Values": sorted(OPEN_STATES)}])

    def platform(self, image_id: str) -> str | Unknown:
        with translated("ec2:DescribeImages"):
            found = self._ec2.describe_images(ImageIds=[image_id])["Images"]
        if not found:
            raise ResourceNotFound(f"ec2:DescribeImages: no image {image_id}")
        platform = found[0].get("PlatformDetails", "")
        if platform in _PLATFORMS:
            return platform
        return Unknown(f"{image_id} is billed as {platform or 'nothing that EC2 names'}")

    def reserve(self, spec: ReservationSpec, client_token: str) -> str:
        with translated("ec2:CreateCapacityReservation"):
            answer = self._ec2.create_capacity_reservation(
                ClientToken=client_token,
                InstanceType=spec.instance_type,
                InstancePlatform=spec.platform,  # type: ignore[arg-type]
                AvailabilityZone=spec.zone,
                InstanceCount=1,
                InstanceMatchCriteria="targeted",
                EndDateType="limited",
                EndDate=spec.ends_at,
                TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": tag_list(spec.tags)}],
            )
        return answer["CapacityReservation"]["CapacityReservationId"]

    def cancel(self, reservation_id: str) -> None:
        try:
            with translated("ec2:CancelCapacityReservation"):
                self._ec2.cancel_capacity_reservation(CapacityReservationId=reservation_id)
        except ResourceNotFound:
            return
        except AwsCallRejected:
            # AWS documents no error for one that has ended: its state says so.
            there = self._listed(_OURS)
            if any(one.reservation_id == reservation_id and one.is_open for one in there):
                raise

    def _listed(self, filters: Sequence[FilterTypeDef]) -> list[CapacityReservation]:
        pages = self._ec2.get_paginator("describe_capacity_reservations").paginate(Filters=list(filters))
        with translated("ec2:DescribeCapacityReservations"):
            return [_reservation(one) for page in pages for one in page["CapacityReservations"]]


def _reservation(raw: CapacityReservationTypeDef) -> CapacityReservation:
    return CapacityReservation(
        reservation_id=raw["CapacityReservationId"],
        state=raw["State"],
        zone=raw["AvailabilityZone"],
        instance_type=raw["InstanceType"],
        total=raw["TotalInstanceCount"],
        available=raw["AvailableInstanceCount"],
        tags=tag_dict(raw.get("Tags")),
    )
