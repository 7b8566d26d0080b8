"""StartDatabase: MySQL runs on the warm copy, read-only, with an identity of its own."""

from __future__ import annotations

import hashlib
import json

from peaker.domain.instants import to_iso
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of, host_id
from peaker_contract.cluster import ClusterSettings


def start_database(ports: Ports, step: StepInput) -> Summary:
    """Fails when crash recovery or the error log shows a torn copy."""
    instance_id = host_id(ports, step, "replica")
    parameters = start_parameters(ports, step, instance_id)
    numbers = run_host_command(ports, step, "start_database", instance_id, parameters)
    launched_at = to_iso(ports.compute.instance(instance_id).launched_at)
    return Summary(
        text=f"server_uuid {numbers.get('server_uuid')}", numbers={**numbers, "launched_at": launched_at}
    )


def health_policy(settings: ClusterSettings) -> str:
    """Returns the policy of the replica's health responder, as the host takes it (JSON)."""
    return json.dumps({"lag_seconds": settings.gates.lag_seconds}, separators=(",", ":"))


def start_parameters(ports: Ports, step: StepInput, instance_id: str) -> dict[str, str]:
    """Returns the parameters of start_database, for the copy's first start and for a later one."""
    settings = ports.clusters.settings(step.cluster)
    return {
        "RunId": builder_of(ports.ledger.run(step.run_id)),
        "ServerId": str(server_id(instance_id)),
        "Health": health_policy(settings),
        **settings.host_parameters,
    }


def server_id(instance_id: str) -> int:
    """A server_id from 1 to 2^32 - 1 that is the instance's own; the same for every retry."""
    digest = hashlib.sha256(instance_id.encode()).digest()
    return int.from_bytes(digest[:4], "big") or 1
