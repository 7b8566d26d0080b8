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
from dataclasses import dataclass
from typing import ClassVar

from localcloud.dataplane import DataPlane
from localcloud.simulated.hosts import Responder, SimulatedHosts, succeed_silently
from localcloud.simulated.read_endpoints import SimulatedReadEndpoints
from localcloud.simulated.volumes import SimulatedBlockStore


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
