"""LoadBufferPool: the pages that were hot on the donor are in memory."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of, host_id


def load_buffer_pool(ports: Ports, step: StepInput) -> Summary:
    """The page list travelled inside the snapshot."""
    instance_id = host_id(ports, step, "replica")
    numbers = run_host_command(
        ports, step, "load_buffer_pool", instance_id, {"RunId": builder_of(ports.ledger.run(step.run_id))}
    )
    return Summary(text=f"{numbers.get('pages')} pages in {numbers.get('seconds')} s", numbers=numbers)
