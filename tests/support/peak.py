"""A cluster with a peak replica in service that an earlier run built, in memory; and what its host answers."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus, TargetState
from peaker.domain.runs.ledger import ResourceKind
from peaker.domain.runs.run import StepInput
from peaker.usecases.leave.drain_replica import drain_replica
from peaker.usecases.leave.retire_replica import retire_replica
from peaker.usecases.run.release_lease import release_lease

from peaker_contract import errors
from peaker_contract.endpoint_settings import NLB_PROPAGATION_SECONDS
from peaker_contract.names import LOAD_TAG, OWNER_TAG, RUN_TAG
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import RUN_ID, data_volumes_of, instance, leased, orders, with_cluster

PEAK = "i-000000000000c0002"
IN_RUN = "scale-in-orders-20261121T120000-77aa"
# Systems Manager on a command whose host works on, and a host on whether it does.
STILL_RUNNING = CommandOutcome(CommandStatus.RUNNING)
AT_WORK = CommandOutcome(CommandStatus.SUCCESS, stdout='{"version": 1, "ok": true, "at_work": true}')
TAGS = {OWNER_TAG: "local", RUN_TAG: RUN_ID}


def with_peak(ports: CalmPorts, size_gib: int = 4) -> CalmPorts:
    """A cluster with a serving peak replica made by an earlier run, and a low load."""
    with_cluster(ports)
    ports.commands.said |= {"*": STILL_RUNNING, "report_work": AT_WORK}
    built = leased(ports, "AwaitHealthy")
    holder = built.holder
    ports.compute.add(instance(PEAK, tags={**TAGS, LOAD_TAG: "peak"}, launched_at=NOON - timedelta(hours=5)))
    made = [
        (ResourceKind.INSTANCE, "replica", PEAK, {}),
        (ResourceKind.TARGET, "t", PEAK, {"instance_id": PEAK}),
    ]
    for volume in data_volumes_of(PEAK, TAGS, size_gib):
        ports.storage.add(volume)
        made.append((ResourceKind.VOLUME, str(volume.name), volume.volume_id, {}))
    for kind, name, resource_id, details in made:
        row = ports.ledger.intend(holder, kind, name, "Made", NOON, details)
        ports.ledger.made(holder, row, resource_id, NOON)
    ports.ledger.set_replica(holder, ReplicaRow("orders", PEAK, RUN_ID, ReplicaState.IN_SERVICE, NOON))
    ports.endpoint.set(PEAK, TargetState.HEALTHY)
    release_lease(ports, built)
    answers(ports, "check_mounts", mounts=[])
    ports.readings.loads["orders"] = 50.0
    ports.readings.metrics["orders", "RequiredReplicas"] = 1
    return ports


def step(ports: CalmPorts, name: str, **request: Any) -> StepInput:
    return leased(ports, name, "scale_in", IN_RUN, request={"cluster": "orders", **request})


def answers(ports: CalmPorts, document: str, **numbers: Any) -> None:
    """The host's answer to a document from now on."""
    text = json.dumps({"version": 1, "ok": True, **numbers})
    ports.commands.said[document] = CommandOutcome(CommandStatus.SUCCESS, stdout=text)


def commands_that(**said: CommandOutcome) -> CalmPorts:
    """A cluster with two base replicas whose hosts answer so, and work for ever on all other documents."""
    ports = with_cluster(calm_ports(orders()))
    ports.compute.add(instance("i-000000000000b0002"))
    ports.commands.said |= {"*": STILL_RUNNING, **said}
    return ports


def drain_to_idle(ports: CalmPorts, given: StepInput) -> dict[str, Any]:
    """The numbers of a drain that finds nobody from its first sample to its last."""
    with pytest.raises(errors.ReplicaDraining):
        drain_replica(ports, given)
    ports.clock.advance(seconds=NLB_PROPAGATION_SECONDS)
    return dict(drain_replica(ports, given).numbers)


def clients(ports: CalmPorts, connections: int, statements: int = 0) -> None:
    """Who is on the replica, and how many statements clients have run."""
    answers(ports, "drain_replica", connections=connections, transactions=0, client_statements=statements)


def retired(ports: CalmPorts) -> None:
    """RetireReplica is called until the replica is gone."""
    for _ in range(10):
        try:
            retire_replica(ports, step(ports, "RetireReplica"))
            break
        except errors.RetirementInProgress:
            ports.clock.advance(minutes=2)
    assert ports.ledger.replicas("orders")[PEAK].state is ReplicaState.RETIRED
