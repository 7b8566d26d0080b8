"""The ports on EC2 and EBS: instances, volumes, snapshots, their keys and the account's quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from peaker.domain.limits.account_limits import Quota
    from peaker.domain.reading import Unknown
    from peaker.domain.replicas.inventory import (
        CapacityReservation,
        Instance,
        InstancePromise,
        InstanceSpec,
        Snapshot,
        Volume,
        VolumeSpec,
    )
    from peaker.domain.storage.block_list import BlockRuns
    from peaker_contract.cluster import ClusterSettings


class Compute(Protocol):
    """Instances. A list never holds an instance that EC2 no longer knows; terminated ones may appear."""

    def instances_of_cluster(self, cluster: str) -> list[Instance]:
        """All with the cluster's tag, terminated ones left out."""

    def instances_of_environment(self, cluster: str | None = None) -> list[Instance]:
        """All that this environment owns, by the owner's tag, of one cluster or of all; terminated ones left out."""

    def instances_of_run(self, run_id: str) -> list[Instance]:
        """All that carry the run's tag, terminated ones left out."""

    def instance(self, instance_id: str) -> Instance:
        """One instance. Raises ResourceNotFound."""

    def on_demand_instances(self) -> Sequence[Instance] | Unknown:
        """All of the account and region, whoever owns them, that run or begin to, on demand and not on a host of their
        own: those that count in its quotas of vCPUs. Unknown where the list is too long or too slow."""

    def default_vcpus(self, instance_types: Sequence[str]) -> Mapping[str, int]:
        """What each of the types has by default; one that EC2 does not know is left out."""

    def ebs_promise(self, instance_type: str) -> InstancePromise:
        """What the type delivers to all its volumes; its fields are None where EC2 does not say."""

    def image_keys(self, image_id: str) -> Sequence[str] | Unknown:
        """The KMS keys that the image's volumes are under; Unknown where its snapshots are another account's.

        Raises ResourceNotFound for an image that is gone or not shared with this account.
        """

    def image_devices(self, image_id: str) -> Sequence[str]:
        """The device names that the image maps: no volume can be attached under one of them."""

    def platform(self, image_id: str) -> str | Unknown:
        """What instances of the image are billed as; Unknown where EC2 says nothing that runs MySQL.

        Raises ResourceNotFound for an image that is gone or not shared with this account.
        """

    def capacity_reservations(self) -> list[CapacityReservation]:
        """The open capacity reservations of the account and region, whoever made them."""

    def launch(self, spec: InstanceSpec, client_token: str) -> Instance:
        """Launch one. The same token gives the same instance. Raises CapacityUnavailable."""

    def stop(self, instance_id: str) -> None:
        """Begin to stop; its volumes and address stay. Stopped or stopping already is not an error."""

    def start(self, instance_id: str, capacity_reservation_group_arn: str | None = None) -> None:
        """Begin to start what is stopped, in room of that group's reservations where they have some for it; running
        already is not an error. Raises CapacityUnavailable."""

    def terminate(self, instance_id: str) -> None:
        """Begin to terminate. An unknown or terminated id is not an error."""


class Storage(Protocol):
    """Volumes and snapshots."""

    def volumes_of_instance(self, instance_id: str) -> list[Volume]:
        """All that are attached to it, the root volume included."""

    def volumes_of_run(self, run_id: str) -> list[Volume]:
        """All that carry the run's tag and are not deleted."""

    def volumes_of_environment(self, cluster: str | None = None) -> list[Volume]:
        """All that this environment owns, by the owner's tag, of one cluster or of all, and that are not deleted."""

    def volumes_of_type(self, volume_type: str) -> Sequence[Volume] | Unknown:
        """All of the account and region, whoever owns them, that are not being deleted: those that count in its quotas.

        Unknown where the list is too long or too slow.
        """

    def snapshots_of_run(self, run_id: str) -> list[Snapshot]:
        """All that carry the run's tag."""

    def snapshots_of_environment(self, cluster: str | None = None) -> list[Snapshot]:
        """All that this environment owns, by the owner's tag, of one cluster or of all."""

    def snapshots_of_volumes(self, volume_ids: Sequence[str]) -> list[Snapshot]:
        """The account's snapshots of these volumes, whoever made them: ours, a backup's, a person's."""

    def create_snapshots(
        self, instance_id: str, volume_ids: Sequence[str], tags: Mapping[str, str]
    ) -> list[Snapshot]:
        """Snapshot exactly these volumes of the instance at one instant. Not idempotent: look by tag first."""

    def name_snapshot(self, snapshot_id: str, volume_name: str) -> None:
        """Tag a snapshot with the name of its volume. Raises ResourceNotFound also while EC2 does not find it yet."""

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete. An unknown id is not an error."""

    def create_volume(self, spec: VolumeSpec, client_token: str) -> Volume:
        """Create from a snapshot. The same token gives the same volume. Raises CapacityUnavailable on a quota."""

    def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        """Begin to attach. Attached to this instance already is not an error, nor in use by whom EC2 does not show yet;
        at another instance, or in another zone, is VolumeFailed."""

    def delete_volume(self, volume_id: str) -> None:
        """Delete. An unknown id is not an error; a volume that is still attached raises UndoInProgress."""


class SnapshotBlocks(Protocol):
    """What snapshots hold."""

    def held(self, snapshot_id: str, pages_at_most: int, seconds_at_most: float) -> BlockRuns | Unknown:
        """The blocks that it holds; Unknown when its list has more pages than that, or takes longer."""


class VolumeKeys(Protocol):
    """KMS keys of volumes."""

    def why_not_usable(self, key_arn: str, settings: ClusterSettings) -> str | None:
        """Why EBS could not use this key for a new volume; None when it can, and for AWS's own keys.

        A dry run: the key's state, the settings and the key's policy. Nothing is encrypted.
        """


class AccountQuotas(Protocol):
    """What AWS lets the account have in its region."""

    def value(self, quota: Quota) -> float | None:
        """The account's own value, or AWS's default where it has none; None where Service Quotas has neither."""
