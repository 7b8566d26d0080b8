"""What the functions may use for any cluster, where that is more than what the clusters of the file name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import Field

from environments.clusters_by_endpoint import by_endpoint
from peaker_contract.cluster import ClusterBlock
from peaker_contract.field_types import Fault, Location, Settings, text

_AT_MOST = 20
ImagePattern = Annotated[str, text(r"^ami-[0-9a-f*]{1,17}$", "an image id; * stands for any characters")]
SubnetPattern = Annotated[str, text(r"^subnet-[0-9a-f*]{1,17}$", "a subnet id; * stands for any characters")]
GroupPattern = Annotated[
    str, text(r"^sg-[0-9a-f*]{1,17}$", "a security group id; * stands for any characters")
]
RolePattern = Annotated[
    str,
    text(
        r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/*-]*[A-Za-z0-9_+=,.@/-][A-Za-z0-9_+=,.@/*-]*$",
        "the ARN of a role, such as arn:aws:iam::111111111111:role/mysql-*, with more than * for its name; "
        "* stands for any characters",
        512,
    ),
]
KeyPattern = Annotated[
    str,
    text(
        r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9*-]+$",
        "the ARN of a KMS key; * in its id stands for any characters",
        256,
    ),
]
ZonePattern = Annotated[str, text(r"^Z[A-Z0-9]{1,31}$", "a hosted zone id such as Z0123456789ABCDEFGHIJ")]
RecordPattern = Annotated[
    str,
    text(
        r"^[a-z0-9*]([a-z0-9_*.-]*[a-z0-9_*])?$",
        "a DNS name in small letters without a dot at its end, such as *.reads.internal; * stands for any characters",
        255,
    ),
]


def _listed(description: str, example: str) -> Any:
    return Field(
        default=None, min_length=1, max_length=_AT_MOST, description=description, examples=[[example]]
    )


class MayUse(Settings):
    """What the functions may use for any cluster. A list that is given is all of it: every cluster keeps to it, and one
    that does is added without a change of the shared stacks. Of what has no list, the functions may use what the
    clusters of this file name."""

    image_patterns: tuple[ImagePattern, ...] | None = _listed(
        "Images that replicas may boot from.", "ami-0b0d0000000000001"
    )
    subnet_patterns: tuple[SubnetPattern, ...] | None = _listed(
        "Subnets that replicas may be launched into.", "subnet-0b0d000000000001a"
    )
    security_group_patterns: tuple[GroupPattern, ...] | None = _listed(
        "Security groups that replicas may have.", "sg-0b0d0000000000001"
    )
    instance_role_patterns: tuple[RolePattern, ...] | None = _listed(
        "Roles that replicas may have by their instance profiles.", "arn:aws:iam::111111111111:role/mysql-*"
    )
    kms_key_patterns: tuple[KeyPattern, ...] | None = _listed(
        "Customer-managed keys that volumes may be under.",
        "arn:aws:kms:us-east-1:111111111111:key/*",
    )
    hosted_zones: tuple[ZonePattern, ...] | None = _listed(
        "Hosted zones of the clusters' DNS names.", "Z0123456789ABCDEFGHIJ"
    )
    record_patterns: tuple[RecordPattern, ...] | None = _listed(
        "DNS names that clusters may be read by.", "*.reads.internal"
    )


def clusters_keep_to(
    account: str, may_use: MayUse | None, clusters: Sequence[ClusterBlock]
) -> Iterator[Fault]:
    """A cluster that names what no pattern of its list allows."""
    if may_use is None:
        return
    endpoints = {one.name: endpoint for one, endpoint in by_endpoint(clusters).by_name}
    for index, cluster in enumerate(clusters):
        named: list[tuple[str, Location, str]] = [
            ("image_patterns", ("image_id",), cluster.image_id),
            *(("subnet_patterns", ("subnets", zone), subnet) for zone, subnet in cluster.subnets.items()),
            *(
                ("security_group_patterns", ("security_group_ids", at), one)
                for at, one in enumerate(cluster.security_group_ids)
            ),
            *(("kms_key_patterns", ("kms_key_arns", at), one) for at, one in enumerate(cluster.kms_key_arns)),
        ]
        if endpoint := endpoints.get(cluster.name):
            named += [
                ("hosted_zones", ("read_endpoint", "hosted_zone_id"), endpoint.hosted_zone_id),
                ("record_patterns", ("read_endpoint", "record_name"), endpoint.record_name),
            ]
        named += _role(account, cluster)
        for field, at, value in named:
            patterns: tuple[str, ...] | None = getattr(may_use, field)
            if patterns is not None and not any(_fits(value, one) for one in patterns):
                message = f"must be one that may_use.{field} allows ({', '.join(patterns)}), got {value}"
                yield Fault(("clusters", index, *at), message)


def _role(account: str, cluster: ClusterBlock) -> Iterator[tuple[str, Location, str]]:
    """The console gives a profile and its role the same name."""
    if given := getattr(cluster, "instance_role_arn", None):
        yield "instance_role_patterns", ("instance_role_arn",), given
    elif cluster.instance_profile:
        role = f"arn:aws:iam::{account}:role/{cluster.instance_profile}"
        yield "instance_role_patterns", ("instance_profile",), role


def _fits(value: str, pattern: str) -> bool:
    """ARNs are compared behind their partition, which the account's region decides."""
    given, wanted = (one.split(":", 2)[2] if one.startswith("arn:") else one for one in (value, pattern))
    return fnmatchcase(given, wanted)
