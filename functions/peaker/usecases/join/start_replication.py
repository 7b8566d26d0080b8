"""StartReplication: the replica follows the source from the snapshot's position (I11)."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.runs.run_memory import Source
from peaker.ports import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of, host_id


def start_replication(ports: Ports, step: StepInput) -> Summary:
    """Raises BinlogsGone when the source has purged what the replica lacks."""
    run = ports.ledger.run(step.run_id)
    source = run.required(Source, step.step).private_ip
    instance_id = host_id(ports, step, "replica")
    parameters = {"RunId": builder_of(run), "SourceHost": source}
    numbers = run_host_command(ports, step, "start_replication", instance_id, parameters)
    return Summary(text=f"{instance_id} replicates from {source}", numbers=numbers)
