"""The world when nothing is left to chance, for whoever asks one use case at a time.

What takes seconds in the cloud has come at once, what takes longer takes its shortest time, and lists are not late.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, TypeVar

from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.ports.bundle import Ports

from peaker_contract.cluster import ClusterSettings
from sim import others
from sim.ebs import HostileStorage
from sim.ec2 import HostileCompute
from sim.endpoint import HostileEndpoint
from sim.ssm import HostileCommands
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import Each, Raises
from sim.workflows.virtual_time import VirtualTime
from sim.world import ENVIRONMENT, World

T = TypeVar("T")
AT_ONCE_BELOW_SECONDS = 10.0


class Calm(random.Random):
    """Chance that brings the earliest, or with `late` the latest."""

    late = False

    def uniform(self, a: float, b: float) -> float:
        return b if self.late else (a if a >= AT_ONCE_BELOW_SECONDS else 0.0)

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[-1 if self.late else 0]

    def random(self) -> float:
        return 1.0 if self.late else 0.0


class CalmClock:
    """Port Clock: virtual time that stands still until it is moved."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time

    def now(self) -> datetime:
        return self._time.now()

    def advance(self, time: timedelta = timedelta(0), **by: float) -> None:
        self._time.run(self._time.seconds + (time + timedelta(**by)).total_seconds())


@dataclass(frozen=True)
class CalmPorts(Ports):
    """The ports of an empty world, typed as what they are there, so that a test may plant things behind them."""

    clock: CalmClock
    clusters: others.Clusters
    compute: HostileCompute
    storage: HostileStorage
    commands: HostileCommands
    endpoint: HostileEndpoint
    snapshot_blocks: others.Blocks
    run_files: others.RunFiles
    lease: DynamoDbLease
    ledger: DynamoDbLedger
    readings: others.Readings
    price_list: others.PriceList
    stored_prices: others.StoredPrices
    volume_keys: others.VolumeKeys
    account_quotas: others.AccountQuotas
    operators: others.Operators
    world: World
    chance: Calm
    each: Each

    def done(self, *calls: str) -> list[Any]:
        """The first argument of each of these calls that had an effect: `compute.terminate`."""
        return [one["given"][0] for one in self.world.account.log if one["call"] in calls]

    def asked(self, call: str) -> list[tuple[Any, ...]]:
        """The arguments of each of these calls, also of those that were refused."""
        return [given for name, given in self.each.heard if name == call]

    def meets(self, *faults: Interference) -> None:
        """From now on the calls meet these interferences."""
        self.each.faults.extend(faults)

    def refuses(self, call: str, error: Exception, of: object = None) -> None:
        """From now on this call (with this argument) is answered with the error, until `answers_all`."""
        self.meets(Raises(at=call, error=error, of=of, always=True))

    def answers_all(self) -> None:
        self.each.faults.clear()


def calm_ports(*clusters: ClusterSettings) -> CalmPorts:
    """An empty world with these clusters."""
    chance = Calm()
    world = World(0, *clusters, chance=chance, empty=True)
    ports = {one.name: getattr(world.ports, one.name) for one in fields(Ports)}
    ports |= {"environment": ENVIRONMENT, "clock": CalmClock(world.time)}
    each = Each()
    world.functions.current = Invocation(0, "", "", None, {}, 0.0, math.inf, 1, fault=each)
    return CalmPorts(**ports, world=world, chance=chance, each=each)
