"""StartReplication: the replica follows the source from the snapshot's position (I11)."""

from __future__ import annotations

from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.run_facts import fact, host_id
from peaker.usecases.run_host_command import run_host_command


def start_replication(ports: Ports, step: StepInput) -> Summary:
    """Fails on the host when the source has purged what the replica lacks."""
    source = str(fact(ports.ledger.run(step.run_id), "source")["private_ip"])
    instance_id = host_id(ports, step.run_id, "replica")
    parameters = {"RunId": step.run_id, "SourceHost": source}
    numbers = run_host_command(ports, step, "start_replication", instance_id, parameters)
    return Summary(text=f"{instance_id} replicates from {source}", numbers=numbers)
