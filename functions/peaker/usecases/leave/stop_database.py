"""Stop a replica's database cleanly, so that its instance can be stopped."""

from __future__ import annotations

from peaker.domain.host_results import DatabaseStopped, typed
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, of_kind
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of

PARK_STEP = "ParkReplica"


def stop_database(ports: Ports, step: StepInput, instance_id: str) -> DatabaseStopped:
    """A clean shutdown; the volumes are unmounted. Raises HostCommandRunning and HostCommandFailed."""
    document = "stop_database"
    builder = builder_of(ports.ledger.run(step.run_id))
    numbers = run_host_command(ports, step, document, instance_id, {"RunId": builder})
    return typed(document, DatabaseStopped, numbers)


def stop_commands(ports: Ports, run_id: str, step_name: str = PARK_STEP) -> list[ResourceRow]:
    """What the step told the host; stopping the database is all that it ever asks. Sent or about to be sent."""
    rows = of_kind(ports.ledger.resources(run_id), ResourceKind.COMMAND)
    return [row for row in rows if row.step == step_name]
