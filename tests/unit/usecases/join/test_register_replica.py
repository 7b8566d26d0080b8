"""RegisterReplica asks once more at the door, and is not overtaken by an undo (I5, I6)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.instants import to_iso
from peaker.domain.runs.ledger import ResourceKind, RunReplica, Source
from peaker.domain.runs.run import StepInput
from peaker.usecases.join.register_replica import register_replica
from peaker.usecases.join.start_database import start_database
from peaker.usecases.join.start_replication import start_replication
from peaker.usecases.run.held_lease import lease_end

from peaker_contract import errors
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import RUN_ID, SOURCE, data_volumes_of, instance, leased, orders, with_cluster
from tests.support.peak import STILL_RUNNING, answers

NEW = "i-000000000000c0002"
SAMPLES = {"samples": [{"lag_seconds": 0}] * 10}
PROOFS: dict[str, dict[str, Any]] = {
    "PrepareDonor": {"server_uuid": "donor"},
    "VerifyStorage": {"verdict": "warm", "launched_at": to_iso(NOON)},
    "StartDatabase": {"server_uuid": "own", "read_only": True, "launched_at": to_iso(NOON)},
    "StartReplication": {"io_running": True, "sql_running": True, "source_host": "10.77.2.20"},
    "WaitForCatchUp": SAMPLES,
}


def proven(ports: CalmPorts, step: StepInput, names: tuple[str, ...] = tuple(PROOFS)) -> None:
    holder, now = step.holder, ports.clock.now()
    for name in names:
        ports.ledger.start_step(holder, name, now, lease_end(now))
        ports.ledger.finish_step(holder, name, now, PROOFS[name])


@pytest.fixture
def ports() -> CalmPorts:
    """A replica that is proven and may be registered."""
    ports = with_cluster(calm_ports(orders()))
    ports.compute.add(instance(NEW, launched_at=NOON))
    given = leased(ports, "WaitForCatchUp")
    holder = given.holder
    for volume in data_volumes_of(NEW):
        ports.storage.add(volume)
        details = {"volume_id": volume.volume_id, "instance_id": NEW, "device": volume.device}
        row = ports.ledger.intend(holder, ResourceKind.ATTACHMENT, str(volume.name), "Made", NOON, details)
        ports.ledger.made(holder, row, f"{volume.volume_id}:{volume.device}", NOON)
    source = Source(instance_id=SOURCE, private_ip="10.77.2.20")
    replica = RunReplica(instance_id=NEW, builder=RUN_ID, running_since=NOON)
    ports.ledger.settle(holder, replica, source)
    proven(ports, given)
    answers(ports, "check_mounts", mounts=mounted())
    return ports


def mounted(**problems: str) -> list[dict[str, str]]:
    """What the host says of its mounts, by volume."""
    places = {"data": "/var/lib/mysql", "log": "/var/lib/mysql-log"}
    return [
        {"name": name, "mount_point": place, "problem": problems.get(name, "")}
        for name, place in places.items()
    ]


def register(ports: CalmPorts) -> None:
    register_replica(ports, leased(ports, "RegisterReplica"))


def refused(ports: CalmPorts, said: str) -> None:
    with pytest.raises(errors.ReplicaChanged, match=said):
        register(ports)
    assert NEW not in ports.endpoint.warming_health(orders())
    assert not [row for row in ports.ledger.resources(RUN_ID) if row.kind is ResourceKind.TARGET]


def failover(ports: CalmPorts) -> None:
    ports.compute.forget(SOURCE)
    ports.compute.add(replace(instance("i-0000000000000050b", "source"), private_ip="10.77.1.9"))


def exchange_a_volume(ports: CalmPorts) -> None:
    taken = ports.storage.volumes["vol-data-0002"]
    ports.storage.add(replace(taken, state="available", instance_id=None))
    ports.storage.add(replace(taken, volume_id="vol-cold"))


def test_a_host_that_does_not_speak_of_a_volume_is_no_proof(ports: CalmPorts) -> None:
    answers(ports, "check_mounts", mounts=mounted()[:1])
    refused(ports, "volume log: its host does not say where it is mounted")


def calls_of_the_endpoint(ports: CalmPorts) -> list[tuple[str, Any]]:
    """Each change of the share, and each registration, with its last argument, in their order."""
    names = ("endpoint.set_share", "endpoint.register")
    return [(one["call"], one["given"][-1]) for one in ports.world.account.log if one["call"] in names]


def test_a_newcomer_begins_at_the_least_share_whatever_the_last_ramp_left(ports: CalmPorts) -> None:
    ports.endpoint.set_share(orders(), 1.0)
    register(ports)
    least = orders().ramp.shares[0]
    assert calls_of_the_endpoint(ports)[-2:] == [("endpoint.set_share", least), ("endpoint.register", NEW)]


def test_a_newcomer_leaves_another_one_of_its_batch_the_share_that_it_has(ports: CalmPorts) -> None:
    ports.endpoint.register(orders(), "i-000000000000c0003")
    ports.endpoint.set_share(orders(), 0.6)
    register(ports)
    assert calls_of_the_endpoint(ports)[-2:] == [("endpoint.set_share", 0.6), ("endpoint.register", NEW)]


def returned(ports: CalmPorts) -> StepInput:
    """Another run has brought the parked replica back; its instance was started an hour ago."""
    ports.lease.release(leased(ports, "ReleaseLease").holder, NOON)
    ports.compute.add(instance(NEW, launched_at=NOON + timedelta(days=1)))
    given = leased(ports, "RegisterReplica", run_id="scale-out-orders-2")
    ports.ledger.settle(given.holder, RunReplica(instance_id=NEW, builder=RUN_ID, running_since=NOON))
    proven(ports, given, ("StartReplication", "WaitForCatchUp"))
    holder, now = given.holder, ports.clock.now()
    ports.ledger.start_step(holder, "StartDatabase", now, lease_end(now))
    started = {**PROOFS["StartDatabase"], "launched_at": to_iso(NOON + timedelta(days=1))}
    ports.ledger.finish_step(holder, "StartDatabase", now, started)
    return given


def test_a_return_needs_the_volumes_of_its_builders_proof_and_todays_start(ports: CalmPorts) -> None:
    register_replica(ports, returned(ports))
    assert NEW in ports.endpoint.warming_health(orders())


def test_a_return_whose_volume_was_exchanged_while_it_was_parked_is_refused(ports: CalmPorts) -> None:
    given = returned(ports)
    exchange_a_volume(ports)
    with pytest.raises(errors.ReplicaChanged, match="vol-cold"):
        register_replica(ports, given)


def test_replication_begins_at_the_source_of_today(ports: CalmPorts) -> None:
    """A failover during the prewarm: the donor followed another one."""
    failover(ports)
    answers(ports, "start_replication", io_running=True, sql_running=True)
    given = leased(ports, "StartReplication", run_id=RUN_ID)
    done = start_replication(ports, given)
    assert done.numbers["source_host"] == "10.77.1.9"
    assert ports.commands.parameters[-1]["SourceHost"] == "10.77.1.9"
    assert ports.ledger.run(RUN_ID).required(Source, "x").instance_id == "i-0000000000000050b"


def test_a_failover_between_two_looks_at_the_command_does_not_change_what_it_follows(
    ports: CalmPorts,
) -> None:
    given = leased(ports, "StartReplication")
    ports.commands.said["start_replication"] = STILL_RUNNING
    with pytest.raises(errors.HostCommandRunning):
        start_replication(ports, given)
    failover(ports)
    answers(ports, "start_replication", io_running=True, sql_running=True)
    assert start_replication(ports, given).numbers["source_host"] == "10.77.2.20"


def test_the_database_s_start_says_on_which_start_of_the_instance_it_ran(ports: CalmPorts) -> None:
    answers(ports, "start_database", server_uuid="own", read_only=True)
    assert start_database(ports, leased(ports, "StartDatabase")).numbers["launched_at"] == to_iso(NOON)
