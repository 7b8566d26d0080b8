"""PrepareDonor: page list dumped, position recorded, layout read, right before the snapshot."""

from __future__ import annotations

from peaker.domain.document.plan import ScaleOutPlan
from peaker.domain.host_results import DonorPrepared, typed
from peaker.domain.runs.batch import Batch
from peaker.domain.runs.ledger import Donor, DonorServer
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.storage.set_manifest import SINGLE, SetManifest, stacks_of, why_not_as_planned
from peaker.ports.bundle import Ports
from peaker.usecases.run.batch_members import require_donor
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import plan_of_run, settled
from peaker_contract.errors import DonorLagging, LayoutRefused


def prepare_donor(ports: Ports, step: StepInput) -> Summary:
    """Raises DonorLagging when the donor is further behind than the gate, or does not know (I4).

    Raises NoDonor where a failover made it the source, and LayoutRefused where its filesystems do not stand on the
    volumes of the plan in the way of the plan.
    """
    gate = ports.clusters.settings(step.cluster).gates.lag_seconds
    instance_id = require_donor(ports, step).instance_id
    plan = plan_of_run(ports, step)
    mount_points = ",".join(dict.fromkeys(volume.mount_point for volume in plan.volumes))
    parameters = {"RunId": step.run_id, "MountPoints": mount_points}
    # A later round begins with what is true then.
    batch = ports.ledger.run(step.run_id).part(Batch)
    anew = batch is not None and len(batch.rounds) > 1
    numbers = run_host_command(ports, step, "prepare_donor", instance_id, parameters, repeat=anew)
    prepared = typed("prepare_donor", DonorPrepared, numbers)
    if prepared.lag_seconds is None or prepared.lag_seconds > gate:
        shown = "unknown" if prepared.lag_seconds is None else f"{prepared.lag_seconds:g} s"
        raise DonorLagging(
            f"{instance_id}: lag is {shown}, gate {gate:g} s; a replica of it would start late"
        )
    ports.ledger.settle(step.holder, DonorServer(facts=prepared.server))
    _settle_manifest(ports, step, plan, prepared)
    return Summary(
        text=f"{instance_id}: lag {prepared.lag_seconds:g} s, {prepared.buffer_pool_pages} pages listed",
        numbers=numbers,
    )


def _settle_manifest(ports: Ports, step: StepInput, plan: ScaleOutPlan, prepared: DonorPrepared) -> None:
    """What the snapshots will be of, for AssembleStorage and for the set that is kept."""
    if prepared.layout is None:
        if any(volume.layout != SINGLE for volume in plan.volumes):
            raise LayoutRefused(
                "the donor's host package does not say what its filesystems stand on; deploy functions and host "
                "package of one release"
            )
        return
    donor = settled(ports, step, Donor)
    stacks = stacks_of(prepared.layout)
    reasons = why_not_as_planned(stacks, plan.volumes, donor.volumes)
    if reasons:
        raise LayoutRefused(f"{donor.instance_id}: {'; '.join(reasons)}")
    manifest = SetManifest(stacks=stacks, gtid_set=prepared.gtid_set, volumes=donor.volumes)
    ports.ledger.settle(step.holder, manifest)
