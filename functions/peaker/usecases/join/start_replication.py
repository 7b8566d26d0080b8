"""StartReplication: the replica follows the source of today from the snapshot's position (I11)."""

from __future__ import annotations

from peaker.domain.reading import Unknown
from peaker.domain.runs.ledger import Source
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.plan.gather_fleet import source_of
from peaker.usecases.run.batch_members import shared
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of, host_id


def start_replication(ports: Ports, step: StepInput) -> Summary:
    """Raises BinlogsGone when the source has purged what the replica lacks.

    A prewarm takes hours: the source may be another one than when the donor was chosen. The one to follow is settled
    when the command is sent.
    """
    instance_id = host_id(ports, step, "replica")
    numbers = run_host_command(
        ports, step, "start_replication", instance_id, lambda: _parameters(ports, step)
    )
    followed = shared(ports, step, Source).private_ip
    return Summary(
        text=f"{instance_id} replicates from {followed}", numbers={**numbers, "source_host": followed}
    )


def _parameters(ports: Ports, step: StepInput) -> dict[str, str]:
    """An unknown source is that of the plan for now; RegisterReplica asks again."""
    source = source_of(ports, ports.clusters.settings(step.cluster))
    if not isinstance(source, Unknown):
        ports.ledger.settle(step.holder, Source(instance_id=source.instance_id, private_ip=source.private_ip))
    builder = builder_of(ports.ledger.run(step.run_id))
    return {"RunId": builder, "SourceHost": shared(ports, step, Source).private_ip}
