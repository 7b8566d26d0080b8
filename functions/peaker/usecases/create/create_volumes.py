"""CreateVolumes: one per snapshot, in the instance's zone."""

from __future__ import annotations

from dataclasses import replace

from peaker.domain.replicas.data_volumes import PlannedVolume
from peaker.domain.replicas.inventory import Volume, VolumeSpec
from peaker.domain.runs.ledger import Placement, ResourceKind, VolumeRates
from peaker.domain.runs.run import StepInput, Summary, client_token
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_memory import intend, made_id, plan_of_run, resource_tags, settled
from peaker_contract.errors import AwsCallRejected, CapacityUnavailable
from peaker_contract.names import VOLUME_TAG


def create_volumes(ports: Ports, step: StepInput) -> Summary:
    """A volume that the run has already, by tag and name, is taken over (I10).

    At the planned initialization rates, and at the default rate where EBS refuses them. Raises CapacityUnavailable, and
    AwsCallRejected for a volume that EC2 refuses also without a provisioned rate.
    """
    zone = settled(ports, step, Placement).zone
    existing = {volume.name: volume for volume in ports.storage.volumes_of_run(step.run_id)}
    made: dict[str, str] = {}
    rates: dict[str, int | None] = {}
    notes: list[str] = []
    for planned in plan_of_run(ports, step).volumes:
        row = intend(ports, step, ResourceKind.VOLUME, planned.name)
        volume = existing.get(planned.name) or _create(ports, step, planned, zone, notes)
        ports.ledger.made(step.holder, row, volume.volume_id, ports.clock.now())
        made[planned.name] = volume.volume_id
        rates[planned.name] = volume.initialization_rate_mib_per_s
    ports.ledger.settle(step.holder, VolumeRates(rates=rates))
    return Summary(
        text=f"{len(made)} volumes in {zone}", numbers={"volumes": made, "zone": zone, "notes": notes}
    )


def _create(ports: Ports, step: StepInput, planned: PlannedVolume, zone: str, notes: list[str]) -> Volume:
    spec = _spec(ports, step, planned, zone)
    ports.ledger.require_lease(step.holder)
    try:
        return ports.storage.create_volume(spec, client_token(step.run_id, step.step, planned.name))
    except (CapacityUnavailable, AwsCallRejected) as refusal:
        if spec.initialization_rate_mib_per_s is None:
            raise
        # Other volumes of the account may use its quota of provisioned rate, for which no error code is documented: a
        # refused call is made again without a rate. Default hydration is slower, not wrong.
        notes.append(f"{planned.name}: without a provisioned initialization rate ({refusal})")
        slower = replace(spec, initialization_rate_mib_per_s=None)
        return ports.storage.create_volume(
            slower, client_token(step.run_id, step.step, planned.name, "default")
        )


def _spec(ports: Ports, step: StepInput, planned: PlannedVolume, zone: str) -> VolumeSpec:
    rows = ports.ledger.resources(step.shared_run)
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
