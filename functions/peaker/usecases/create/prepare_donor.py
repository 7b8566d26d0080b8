"""PrepareDonor: page list dumped, position recorded, right before the snapshot."""

from __future__ import annotations

from peaker.domain.host_results import DonorPrepared, typed
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.create.choose_donor import require_donor
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import approved_plan
from peaker_contract.errors import DonorLagging


def prepare_donor(ports: Ports, step: StepInput) -> Summary:
    """Raises DonorLagging when the donor is further behind than the gate, or does not know (I4).

    Raises NoDonor where a failover made it the source.
    """
    gate = ports.clusters.settings(step.cluster).gates.lag_seconds
    instance_id = require_donor(ports, step).instance_id
    mount_points = ",".join(volume.mount_point for volume in approved_plan(ports, step).volumes)
    parameters = {"RunId": step.run_id, "MountPoints": mount_points}
    numbers = run_host_command(ports, step, "prepare_donor", instance_id, parameters)
    prepared = typed("prepare_donor", DonorPrepared, numbers)
    if prepared.lag_seconds is None or prepared.lag_seconds > gate:
        shown = "unknown" if prepared.lag_seconds is None else f"{prepared.lag_seconds:g} s"
        raise DonorLagging(
            f"{instance_id}: lag is {shown}, gate {gate:g} s; a replica of it would start late"
        )
    unfrozen = f"; without a freeze: {prepared.not_frozen}" if prepared.not_frozen else ""
    return Summary(
        text=f"{instance_id}: lag {prepared.lag_seconds:g} s, {prepared.buffer_pool_pages} pages listed{unfrozen}",
        numbers=numbers,
    )
