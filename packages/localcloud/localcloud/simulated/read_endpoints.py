"""Read endpoints in memory: connections and health answers as a test sets them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from localcloud.dataplane import DataPlaneError, ReadEndpointSpec, Target, TargetStat
from localcloud.simulated.hosts import SimulatedHosts


class SimulatedReadEndpoints:
    """ReadEndpoints in memory. A probe is answered from `health` (by address and port); without an entry
    there, a host that is up and whose responder listens there (`responds`) answers 200, everything else not
    at all."""

    def __init__(self, hosts: SimulatedHosts) -> None:
        self._hosts = hosts
        self.taken_ports: set[int] = set()
        self.health: dict[tuple[str, int], int | None] = {}
        self.responds: Callable[[str, int], bool] = lambda _instance_id, _port: True
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
            targets = self._specs[name].targets
            return [TargetStat(t.instance_id, self._open.get((name, t.instance_id), 0)) for t in targets]

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
        return 200 if instance_id is not None and self.responds(instance_id, port) else None

    def close(self) -> None:
        with self._lock:
            self._specs.clear()
            self._open.clear()

    def set_open_connections(self, name: str, instance_id: str, connections: int) -> None:
        """Script what stats() reports for a target."""
        with self._lock:
            self._open[(name, instance_id)] = connections
