"""The stop of a replica's database, and of its instance."""

from __future__ import annotations

from peaker.domain.host_results import DatabaseStopped, typed
from peaker.domain.runs.ledger import Holder, ResourceKind, ResourceRow, of_kind
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of
from peaker.usecases.run.tear_down import require_owned

PARK_STEP = "ParkReplica"


def stop_database(ports: Ports, step: StepInput, instance_id: str) -> DatabaseStopped:
    """Shuts the database down cleanly and unmounts its volumes. Raises HostCommandRunning and HostCommandFailed."""
    parameters = {"RunId": builder_of(ports.ledger.run(step.run_id))}
    return typed(
        "stop_database",
        DatabaseStopped,
        run_host_command(ports, step, "stop_database", instance_id, parameters),
    )


def stop_commands(ports: Ports, run_id: str, step_name: str = PARK_STEP) -> list[ResourceRow]:
    """Returns the step's commands, sent or about to be sent: all of them stop the database."""
    rows = of_kind(ports.ledger.resources(run_id), ResourceKind.COMMAND)
    return [row for row in rows if row.step == step_name]


def stop_owned_instance(ports: Ports, holder: Holder, instance_id: str, builder: str) -> None:
    """Stops the instance, with its tags read anew immediately before (I1), and the lease (I6).

    Raises NotOwned and LeaseLost, and leaves it alone.
    """
    require_owned(ports, instance_id, builder)
    ports.ledger.require_lease(holder)
    ports.compute.stop(instance_id)
