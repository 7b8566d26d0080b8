"""The stop of a replica's database, and of its instance."""

from __future__ import annotations

from peaker.domain.host_results import DatabaseStopped, typed
from peaker.domain.runs.ledger import Holder, ResourceKind, ResourceRow, of_kind
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of
from peaker.usecases.run.tear_down import require_not_source
from peaker_contract.errors import NotOwned
from peaker_contract.names import OWNER_TAG, RUN_TAG

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
    tags = ports.compute.instance(instance_id).tags
    require_not_source(instance_id, tags)
    if (tags.get(OWNER_TAG), tags.get(RUN_TAG)) != (ports.environment, builder):
        raise NotOwned(
            f"{instance_id} is left alone, only what Peaker made is stopped (I1): tags say owner "
            f"{tags.get(OWNER_TAG)!r} and run {tags.get(RUN_TAG)!r}, the ledger {ports.environment!r} and {builder!r}"
        )
    ports.ledger.require_lease(holder)
    ports.compute.stop(instance_id)
