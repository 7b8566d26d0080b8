"""Where the ports on hosts and volumes are tried: the cloud in memory, calm and hostile, and the adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from peaker.domain.replicas.inventory import Instance, InstanceSpec
from peaker.ports.cloud import Compute, Storage
from peaker.ports.hosts import CommandRunner

from peaker_contract.errors import ResourceNotFound
from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, OWNER_TAG, RUN_TAG
from sim.calm import Calm
from sim.world import ENVIRONMENT, World, settings
from tests.contract.conftest import Adapters
from tests.support.workflow_cloud import WorkflowCloud

DOCUMENT = "install_host_package"
PARAMETERS: Mapping[str, str] = {"PackageUrl": "https://packages.test/p.pyz"}
LONGEST_SECONDS = 900
UNKNOWN_HOST, UNKNOWN_VOLUME = "i-0123456789abcdef0", "vol-0123456789abcdef0"
UNKNOWN_SNAPSHOT = "snap-0123456789abcdef0"


class Stage(Protocol):
    """The three ports, a spec that fits them, and time that passes."""

    compute: Compute
    storage: Storage
    commands: CommandRunner
    spec: InstanceSpec
    document: tuple[str, Mapping[str, str]]

    def now(self) -> datetime:
        """The stage's time."""

    def eventually(self, holds: Callable[[], bool]) -> None:
        """Let time pass until it holds; fails when it never does."""

    def data_volume(self, instance_id: str, device: str) -> str:
        """A volume that nobody's tags name, attached."""


def running(stage: Stage, token: str, run: str = "run-1") -> Instance:
    """An instance of that run; its agent answers."""
    made = stage.compute.launch(spec_of(stage, run), token)
    stage.eventually(lambda: state_of(stage, made.instance_id) == "running")
    stage.eventually(lambda: stage.commands.agent(made.instance_id).is_online)
    return stage.compute.instance(made.instance_id)


def spec_of(stage: Stage, run: str) -> InstanceSpec:
    one = stage.spec
    return InstanceSpec(
        one.image_id, one.instance_type, one.subnet_id, one.security_group_ids, None, tags_of(run)
    )


def tags_of(run: str) -> dict[str, str]:
    return {
        RUN_TAG: run, CLUSTER_TAG: "orders", OWNER_TAG: ENVIRONMENT, ENVIRONMENT_TAG: ENVIRONMENT,
    }  # fmt: skip


def state_of(stage: Stage, instance_id: str) -> str:
    """EC2 shows a new instance late."""
    try:
        return stage.compute.instance(instance_id).state
    except ResourceNotFound:
        return ""


class HostileStage:
    """Time passes only here; a `calm` one leaves nothing to chance."""

    document = (DOCUMENT, PARAMETERS)

    def __init__(self, *, calm: bool = False) -> None:
        self._world = World(1, settings(), chance=Calm() if calm else None)
        self.compute = self._world.compute
        self.storage = self._world.storage
        self.commands = self._world.commands
        one = settings()
        self.spec = InstanceSpec(one.image_id, one.instance_type, one.subnets["us-east-1a"], (), None, {})

    def now(self) -> datetime:
        return self._world.time.now()

    def eventually(self, holds: Callable[[], bool]) -> None:
        until = self._world.time.seconds + LONGEST_SECONDS
        while not holds():
            assert self._world.time.seconds < until, "it never came"
            self._world.time.seconds += 1.0

    def data_volume(self, instance_id: str, device: str) -> str:
        made = self.storage.made(self._world.account.next_id("vol"), "us-east-1a", 1, {}, None)["id"]
        self.eventually(lambda: self._try_to_attach(made, instance_id, device))
        return str(made)

    def _try_to_attach(self, volume_id: str, instance_id: str, device: str) -> bool:
        found = [one for one in self.storage.volumes_of_instance(instance_id) if one.volume_id == volume_id]
        if not found and self._world.time.seconds >= self._available_from(volume_id):
            self.storage.attach(volume_id, instance_id, device)
        return any(one.attachment_state == "attached" for one in found)

    def _available_from(self, volume_id: str) -> float:
        return float(self._world.account.volumes[volume_id]["history"][-1][0])


@dataclass
class AwsStage:
    """The adapters on the local cloud."""

    aws: Adapters
    document: tuple[str, Mapping[str, str]] = ("nothing", {})

    def __post_init__(self) -> None:
        self.compute = self.aws.compute
        self.storage = self.aws.storage
        self.commands = self.aws.commands
        self.spec = self.aws.spec()

    def now(self) -> datetime:
        return self.aws.cloud.clock.now()

    def eventually(self, holds: Callable[[], bool]) -> None:
        WorkflowCloud.eventually(holds)

    def data_volume(self, instance_id: str, device: str) -> str:
        return self.aws.data_volume(instance_id, device)
