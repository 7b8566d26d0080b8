"""What the local cloud's control plane asks of the machine: volumes, hosts and read endpoints.

Three ports, each with two implementations: the real one (block devices, namespaces, HAProxy) and the
simulated one that tests use. The control plane (EC2, EBS, SSM and ELBv2 behaviour) is written against
these alone, so that it behaves the same on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol


class DataPlaneError(Exception):
    """The machine refused: the message says what was asked, what happened and what to do."""


@dataclass(frozen=True)
class BlockDevice:
    """A block device node on this machine, e.g. /dev/loop7 with its device number."""

    path: str
    major: int
    minor: int


@dataclass(frozen=True)
class VolumeLimits:
    """What a volume may deliver, and how slow its first touch is."""

    iops: int = 3000
    throughput_mib_per_s: int = 125
    base_latency_ms: float = 0.7
    fetch_latency_ms: float = 30.0
    fetch_parallel: int = 32
    initialization_rate_mib_per_s: int | None = None


@dataclass(frozen=True)
class VolumeStat:
    """Hydration of a volume, counted in blocks of 512 KiB."""

    blocks_in_snapshot: int
    blocks_cold: int
    read_bytes: int
    cold_fetches: int


class BlockStore(Protocol):
    """Volumes and snapshots. Ids are EC2 ids (vol-..., snap-...). Every call is idempotent by id."""

    def create_volume(
        self, volume_id: str, size_bytes: int, limits: VolumeLimits, snapshot_id: str | None = None
    ) -> None:
        """Make a volume: empty (warm), or cold from a snapshot. Raises DataPlaneError if the snapshot is unknown."""

    def delete_volume(self, volume_id: str) -> None:
        """Remove the volume and what it stored. An unknown id is not an error."""

    def create_snapshots(self, snapshot_id_by_volume_id: Mapping[str, str]) -> None:
        """Snapshot all the named volumes at one instant."""

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Remove a snapshot. Volumes made from it stay whole. An unknown id is not an error."""

    def snapshot_blocks(self, snapshot_id: str) -> Sequence[int]:
        """Indices of the 512 KiB blocks that the snapshot holds, ascending (ebs:ListSnapshotBlocks)."""

    def changed_blocks(self, earlier_id: str, later_id: str) -> Sequence[int]:
        """Indices of the blocks written between two snapshots of one lineage, ascending."""

    def attach(self, volume_id: str) -> BlockDevice:
        """Make the volume a block device on this machine. Attaching twice gives the same device."""

    def detach(self, volume_id: str) -> None:
        """Take the block device away. A volume that is not attached is not an error."""

    def stat(self, volume_id: str) -> VolumeStat:
        """Hydration of one volume, and how much was read of it."""

    def close(self) -> None:
        """Detach all, stop the daemon, unmount, release loop devices. Safe to call twice."""


@dataclass(frozen=True)
class HostSpec:
    """What to start: an image under an overlay, with an address of its own."""

    instance_id: str
    image_id: str
    private_ip: str
    hostname: str


@dataclass(frozen=True)
class RunResult:
    """How a command on a host ended. exit_code is None when it was stopped at its time limit or cancelled."""

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool = False
    cancelled: bool = False


class RunningCommand(Protocol):
    """A command that runs on a host as root."""

    def wait(self, timeout_seconds: float | None = None) -> RunResult:
        """Wait for the end; past the limit the command and its children are killed (timed_out=True)."""

    def cancel(self) -> None:
        """Kill the command and its children; wait() then returns cancelled=True."""


class Hosts(Protocol):
    """Instances as namespaces: own network, mounts, processes and host name."""

    def launch(self, spec: HostSpec) -> None:
        """Start the host and return when its init runs. Launching a running id again does nothing."""

    def stop(self, instance_id: str, force: bool = False) -> None:
        """End the host's processes; keep its root filesystem and address (EC2 StopInstances).

        In order: services are stopped, the others get SIGTERM, filesystems are unmounted, and what does not
        end in time is killed. With `force` everything is killed at once, as when the power fails.
        """

    def start(self, instance_id: str) -> None:
        """Start a stopped host again, same address and root filesystem; nothing is mounted, and the services
        that are enabled start by themselves soon after."""

    def terminate(self, instance_id: str) -> None:
        """Kill the host and delete its root filesystem. An unknown id is not an error."""

    def is_up(self, instance_id: str) -> bool:
        """True while the host's init runs (it would answer SSM)."""

    def plug(self, instance_id: str, device_name: str, volume_id: str, device: BlockDevice) -> None:
        """Show a volume in the host as Nitro does: /dev/nvmeXn1, a link at device_name (/dev/sdf) and
        /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol<hex without hyphen>."""

    def unplug(self, instance_id: str, volume_id: str) -> None:
        """Take the nodes away; unmounts nothing (as a forced detach)."""

    def start_command(
        self, instance_id: str, argv: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> RunningCommand:
        """Run argv as root inside the host. Raises DataPlaneError when the host is not up."""

    def close(self) -> None:
        """Terminate every host; remove bridge, namespaces, mounts. Safe to call twice."""


@dataclass(frozen=True)
class Target:
    """One member of a target group as the endpoint should treat it."""

    instance_id: str
    address: str
    port: int
    weight: int = 100
    draining: bool = False
    up: bool = True


@dataclass(frozen=True)
class TargetStat:
    """What the endpoint sees of one target now."""

    instance_id: str
    open_connections: int


@dataclass(frozen=True)
class ReadEndpointSpec:
    """A listener on loopback and the targets behind it.

    refused_weight stands beside the targets' weights: the share of new connections that is closed at once,
    as those are that a load balancer gives to a target group without targets.
    """

    name: str
    listener_port: int
    targets: tuple[Target, ...] = field(default=())
    refused_weight: int = 0


class ReadEndpoints(Protocol):
    """Network load balancers, real ones: TCP from loopback to the hosts."""

    def apply(self, spec: ReadEndpointSpec) -> None:
        """Create the endpoint or change it to this; open connections to kept targets live on, draining
        targets get no new connections. Raises DataPlaneError naming the port when it is taken."""

    def stats(self, name: str) -> Sequence[TargetStat]:
        """Connections per target, draining ones included."""

    def close_connections(self, name: str, instance_id: str) -> int:
        """Close what is still open to a target (deregistration delay ran out); returns how many."""

    def remove(self, name: str) -> None:
        """Remove the endpoint. An unknown name is not an error."""

    def probe(self, address: str, port: int, path: str, timeout_seconds: float) -> int | None:
        """HTTP GET of a health port: the status code, or None for no answer."""

    def close(self) -> None:
        """Stop everything. Safe to call twice."""


@dataclass(frozen=True)
class DataPlane:
    """The three together, closed in the order endpoints, hosts, volumes."""

    kind: ClassVar[str] = "real"
    volumes: BlockStore
    hosts: Hosts
    endpoints: ReadEndpoints

    def close(self) -> None:
        self.endpoints.close()
        self.hosts.close()
        self.volumes.close()
