"""Makes the snapshots of the seed datasets known to EC2, as shared snapshots of an account would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.seed import kept_snapshots
from localcloud.extensions.ec2.ebs import register_snapshot
from peaker_contract.names import VOLUME_TAG

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


def install(cloud: OpenCloud) -> None:
    """Register the snapshots of every seed that this state directory holds."""
    if cloud.dataplane is None:
        return
    for snapshot in kept_snapshots(cloud.state_dir):
        register_snapshot(
            cloud,
            snapshot.snapshot_id,
            snapshot.size_gib,
            description=f"seed dataset of the local cloud, volume {snapshot.name}",
            tags={"localcloud:seed": "orders", VOLUME_TAG: snapshot.name},
        )
