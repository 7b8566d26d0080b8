"""StartReplication: the replica follows the source from the snapshot's position (I11)."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.run.run_facts import builder_of, fact, host_id
from peaker.usecases.run.run_host_command import run_host_command


def start_replication(ports: Ports, step: StepInput) -> Summary:
    """Raises BinlogsGone when the source has purged what the replica lacks."""
    run = ports.ledger.run(step.run_id)
    source = str(fact(run, "source")["private_ip"])
    instance_id = host_id(ports, step.run_id, "replica")
    parameters = {"RunId": builder_of(run), "SourceHost": source}
    numbers = run_host_command(ports, step, "start_replication", instance_id, parameters)
    return Summary(text=f"{instance_id} replicates from {source}", numbers=numbers)
