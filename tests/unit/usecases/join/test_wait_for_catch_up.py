"""WaitForCatchUp comes after the proof: what happened to the database meanwhile is seen by its mounts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from peaker.domain.runs.ledger import RunReplica, Source
from peaker.usecases.join.wait_for_catch_up import wait_for_catch_up
from peaker.usecases.run.held_lease import lease_end

from peaker_contract import errors
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import RUN_ID, SOURCE, instance, leased, orders, with_cluster
from tests.support.peak import answers

NEW = "i-000000000000c0002"


def proven(database_minutes_before: float = 60, **numbers: Any) -> CalmPorts:
    """A run whose storage proof has ended with these numbers, so long after its database was started."""
    ports = with_cluster(calm_ports(orders()))
    ports.compute.add(instance(NEW, launched_at=NOON))
    holder = leased(ports, "VerifyStorage").holder
    ports.ledger.settle(
        holder,
        RunReplica(instance_id=NEW, builder=RUN_ID, running_since=NOON),
        Source(instance_id=SOURCE, private_ip="10.77.2.20"),
    )
    before = NOON - timedelta(minutes=database_minutes_before)
    for name, at, said in (
        ("StartDatabase", before, {}),
        ("VerifyStorage", NOON, {"verdict": "warm", **numbers}),
    ):
        ports.ledger.start_step(holder, name, at, lease_end(at))
        ports.ledger.finish_step(holder, name, at, said)
    answers(ports, "start_database", server_uuid="own")
    answers(ports, "start_replication", io_running=True, sql_running=True)
    answers(ports, "wait_for_catch_up", samples=[9, 0, 0, 0])
    return ports


def waited(ports: CalmPorts) -> list[Any]:
    """The lag samples that count, after as many tries as it takes."""
    for _ in range(9):
        try:
            return list(wait_for_catch_up(ports, leased(ports, "WaitForCatchUp")).numbers["samples"])
        except errors.HostCommandRunning:
            continue
    raise AssertionError("it never ended")


def test_a_database_that_began_before_the_proof_is_only_waited_for() -> None:
    ports = proven(mounted=True)
    assert waited(ports) == [9, 0, 0, 0]
    assert [document for document, *_ in ports.commands.sent] == ["wait_for_catch_up"]


def test_where_the_proof_found_nothing_mounted_the_database_is_started_again() -> None:
    ports = proven(mounted=False)
    assert waited(ports) == [9, 0, 0, 0]
    documents = [document for document, *_ in ports.commands.sent]
    assert documents == ["start_database", "start_replication", "wait_for_catch_up"]


def test_a_database_that_began_after_the_proof_is_only_waited_for() -> None:
    ports = proven(database_minutes_before=-1, mounted=False)
    assert waited(ports) == [9, 0, 0, 0]
    assert [document for document, *_ in ports.commands.sent] == ["wait_for_catch_up"]
