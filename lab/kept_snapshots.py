"""Makes the snapshots of the seed dataset known to EC2, as a shared snapshot of an account would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.seed import Dataset, load_seed
from localcloud.extensions.ec2.ebs import register_snapshot
from peaker_contract.tags import VOLUME_TAG

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


def install(cloud: OpenCloud) -> None:
    """Register the seed's snapshots when this state directory holds a seed."""
    seed = load_seed(cloud.state_dir, Dataset())
    if cloud.dataplane is None or seed is None:
        return
    for snapshot in seed.snapshots:
        register_snapshot(
            cloud,
            snapshot.snapshot_id,
            snapshot.size_gib,
            description=f"seed dataset of the local cloud, volume {snapshot.name}",
            tags={"localcloud:seed": "orders", VOLUME_TAG: snapshot.name},
        )
