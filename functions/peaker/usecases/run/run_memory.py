"""The run's memory reads back from the ledger what earlier steps settled and made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from peaker.domain.document.plan import PlannedBuild, ScaleOutPlan
from peaker.domain.runs.ledger import Donor, PartT, ResourceKind, ResourceRow, RunReplica, RunRow, find
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.run.batch_members import shared
from peaker_contract.errors import LedgerInconsistent, ResourceNotFound
from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, LOAD_TAG, OWNER_TAG, ROLE_TAG, RUN_TAG


def settled(ports: Ports, step: StepInput, kind: type[PartT]) -> PartT:
    """The part that this step needs. Raises LedgerInconsistent when no earlier step has settled it."""
    return ports.ledger.run(step.run_id).required(kind, step.step)


def opened_run(ports: Ports, run_id: str) -> RunRow | None:
    """Returns the run's row; None for a run that was stopped before AcquireLease opened it: it has made nothing."""
    try:
        return ports.ledger.run(run_id)
    except LedgerInconsistent:
        return None


def step_began(ports: Ports, step: StepInput, name: str | None = None) -> datetime | None:
    """Returns the first start of this step, or of the run's step `name`; None when the ledger has none."""
    wanted = name or step.step
    return next((row.started_at for row in ports.ledger.steps(step.run_id) if row.step == wanted), None)


def time_in_step(ports: Ports, step: StepInput, name: str | None = None) -> timedelta:
    """Returns the time since that start; zero when the ledger has none."""
    now = ports.clock.now()
    return now - (step_began(ports, step, name) or now)


def plan_of_run(ports: Ports, step: StepInput) -> ScaleOutPlan:
    """Returns the plan that the run builds, whatever the settings are by now. Raises LedgerInconsistent when
    nothing was planned.
    """
    return settled(ports, step, ScaleOutPlan)


def build_of_run(ports: Ports, step: StepInput) -> PlannedBuild:
    """Returns the planned build, whatever the settings are by now. Raises LedgerInconsistent without one."""
    planned = plan_of_run(ports, step).build
    if planned is None:
        raise LedgerInconsistent(f"the plan of {step.run_id} does not say how a replica is built")
    return planned


def intend(
    ports: Ports, step: StepInput, kind: ResourceKind, name: str, details: Mapping[str, Any] | None = None
) -> ResourceRow:
    """Writes that this step is about to make it, once for a kind and name; returns the row that is there."""
    return ports.ledger.intend(step.holder, kind, name, step.step, ports.clock.now(), details or {})


def instance_state(ports: Ports, instance_id: str) -> str:
    """EC2's word; "terminated" also for an instance that EC2 has forgotten."""
    try:
        return ports.compute.instance(instance_id).state
    except ResourceNotFound:
        return "terminated"


def made_id(rows: list[ResourceRow], kind: ResourceKind, name: str) -> str:
    """The id of something that the run made. Raises LedgerInconsistent when it is not there."""
    row = find(rows, kind, name)
    if row is None or row.resource_id is None:
        raise LedgerInconsistent(f"the ledger has no id of {kind.value} {name}; an earlier step must make it")
    return row.resource_id


def builder_of(run: RunRow) -> str:
    """The run that built the replica which this run works on: an earlier one, or this run itself."""
    replica = run.part(RunReplica)
    return run.run_id if replica is None else replica.builder


def host_id(ports: Ports, step: StepInput, host: Literal["donor", "replica"]) -> str:
    """The instance id of the run's donor or replica."""
    if host == "donor":
        return shared(ports, step, Donor).instance_id
    return settled(ports, step, RunReplica).instance_id


def resource_tags(ports: Ports, step: StepInput) -> dict[str, str]:
    """Returns the tags that everything carries from the moment it is made (I7); a volume's name comes on top."""
    return {
        OWNER_TAG: ports.environment,
        RUN_TAG: step.run_id,
        ENVIRONMENT_TAG: ports.environment,
        CLUSTER_TAG: step.cluster,
        ROLE_TAG: "replica",
        LOAD_TAG: "peak",
    }
