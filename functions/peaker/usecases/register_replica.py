"""RegisterReplica: the proven replica goes behind the read endpoint, into its warming group."""

from __future__ import annotations

from peaker.domain.errors import RegistrationRefused
from peaker.domain.ledger import ResourceKind
from peaker.domain.registration import missing_proofs
from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.held_lease import holder_of
from peaker.usecases.run_facts import host_id

TARGET_ROW = "read-endpoint"


def register_replica(ports: Ports, step: StepInput) -> Summary:
    """Raises RegistrationRefused and names each proof that is missing (I5)."""
    settings = ports.clusters.settings(step.cluster)
    instance_id = host_id(ports, step.run_id, "replica")
    steps = {row.step: row for row in ports.ledger.steps(step.run_id)}
    missing = missing_proofs(steps, settings)
    if missing:
        raise RegistrationRefused(f"{instance_id} is not proven (I5): {'; '.join(missing)}")
    holder, now = holder_of(step), ports.clock.now()
    row = ports.ledger.intend(
        holder, ResourceKind.TARGET, TARGET_ROW, step.step, now, {"instance_id": instance_id}
    )
    ports.endpoint.register(settings, instance_id)
    ports.ledger.made(holder, row, instance_id, ports.clock.now())
    return Summary(text=f"{instance_id} registered", numbers={"target": instance_id})
