"""What test clusters have of the account, whoever made it, and how it goes back.

A test that leaves its hosts and volumes takes from all later tests of its local cloud: the account's quotas are as
narrow as on AWS, and a plan refuses what does not fit any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

GONE = ("shutting-down", "terminated")


def restore(ec2: Any, clusters: Sequence[str], eventually: Callable[[Callable[[], bool]], None]) -> None:
    """Terminate the clusters' hosts, cancel what they reserved, delete their volumes and snapshots.

    `eventually` waits until something is true, or raises.
    """
    if not clusters:
        return
    of_clusters = [{"Name": "tag:peaker:cluster", "Values": list(clusters)}]
    hosts = list(_hosts(ec2, of_clusters))
    if hosts:
        ec2.terminate_instances(InstanceIds=hosts)
    for reservation_id in _reservations(ec2, clusters):
        ec2.cancel_capacity_reservation(CapacityReservationId=reservation_id)
    eventually(lambda: all(one["State"] == "available" for one in _volumes(ec2, of_clusters)))
    for volume in _volumes(ec2, of_clusters):
        ec2.delete_volume(VolumeId=volume["VolumeId"])
    for snapshot in _pages(ec2, "describe_snapshots", "Snapshots", of_clusters):
        ec2.delete_snapshot(SnapshotId=snapshot["SnapshotId"])


def _hosts(ec2: Any, filters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for group in _pages(ec2, "describe_instances", "Reservations", filters):
        for host in group["Instances"]:
            if host["State"]["Name"] not in GONE:
                yield host["InstanceId"]


def _reservations(ec2: Any, clusters: Sequence[str]) -> Iterator[str]:
    # DescribeCapacityReservations knows no filter by tag.
    active = [{"Name": "state", "Values": ["active"]}]
    for one in _pages(ec2, "describe_capacity_reservations", "CapacityReservations", active):
        if any(tag["Key"] == "peaker:cluster" and tag["Value"] in clusters for tag in one["Tags"]):
            yield one["CapacityReservationId"]


def _volumes(ec2: Any, filters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return _pages(ec2, "describe_volumes", "Volumes", filters)


def _pages(ec2: Any, call: str, of: str, filters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    pages = ec2.get_paginator(call).paginate(Filters=list(filters))
    return [one for page in pages for one in page[of]]
