"""The fixed network and images: the ids that an environment for the local cloud names."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


VPC_ID = "vpc-0a770000000000001"
VPC_CIDR = "10.77.0.0/16"
SUBNETS = {  # subnet id: (zone letter, range)
    "subnet-0a77000000000001a": ("a", "10.77.1.0/24"),
    "subnet-0a77000000000001b": ("b", "10.77.2.0/24"),
}
SECURITY_GROUP_ID = "sg-0a770000000000001"
# MySQL and the health responder, from the whole VPC.
OPEN_PORTS = (3306, 9200)
IMAGES = {"ami-0a770000000000097": "peaker-mysql-9.7", "ami-0a770000000001011": "peaker-mariadb-10.11"}
ROOT_DEVICE = "/dev/xvda"


def seed_network_and_images(cloud: OpenCloud) -> None:
    """Make the VPC, subnets, security group and images whose ids the local environment names."""
    backend = ec2_backends[cloud.settings.account_id][cloud.settings.region]
    with _next_id("vpcs.random_vpc_id", VPC_ID):
        backend.create_vpc(VPC_CIDR, tags=[{"Key": "Name", "Value": "peaker-local"}])
    for subnet_id, (letter, cidr) in SUBNETS.items():
        with _next_id("subnets.random_subnet_id", subnet_id):
            backend.create_subnet(VPC_ID, cidr, availability_zone=f"{cloud.settings.region}{letter}")
    with _next_id("security_groups.random_security_group_id", SECURITY_GROUP_ID):
        backend.create_security_group("peaker-replicas", "MySQL replicas of the local cloud", VPC_ID)
    for port in OPEN_PORTS:
        backend.authorize_security_group_ingress(
            SECURITY_GROUP_ID, "tcp", str(port), str(port), [{"CidrIp": VPC_CIDR}], vpc_id=VPC_ID
        )
    architecture = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    for image_id, name in IMAGES.items():
        backend.amis[image_id] = Ami(
            backend,
            image_id,
            name=name,
            description=f"{name}, a root filesystem of the local cloud",
            virtualization_type="hvm",
            architecture=architecture,
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name=ROOT_DEVICE,
            region_name=f"{cloud.settings.region}a",
        )


@contextmanager
def _next_id(name: str, value: str) -> Iterator[None]:
    with mock.patch(f"moto.ec2.models.{name}", return_value=value):
        yield
