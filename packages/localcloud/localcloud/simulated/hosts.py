"""Hosts in memory, whose commands a script answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from localcloud.dataplane import BlockDevice, DataPlaneError, HostSpec, RunningCommand, RunResult

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
        # Called with the instance id of a host that goes down or away.
        self.when_down: Callable[[str], None] = lambda _: None
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
        self.when_down(instance_id)

    def start(self, instance_id: str) -> None:
        with self._lock:
            self._host(instance_id).up = True

    def terminate(self, instance_id: str) -> None:
        with self._lock:
            host = self._hosts.pop(instance_id, None)
            if host is not None:
                self._kill(host)
        self.when_down(instance_id)

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
