"""ChooseDonor: the replica to snapshot, and the source that the new one will follow."""

from __future__ import annotations

from peaker.domain.reading import Unknown
from peaker.domain.replicas import donor as rules
from peaker.domain.replicas.data_volumes import data_volumes
from peaker.domain.runs.ledger import Donor, Source
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.plan.gather_fleet import possible_donors
from peaker.usecases.run.run_memory import plan_of_run
from peaker_contract.errors import NoDonor


def choose_donor(ports: Ports, step: StepInput) -> Summary:
    """The planned donor, or another one that fits the plan. Raises NoDonor with the reason for each candidate (I2)."""
    plan = plan_of_run(ports, step)
    terms = rules.DonorTerms(
        plan.volumes,
        ports.clusters.settings(step.cluster).gates.lag_seconds,
        planned=plan.donor,
        planned_gib={volume.name: volume.size_gib for volume in plan.volumes},
    )
    return choose_donor_by(ports, step, terms)


def choose_donor_by(ports: Ports, step: StepInput, terms: rules.DonorTerms) -> Summary:
    """By these terms, for the rest of the run. Raises NoDonor."""
    settings = ports.clusters.settings(step.cluster)
    fleet = possible_donors(ports, settings)
    choice = rules.donor_by(fleet, terms)
    if choice.donor is None:
        raise NoDonor(f"{step.cluster}: {choice.text}")
    if isinstance(fleet.source, Unknown):
        raise NoDonor(f"{step.cluster}: the source is unknown: {fleet.source.why}")
    volumes = data_volumes(choice.donor, terms.volumes)
    donor = Donor(
        instance_id=choice.donor.instance_id,
        volumes={name: volume.volume_id for name, volume in volumes.items()},
    )
    source = Source(instance_id=fleet.source.instance_id, private_ip=fleet.source.private_ip)
    ports.ledger.settle(step.holder, donor, source)
    verdicts = {verdict.instance_id: verdict.reason for verdict in choice.verdicts}
    other = terms.planned is not None and terms.planned != donor.instance_id
    instead = f" instead of {terms.planned}: {choice.reason(str(terms.planned))}" if other else ""
    return Summary(
        text=f"donor {donor.instance_id}{instead}",
        numbers={"donor": choice.donor.instance_id, "candidates": verdicts},
    )
