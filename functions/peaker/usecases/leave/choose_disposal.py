"""The choice between parking a replica and retiring it, compared in seconds to service and USD."""

from __future__ import annotations

from peaker.domain.document.disposal import Disposal
from peaker.domain.runs.ledger import RunReplica
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.plan.disposal import disposal_of
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.run.held_lease import holder_of
from peaker_contract.errors import LedgerInconsistent


def choose_disposal(ports: Ports, step: StepInput) -> Disposal:
    """Settles the disposal once per run; later calls give the same answer."""
    run = ports.ledger.run(step.run_id)
    before = run.part(Disposal)
    if before is not None:
        return before
    settings = ports.clusters.settings(step.cluster)
    instance_id = run.required(RunReplica, step.step).instance_id
    fleet = gather_fleet(ports, settings, with_volumes=True)
    replica = fleet.replica(instance_id)
    if replica is None:
        raise LedgerInconsistent(f"{instance_id} is not among the replicas of {step.cluster} any more")
    disposal = disposal_of(ports, settings, fleet, replica)
    ports.ledger.settle(holder_of(step), disposal)
    return disposal
