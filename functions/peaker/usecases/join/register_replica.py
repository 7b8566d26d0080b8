"""RegisterReplica: the proven replica goes behind the read endpoint, into its warming group."""

from __future__ import annotations

from peaker.domain.runs.ledger import ResourceKind, StepRow
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.service.registration import missing_proofs
from peaker.ports import Ports
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.run_memory import builder_of, host_id
from peaker_contract.errors import RegistrationRefused
from peaker_contract.steps import Method
from peaker_contract.way_into_service import states_passed

TARGET_ROW = "read-endpoint"
# What a return does not pass was proven by the run that built the replica.
PROVEN_BY_THE_BUILDER = states_passed(Method.BUILD) - states_passed(Method.RETURN)


def register_replica(ports: Ports, step: StepInput) -> Summary:
    """Raises RegistrationRefused and names each proof that is missing (I5)."""
    settings = ports.clusters.settings(step.cluster)
    instance_id = host_id(ports, step, "replica")
    missing = missing_proofs(_proofs(ports, step.run_id), settings)
    if missing:
        raise RegistrationRefused(
            f"{instance_id} is not registered before it is proven (I5): {'; '.join(missing)}"
        )
    holder, now = holder_of(step), ports.clock.now()
    row = ports.ledger.intend(
        holder, ResourceKind.TARGET, TARGET_ROW, step.step, now, {"instance_id": instance_id}
    )
    ports.endpoint.register(settings, instance_id)
    ports.ledger.made(holder, row, instance_id, ports.clock.now())
    return Summary(text=f"{instance_id} registered", numbers={"target": instance_id})


def _proofs(ports: Ports, run_id: str) -> dict[str, StepRow]:
    """The run's steps. A replica that returns was proven warm by the run that built it; its volumes never left it."""
    builder = builder_of(ports.ledger.run(run_id))
    proven = (
        {}
        if builder == run_id
        else {row.step: row for row in ports.ledger.steps(builder) if row.step in PROVEN_BY_THE_BUILDER}
    )
    return {**proven, **{row.step: row for row in ports.ledger.steps(run_id)}}
