"""The hostile cloud: whole workflows within a moment, the same for the same seed, and as hard as AWS."""

from __future__ import annotations

import importlib
import pkgutil
import threading
from typing import Any

import pytest
from peaker import ports
from peaker.domain.replicas.inventory import InstanceSpec
from peaker.ports.bundle import Ports

from peaker_contract.errors import AwsCallRejected
from peaker_contract.names import RUN_TAG
from sim.account import Account, state_at
from sim.table import MemoryTable
from sim.workflows.interferences import LandsLate
from sim.workflows.virtual_time import VirtualTime
from sim.world import EFFECTS, NEVER_RAISE, PORTS, READS, WRITES, World
from tests.faults.test_scenarios import a_world


def peaks(world: World) -> list[str]:
    """The states of the instances that runs made."""
    made = [one for one in world.account.instances.values() if RUN_TAG in one["tags"]]
    return [state_at(one, world.time.seconds) for one in made]


@pytest.mark.parametrize("endpoint", ["nlb", "route53"])
def test_a_replica_is_built_serves_and_is_retired(endpoint: str) -> None:
    with a_world(endpoint=endpoint) as world:
        built = world.run("scale_out")
        assert (built.status, built.states[-1], peaks(world)) == (
            "SUCCEEDED",
            "ReplicaInService",
            ["running"],
        )
        world.load(measured=20, required=1, surplus=1)
        gone = world.run("scale_in")
        assert (gone.status, gone.states[-1], peaks(world)) == ("SUCCEEDED", "ReplicaRetired", ["terminated"])


def test_the_same_seed_is_the_same_history() -> None:
    def history(seed: int) -> list[object]:
        with a_world(seed) as world:
            world.run("scale_out")
            return [(one["at"], one["call"], one["step"]) for one in world.account.log]

    assert history(3) == history(3)
    assert history(3) != history(4)


def test_what_was_launched_shows_late_and_the_same_token_gives_it_again() -> None:
    with a_world() as world:
        one = world.clusters.settings("orders")
        zone = InstanceSpec(
            one.image_id, one.instance_type, one.subnets["us-east-1a"], (), None, {RUN_TAG: "r"}
        )
        made = world.compute.launch(zone, "token")
        world.account.instances[made.instance_id]["shown"] = 20.0
        assert world.compute.instances_of_run("r") == []
        assert world.compute.launch(zone, "token").instance_id == made.instance_id
        other = InstanceSpec(one.image_id, one.instance_type, one.subnets["us-east-1b"], (), None, {})
        with pytest.raises(AwsCallRejected, match="IdempotentParameterMismatch"):
            world.compute.launch(other, "token")
        world.run_for(60)
        assert [found.state for found in world.compute.instances_of_run("r")] == ["running"]


def test_a_peak_is_served_by_the_next_type_when_no_zone_has_room_for_the_first() -> None:
    with a_world(fallback_instance_types=["r6i.xlarge"]) as world:
        world.account.full_types.add("r6i.large")
        built = world.run("scale_out")
        assert (built.status, peaks(world)) == ("SUCCEEDED", ["running"])
        [replica] = [one for one in world.account.instances.values() if RUN_TAG in one["tags"]]
        assert replica["type"] == "r6i.xlarge"


def test_a_call_lands_after_its_execution_was_stopped() -> None:
    with a_world() as world:
        execution = world.start("scale_out")
        late = LandsLate(
            at="commands.send",
            functions=world.functions,
            seconds=50,
            hit=lambda: world.time.after(0, lambda: world.stop(execution)) and None,
        )
        world.functions.interfere = lambda one: late if one.state == "PrepareDonor" else None
        world.finish(execution)
        world.run_for(60)
        [sent] = [one for one in world.account.log if one["step"] == "PrepareDonor"]
        assert execution.ended is not None
        assert sent["at"] == pytest.approx(execution.ended + 50)


def test_every_method_of_the_ports_is_a_read_an_effect_or_a_write() -> None:
    """A new one that changes something must be in EFFECTS or WRITES, or no fault finds it."""
    with a_world() as world:
        protocols = {name: type_of_port(name) for name in PORTS}
        methods = {
            f"{name}.{method}"
            for name, protocol in protocols.items()
            for method in vars(protocol)
            if not method.startswith("_")
        }
        assert {one.split(".")[1] for one in methods - EFFECTS - WRITES - NEVER_RAISE} <= READS
        missing = [
            one for one in methods if not hasattr(getattr(world.ports, one.split(".")[0]), one.split(".")[1])
        ]
        assert missing == []


def type_of_port(name: str) -> type:
    """The port that the bundle has under the name; each subject of the package has some."""
    of_the_bundle = Ports.__annotations__[name]
    subjects = [
        importlib.import_module(f"peaker.ports.{one.name}") for one in pkgutil.iter_modules(ports.__path__)
    ]
    found: set[type] = {vars(one)[of_the_bundle] for one in subjects if of_the_bundle in vars(one)}
    [port] = found
    return port


class SlowTable(MemoryTable):
    """Between the first look at an item and what is written of it, another writer has its chance."""

    def __init__(self) -> None:
        super().__init__(Account(), VirtualTime())
        self.looked, self.another_wrote = threading.Event(), threading.Event()

    def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        found = super().get(pk, sk)
        if not self.looked.is_set():
            self.looked.set()
            self.another_wrote.wait(0.5)
        return found

    def count(self) -> None:
        self.update_if("run#1", "counted", "ADD times :one", "attribute_not_exists(closed)", {":one": 1})


def test_a_condition_and_its_change_are_one_for_branches_side_by_side_as_in_dynamodb() -> None:
    table = SlowTable()

    def another() -> None:
        table.looked.wait()
        table.count()
        table.another_wrote.set()

    thread = threading.Thread(target=another)
    thread.start()
    table.count()
    thread.join()
    assert table.get("run#1", "counted") == {"pk": "run#1", "sk": "counted", "times": 2}
