"""CreateVolumes: one per snapshot, in the instance's zone."""

from __future__ import annotations

from dataclasses import replace

from peaker.domain.limits.admission import Admission, VolumeRates
from peaker.domain.planning.methods.rate_reservation import rate_of, rates_of, seconds_in_use, with_rates
from peaker.domain.planning.methods.situation import GIB
from peaker.domain.planning.plan import PlannedVolume, ScaleOutPlan
from peaker.domain.replicas.inventory import Volume, VolumeSpec
from peaker.domain.runs.ledger import ResourceKind
from peaker.domain.runs.run import StepInput, Summary, client_token
from peaker.domain.runs.run_memory import Placement
from peaker.ports import Ports
from peaker.usecases.plan.shared_limits import hold_rate
from peaker.usecases.run.batch_members import shared_run
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.resource_tags import resource_tags
from peaker.usecases.run.run_memory import approved_plan, made_id, settled
from peaker_contract.errors import AwsCallRejected, CapacityUnavailable
from peaker_contract.tags import VOLUME_TAG


def create_volumes(ports: Ports, step: StepInput) -> Summary:
    """A volume that the run has already, by tag and name, is taken over (I10).

    At the planned initialization rates as far as the run has reserved them (ReserveLimits), else at the default rate.
    Raises CapacityUnavailable, and AwsCallRejected for what EC2 refuses also without a provisioned rate.
    """
    zone = settled(ports, step, Placement).zone
    existing = {volume.name: volume for volume in ports.storage.volumes_of_run(step.run_id)}
    made: dict[str, str] = {}
    plan = approved_plan(ports, step)
    settled_rates = _rates(ports, step, plan)
    notes = list(settled_rates.notes)
    for planned in with_rates(plan.volumes, settled_rates.rates):
        row = ports.ledger.intend(
            holder_of(step), ResourceKind.VOLUME, planned.name, step.step, ports.clock.now(), {}
        )
        volume = existing.get(planned.name) or _create(ports, step, planned, zone, notes)
        ports.ledger.made(holder_of(step), row, volume.volume_id, ports.clock.now())
        made[planned.name] = volume.volume_id
    return Summary(
        text=f"{len(made)} volumes in {zone}", numbers={"volumes": made, "zone": zone, "notes": notes}
    )


def _rates(ports: Ports, step: StepInput, plan: ScaleOutPlan) -> VolumeRates:
    """From now on the rates are in use until the volumes have arrived: the reservation begins anew, for that long."""
    run, planned = ports.ledger.run(step.run_id), rates_of(plan.volumes)
    found, admission = run.part(VolumeRates), run.part(Admission)
    if found is not None:
        return found
    if not rate_of(planned) or admission is None:
        # A run of the version before has reserved nothing. Needed for as long as `older_runs` is.
        return VolumeRates(rates=planned)
    why: str | None = "; ".join(admission.notes)
    if admission.rate_mib_per_s:
        ports.ledger.require_lease(holder_of(step))
        seconds = seconds_in_use(_bytes(ports, step, plan), planned)
        why = hold_rate(ports, step.run_id, step.cluster, rate_of(planned), seconds)
    if why is None:
        return ports.ledger.settle_first(holder_of(step), VolumeRates(rates=planned))
    none = VolumeRates(rates=dict.fromkeys(planned, None), notes=(f"at the default rate: {why}",))
    return ports.ledger.settle_first(holder_of(step), none)


def _bytes(ports: Ports, step: StepInput, plan: ScaleOutPlan) -> dict[str, float]:
    """What each volume's snapshot holds; where EC2 does not say, the whole volume."""
    taken_by = shared_run(step)
    rows, found = ports.ledger.resources(taken_by), ports.storage.snapshots_of_run(taken_by)
    held = {one.snapshot_id: one.full_size_bytes for one in found}
    return {
        one.name: float(held.get(made_id(rows, ResourceKind.SNAPSHOT, one.name)) or one.size_gib * GIB)
        for one in plan.volumes
    }


def _create(ports: Ports, step: StepInput, planned: PlannedVolume, zone: str, notes: list[str]) -> Volume:
    spec = _spec(ports, step, planned, zone)
    ports.ledger.require_lease(holder_of(step))
    try:
        return ports.storage.create_volume(spec, client_token(step.run_id, step.step, planned.name))
    except (CapacityUnavailable, AwsCallRejected) as refusal:
        if spec.initialization_rate_mib_per_s is None:
            raise
        # Others of the account may use its quota of provisioned rate, for which no error code is documented: what is
        # refused is tried again without a rate. Default hydration is slower, not wrong.
        notes.append(f"{planned.name}: without a provisioned initialization rate ({refusal})")
        slower = replace(spec, initialization_rate_mib_per_s=None)
        return ports.storage.create_volume(
            slower, client_token(step.run_id, step.step, planned.name, "default")
        )


def _spec(ports: Ports, step: StepInput, planned: PlannedVolume, zone: str) -> VolumeSpec:
    rows = ports.ledger.resources(shared_run(step))
    return VolumeSpec(
        snapshot_id=made_id(rows, ResourceKind.SNAPSHOT, planned.name),
        zone=zone,
        size_gib=planned.size_gib,
        volume_type=planned.volume_type,
        iops=planned.iops,
        throughput_mib_per_s=planned.throughput_mib_per_s,
        initialization_rate_mib_per_s=planned.initialization_rate_mib_per_s,
        tags={**resource_tags(ports, step), VOLUME_TAG: planned.name},
    )
