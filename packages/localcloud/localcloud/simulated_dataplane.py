"""A data plane in memory: what most tests of the product run on.

It keeps the promises of the ports (unknown snapshots, hosts that are down and taken ports are errors), and
what a test wants to happen on the machine is scripted: the answer of a host command, the blocks that were
written, the open connections, the health answers.

    plane = simulated_dataplane(lambda instance_id, argv, environment: RunResult(0, "hello\\n", ""))
    plane.volumes.write("vol-1", {0: b"boot", 5: b"data"})
    plane.endpoints.set_open_connections("reads-3306", "i-1", 12)
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from localcloud.dataplane import (
    BlockDevice,
    DataPlane,
    DataPlaneError,
    HostSpec,
    ReadEndpointSpec,
    RunningCommand,
    RunResult,
    Target,
    TargetStat,
    VolumeLimits,
    VolumeStat,
)

BLOCK_BYTES = 512 * 1024
KILLED_WITH_ITS_HOST = RunResult(137, "", "the host went away\n")


@dataclass(frozen=True)
class After:
    """A host command that takes this many real seconds and then ends with this result."""

    seconds: float
    result: RunResult


Responder = Callable[[str, Sequence[str], Mapping[str, str]], RunResult | After]


def succeed_silently(instance_id: str, argv: Sequence[str], environment: Mapping[str, str]) -> RunResult:
    """The responder of a data plane that was given none: exit code 0, no output."""
    return RunResult(0, "", "")


# -- volumes -------------------------------------------------------------------------------------------------


@dataclass
class SimulatedVolume:
    """One volume: what it holds, and which of its blocks still have to come from the snapshot store."""

    size_bytes: int
    limits: VolumeLimits
    snapshot_id: str | None = None
    blocks: dict[int, bytes] = field(default_factory=dict)
    cold: set[int] = field(default_factory=set)
    blocks_in_snapshot: int = 0
    reads: int = 0
    writes: int = 0
    cold_fetches: int = 0
    device: BlockDevice | None = None


class SimulatedBlockStore:
    """BlockStore in memory, in blocks of 512 KiB."""

    def __init__(self) -> None:
        self._volumes: dict[str, SimulatedVolume] = {}
        self._snapshots: dict[str, dict[int, bytes]] = {}
        self._minor = 0
        self._lock = threading.RLock()

    @property
    def volumes(self) -> Mapping[str, SimulatedVolume]:
        """The volumes that exist, by id."""
        return self._volumes

    @property
    def snapshots(self) -> Mapping[str, Mapping[int, bytes]]:
        """The blocks of the snapshots that exist, by id."""
        return self._snapshots

    def create_volume(
        self, volume_id: str, size_bytes: int, limits: VolumeLimits, snapshot_id: str | None = None
    ) -> None:
        with self._lock:
            if volume_id in self._volumes:
                return
            if snapshot_id is None:
                self._volumes[volume_id] = SimulatedVolume(size_bytes, limits)
                return
            if snapshot_id not in self._snapshots:
                raise DataPlaneError(f"Cannot make {volume_id}: there is no snapshot {snapshot_id}.")
            blocks = dict(self._snapshots[snapshot_id])
            self._volumes[volume_id] = SimulatedVolume(
                size_bytes, limits, snapshot_id, blocks, cold=set(blocks), blocks_in_snapshot=len(blocks)
            )

    def delete_volume(self, volume_id: str) -> None:
        with self._lock:
            self._volumes.pop(volume_id, None)

    def create_snapshots(self, snapshot_id_by_volume_id: Mapping[str, str]) -> None:
        with self._lock:
            sources = {
                snapshot_id: self._volume(volume_id)
                for volume_id, snapshot_id in snapshot_id_by_volume_id.items()
            }
            for snapshot_id, volume in sources.items():
                self._snapshots.setdefault(snapshot_id, dict(volume.blocks))

    def delete_snapshot(self, snapshot_id: str) -> None:
        with self._lock:
            self._snapshots.pop(snapshot_id, None)

    def snapshot_blocks(self, snapshot_id: str) -> Sequence[int]:
        return sorted(self._snapshot(snapshot_id))

    def changed_blocks(self, earlier_id: str, later_id: str) -> Sequence[int]:
        before, after = self._snapshot(earlier_id), self._snapshot(later_id)
        return sorted(
            index for index in before.keys() | after.keys() if before.get(index) != after.get(index)
        )

    def read_snapshot_block(self, snapshot_id: str, block_index: int) -> bytes:
        blocks = self._snapshot(snapshot_id)
        if block_index not in blocks:
            raise DataPlaneError(f"{snapshot_id} holds no block {block_index}.")
        return blocks[block_index]

    def attach(self, volume_id: str) -> BlockDevice:
        with self._lock:
            volume = self._volume(volume_id)
            if volume.device is None:
                self._minor += 1
                volume.device = BlockDevice(f"/dev/simulated{self._minor}", 240, self._minor)
            return volume.device

    def detach(self, volume_id: str) -> None:
        with self._lock:
            if volume_id in self._volumes:
                self._volumes[volume_id].device = None

    def stat(self, volume_id: str) -> VolumeStat:
        with self._lock:
            volume = self._volume(volume_id)
            return VolumeStat(
                blocks_in_snapshot=volume.blocks_in_snapshot,
                blocks_cold=len(volume.cold),
                reads=volume.reads,
                read_bytes=volume.reads * BLOCK_BYTES,
                writes=volume.writes,
                write_bytes=volume.writes * BLOCK_BYTES,
                cold_fetches=volume.cold_fetches,
            )

    def close(self) -> None:
        with self._lock:
            self._volumes.clear()
            self._snapshots.clear()

    # -- what a test does in place of a host's file system -------------------------------------------------

    def write(self, volume_id: str, blocks: Mapping[int, bytes]) -> None:
        """Write blocks (index to content, padded with zeros to 512 KiB); a written block is warm."""
        with self._lock:
            volume = self._volume(volume_id)
            for index, content in blocks.items():
                if not 0 <= index * BLOCK_BYTES < volume.size_bytes:
                    raise DataPlaneError(f"Block {index} lies outside {volume_id}.")
                volume.blocks[index] = content[:BLOCK_BYTES].ljust(BLOCK_BYTES, b"\0")
                volume.cold.discard(index)
                volume.writes += 1

    def read(self, volume_id: str, block_index: int) -> bytes:
        """Read one block; the first read of a cold block fetches it."""
        with self._lock:
            volume = self._volume(volume_id)
            volume.reads += 1
            if block_index in volume.cold:
                volume.cold.discard(block_index)
                volume.cold_fetches += 1
            return volume.blocks.get(block_index, bytes(BLOCK_BYTES))

    def warm(self, volume_id: str, blocks: Iterable[int] | None = None) -> None:
        """Read these blocks, or all that are cold."""
        for index in sorted(self._volume(volume_id).cold) if blocks is None else blocks:
            self.read(volume_id, index)

    def _volume(self, volume_id: str) -> SimulatedVolume:
        if volume_id not in self._volumes:
            raise DataPlaneError(f"There is no volume {volume_id}.")
        return self._volumes[volume_id]

    def _snapshot(self, snapshot_id: str) -> dict[int, bytes]:
        if snapshot_id not in self._snapshots:
            raise DataPlaneError(f"There is no snapshot {snapshot_id}.")
        return self._snapshots[snapshot_id]


# -- hosts ---------------------------------------------------------------------------------------------------


class SimulatedCommand:
    """RunningCommand whose result is known from the start and comes after its delay."""

    def __init__(self, delay_seconds: float, result: RunResult) -> None:
        self._result = result
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._timer = threading.Timer(delay_seconds, self._end, (result,))
        self._timer.daemon = True
        if delay_seconds > 0:
            self._timer.start()
        else:
            self._end(result)

    def wait(self, timeout_seconds: float | None = None) -> RunResult:
        if not self._ended.wait(timeout_seconds):
            self._end(RunResult(None, "", "", timed_out=True))
        return self._result

    def cancel(self) -> None:
        self._end(RunResult(None, "", "", cancelled=True))

    def kill(self) -> None:
        """The host goes away under the command."""
        self._end(KILLED_WITH_ITS_HOST)

    def _end(self, result: RunResult) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            self._result = result
            self._ended.set()
        self._timer.cancel()


@dataclass
class SimulatedHost:
    """One host: whether it is up, the volumes plugged in (device name by volume id), what was run on it, and
    how it was stopped: in order, or killed."""

    spec: HostSpec
    up: bool = True
    plugged: dict[str, str] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    running: list[SimulatedCommand] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)


class SimulatedHosts:
    """Hosts in memory; a command is answered by the responder, which a test may replace at any time."""

    def __init__(self, responder: Responder = succeed_silently) -> None:
        self.responder = responder
        self.unbootable_images: set[str] = set()
        self._hosts: dict[str, SimulatedHost] = {}
        self._lock = threading.RLock()

    @property
    def hosts(self) -> Mapping[str, SimulatedHost]:
        """The hosts that exist, up or stopped, by instance id."""
        return self._hosts

    def launch(self, spec: HostSpec) -> None:
        with self._lock:
            if spec.image_id in self.unbootable_images:
                raise DataPlaneError(f"{spec.instance_id}: image {spec.image_id} does not start.")
            taken = [host.spec.instance_id for host in self._up() if host.spec.private_ip == spec.private_ip]
            if taken and taken != [spec.instance_id]:
                raise DataPlaneError(f"{spec.instance_id}: address {spec.private_ip} is {taken[0]}'s.")
            self._hosts.setdefault(spec.instance_id, SimulatedHost(spec)).up = True

    def stop(self, instance_id: str, force: bool = False) -> None:
        with self._lock:
            host = self._host(instance_id)
            if host.up:
                host.stops.append("killed" if force else "in order")
            host.up = False
            self._kill(host)

    def start(self, instance_id: str) -> None:
        with self._lock:
            self._host(instance_id).up = True

    def terminate(self, instance_id: str) -> None:
        with self._lock:
            host = self._hosts.pop(instance_id, None)
            if host is not None:
                self._kill(host)

    def is_up(self, instance_id: str) -> bool:
        host = self._hosts.get(instance_id)
        return host is not None and host.up

    def plug(self, instance_id: str, device_name: str, volume_id: str, device: BlockDevice) -> None:
        with self._lock:
            host = self._host(instance_id)
            owner = {name: volume for volume, name in host.plugged.items()}.get(device_name)
            if owner not in (None, volume_id):
                raise DataPlaneError(f"{instance_id}: {device_name} is taken by {owner}.")
            host.plugged[volume_id] = device_name

    def unplug(self, instance_id: str, volume_id: str) -> None:
        with self._lock:
            self._host(instance_id).plugged.pop(volume_id, None)

    def start_command(
        self, instance_id: str, argv: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> RunningCommand:
        with self._lock:
            host = self._running(instance_id)
            host.commands.append(tuple(argv))
        answer = self.responder(instance_id, argv, dict(environment or {}))
        if isinstance(answer, RunResult):
            answer = After(0.0, answer)
        command = SimulatedCommand(answer.seconds, answer.result)
        with self._lock:
            host.running.append(command)
        return command

    def close(self) -> None:
        for instance_id in list(self._hosts):
            self.terminate(instance_id)

    def crash(self, instance_id: str) -> None:
        """The host dies without anybody asking: it is down, and its commands end."""
        self.stop(instance_id, force=True)

    def up_at(self, address: str) -> str | None:
        """The instance that is up at this address."""
        return next((host.spec.instance_id for host in self._up() if host.spec.private_ip == address), None)

    def _up(self) -> list[SimulatedHost]:
        return [host for host in list(self._hosts.values()) if host.up]

    def _host(self, instance_id: str) -> SimulatedHost:
        if instance_id not in self._hosts:
            raise DataPlaneError(f"There is no host {instance_id}.")
        return self._hosts[instance_id]

    def _running(self, instance_id: str) -> SimulatedHost:
        host = self._host(instance_id)
        if not host.up:
            raise DataPlaneError(f"Host {instance_id} is not up.")
        return host

    @staticmethod
    def _kill(host: SimulatedHost) -> None:
        for command in host.running:
            command.kill()
        host.running.clear()


# -- read endpoints ------------------------------------------------------------------------------------------


class SimulatedReadEndpoints:
    """ReadEndpoints in memory. A probe is answered from `health` (by address and port); without an entry
    there, a host that is up and whose responder runs (`responds`) answers 200 and everything else does not answer."""

    def __init__(self, hosts: SimulatedHosts) -> None:
        self._hosts = hosts
        self.taken_ports: set[int] = set()
        self.health: dict[tuple[str, int], int | None] = {}
        self.responds: Callable[[str], bool] = lambda _instance_id: True
        self.probes: list[tuple[str, int, str]] = []
        self.closed: list[tuple[str, str, int]] = []
        self._specs: dict[str, ReadEndpointSpec] = {}
        self._open: dict[tuple[str, str], int] = {}
        self._lock = threading.RLock()

    @property
    def specs(self) -> Mapping[str, ReadEndpointSpec]:
        """The endpoints as they were last applied, by name."""
        return self._specs

    def target(self, name: str, instance_id: str) -> Target | None:
        """One target as the endpoint was last told to treat it."""
        spec = self._specs.get(name)
        return next((t for t in spec.targets if t.instance_id == instance_id), None) if spec else None

    def apply(self, spec: ReadEndpointSpec) -> None:
        with self._lock:
            others = {other.listener_port for name, other in self._specs.items() if name != spec.name}
            if spec.listener_port in self.taken_ports | others:
                raise DataPlaneError(f"{spec.name}: port {spec.listener_port} is taken.")
            self._specs[spec.name] = replace(spec, targets=tuple(spec.targets))

    def stats(self, name: str) -> Sequence[TargetStat]:
        with self._lock:
            if name not in self._specs:
                raise DataPlaneError(f"There is no read endpoint {name}.")
            return [
                TargetStat(t.instance_id, self._open.get((name, t.instance_id), 0), 0, 0)
                for t in self._specs[name].targets
            ]

    def close_connections(self, name: str, instance_id: str) -> int:
        with self._lock:
            closed = self._open.pop((name, instance_id), 0)
            self.closed.append((name, instance_id, closed))
            return closed

    def remove(self, name: str) -> None:
        with self._lock:
            self._specs.pop(name, None)

    def probe(self, address: str, port: int, path: str, timeout_seconds: float) -> int | None:
        with self._lock:
            self.probes.append((address, port, path))
            if (address, port) in self.health:
                return self.health[(address, port)]
        instance_id = self._hosts.up_at(address)
        return 200 if instance_id is not None and self.responds(instance_id) else None

    def close(self) -> None:
        with self._lock:
            self._specs.clear()
            self._open.clear()

    def set_open_connections(self, name: str, instance_id: str, connections: int) -> None:
        """Script what stats() reports for a target."""
        with self._lock:
            self._open[(name, instance_id)] = connections


# -- together ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SimulatedDataPlane(DataPlane):
    """The three simulated ports, typed as what they are so that a test can script them."""

    kind: ClassVar[str] = "simulated"
    volumes: SimulatedBlockStore
    hosts: SimulatedHosts
    endpoints: SimulatedReadEndpoints

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self.volumes.close)
            stack.callback(self.hosts.close)
            stack.callback(self.endpoints.close)


def simulated_dataplane(responder: Responder = succeed_silently) -> SimulatedDataPlane:
    """A fresh data plane in memory."""
    hosts = SimulatedHosts(responder)
    return SimulatedDataPlane(SimulatedBlockStore(), hosts, SimulatedReadEndpoints(hosts))
