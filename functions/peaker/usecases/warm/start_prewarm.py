"""StartPrewarm: the engine reads what the snapshot holds, or writes empty volumes with it or with what the donor's
server gives, detached from the command that starts it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

from peaker.domain.planning.methods.copying import DIRECT_REQUESTS_PER_SECOND
from peaker.domain.planning.plan import PlannedPrewarm, ScaleOutPlan
from peaker.domain.reading import Unknown
from peaker.domain.runs.ledger import ResourceKind, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.runs.run_memory import BlockList, Donor, DonorTables
from peaker.domain.storage.block_list import BLOCKS_PER_PAGE, BlockRuns, block_list_text
from peaker.domain.storage.set_manifest import SetManifest
from peaker.ports import Ports
from peaker.usecases.run.batch_members import require_donor, shared_run
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.kept_snapshots import set_made_from
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import approved_build, approved_plan, builder_of, host_id, made_id
from peaker_contract.errors import AwsCallRejected, AwsUnavailable, PrewarmFailed, ResourceNotFound, Throttled

# A page takes about 0.1 s and covers 4.9 GiB of volume: a function's time for 3.3 TiB. Above that, and wherever
# the list cannot be had, the filesystems' maps alone say what is read.
PAGES_AT_MOST = 700


def start_prewarm(ports: Ports, step: StepInput) -> Summary:
    """Starting an engine that runs changes nothing; one that died starts again where its journal ends."""
    plan, planned = approved_plan(ports, step), approved_build(ports, step).prewarm
    instance_id = host_id(ports, step, "replica")
    if plan.clones:
        return _start_clone(ports, step, plan, planned, instance_id)
    if plan.starts_empty or plan.refills:
        return _start_fill(ports, step, plan, planned, instance_id)
    parameters = partial(_parameters, ports, step, planned)
    numbers = run_host_command(ports, step, "start_prewarm", instance_id, parameters, repeat=True)
    listed = ports.ledger.run(step.run_id).part(BlockList) or BlockList()
    missing = numbers.get("block_list_missing") or listed.missing
    return Summary(
        text=f"prewarm engine on {instance_id}, method {planned.method}, "
        + (
            f"without the snapshots' block list: {missing}" if missing else "within the snapshots' block list"
        ),
        numbers={**numbers, "blocks_in_snapshots": listed.blocks, "block_list_missing": missing},
    )


def _start_fill(
    ports: Ports, step: StepInput, plan: ScaleOutPlan, planned: PlannedPrewarm, instance_id: str
) -> Summary:
    """Each volume from its own snapshot; all hosts of a batch read the same ones. Of a replica that is refilled only
    blocks that have changed are written."""
    shared = ports.ledger.resources(shared_run(step))
    at_once = ports.ledger.run(shared_run(step)).required(ScaleOutPlan, step.step).copies_of_donor
    volumes = _written_volumes(ports, step, plan)
    snapshots = {one.name: made_id(shared, ResourceKind.SNAPSHOT, one.name) for one in plan.volumes}
    parameters = {
        "RunId": step.run_id,
        "Method": planned.method,
        "Volumes": json.dumps(volumes, separators=(",", ":")),
        "Snapshots": json.dumps(snapshots, separators=(",", ":")),
        **({"Changed": _pairs(ports, step, snapshots)} if plan.refills else {}),
        "RequestsPerSecond": str(max(1, int(DIRECT_REQUESTS_PER_SECOND / max(1, at_once)))),
        **ports.clusters.settings(step.cluster).host_parameters,
    }
    numbers = run_host_command(ports, step, "start_fill", instance_id, parameters, repeat=True)
    return Summary(
        text=f"{'refill' if plan.refills else 'direct fill'} of {len(volumes)} volumes on {instance_id}, "
        f"{parameters['RequestsPerSecond']} requests/s of a snapshot at most",
        numbers={**numbers, "filled_from": snapshots},
    )


def _pairs(ports: Ports, step: StepInput, newest: Mapping[str, str]) -> str:
    """By volume: what the donor has changed since the set that the replica was made from, and what the replica has
    written since. At that set both were equal, so that together they name all blocks that can differ.

    Raises PrewarmFailed where that set is gone, or lacks one of the volumes.
    """
    builder = builder_of(ports.ledger.run(step.run_id))
    base = set_made_from(ports, step.cluster, builder)
    missing = sorted(newest) if base is None else sorted(set(newest) - set(base.snapshots))
    if base is None or missing:
        raise PrewarmFailed(
            f"the snapshots of {', '.join(missing)} that {builder} made its replica from are gone: what has changed "
            "since cannot be told"
        )
    rows = ports.ledger.resources(step.run_id)
    pairs = {
        name: [
            [base.snapshots[name], snapshot],
            [base.snapshots[name], made_id(rows, ResourceKind.OWN_SNAPSHOT, name)],
        ]
        for name, snapshot in newest.items()
    }
    return json.dumps(pairs, separators=(",", ":"))


def _start_clone(
    ports: Ports, step: StepInput, plan: ScaleOutPlan, planned: PlannedPrewarm, instance_id: str
) -> Summary:
    """From the donor that the batch has chosen. Raises NoDonor where a failover made it the source (I2), PrewarmFailed
    where a clone would not be all of it."""
    donor, batch = require_donor(ports, step), ports.ledger.run(shared_run(step))
    _refuse_other_engines(donor, batch.part(DonorTables) or DonorTables())
    manifest = batch.part(SetManifest)
    parameters = {
        "RunId": step.run_id,
        "Volumes": json.dumps(_written_volumes(ports, step, plan), separators=(",", ":")),
        "Layout": "[]" if manifest is None else json.dumps(manifest.stacks_document(), separators=(",", ":")),
        "DonorHost": ports.compute.instance(donor.instance_id).private_ip,
        "DonorPort": str(approved_build(ports, step).database_port),
        "RateMibPerS": str(planned.clone_mib_per_s),
        **ports.clusters.settings(step.cluster).host_parameters,
    }
    numbers = run_host_command(ports, step, "start_clone", instance_id, parameters, repeat=True)
    return Summary(
        text=f"clone of {donor.instance_id} onto {instance_id}, {planned.clone_mib_per_s} MiB/s at most",
        numbers={**numbers, "cloned_from": donor.instance_id},
    )


def _refuse_other_engines(donor: Donor, tables: DonorTables) -> None:
    if tables.not_innodb is None:
        raise PrewarmFailed(
            f"clone of {donor.instance_id}: it does not say whether all its tables are of InnoDB"
        )
    if tables.not_innodb:
        raise PrewarmFailed(
            f"clone of {donor.instance_id}: {', '.join(tables.not_innodb)} "
            "would come empty (a clone brings InnoDB alone)"
        )


def _written_volumes(ports: Ports, step: StepInput, plan: ScaleOutPlan) -> list[dict[str, str]]:
    """As the host's commands take them; those of a replica that is refilled are its builder's."""
    made = ports.ledger.resources(builder_of(ports.ledger.run(step.run_id)))
    return [
        {
            "name": volume.name,
            "volume_id": made_id(made, ResourceKind.VOLUME, volume.name),
            "device": volume.device,
            "mount_point": volume.mount_point,
            "filesystem": volume.filesystem,
        }
        for volume in plan.volumes
    ]


def _parameters(ports: Ports, step: StepInput, planned: PlannedPrewarm) -> Mapping[str, str]:
    """Without a block list the remainder is not known."""
    url = _block_list_url(ports, step)
    return {
        "RunId": step.run_id,
        "Method": planned.method,
        "RateLimitMibPerS": str(planned.rate_limit_mib_per_s),
        "BlockListUrl": url,
        "BackgroundRateMibPerS": str(planned.background_rate_mib_per_s),
        "Remainder": "on" if url else "off",
        "RemainderRateMibPerS": str(planned.remainder_rate_mib_per_s),
    }


def _block_list_url(ports: Ports, step: StepInput) -> str:
    """Where the host finds the list; empty when it cannot be had, and the ledger says why."""
    url = ""
    try:
        volumes = _blocks_of_snapshots(ports, step)
        if isinstance(volumes, Unknown):
            listed = BlockList(missing=volumes.why)
        else:
            url = ports.run_files.publish(step.run_id, "blocks.json", block_list_text(volumes))
            listed = BlockList(blocks={name: of.blocks for name, of in volumes.items()})
    except (AwsCallRejected, AwsUnavailable, ResourceNotFound, Throttled) as error:
        listed = BlockList(missing=f"{type(error).__name__}: {error}")
    ports.ledger.settle(holder_of(step), listed)
    return url


def _blocks_of_snapshots(ports: Ports, step: StepInput) -> dict[str, BlockRuns] | Unknown:
    """By the names of the volumes that were made from them."""
    found: dict[str, BlockRuns] = {}
    pages = PAGES_AT_MOST
    for row in of_kind(ports.ledger.resources(shared_run(step)), ResourceKind.SNAPSHOT):
        if row.resource_id is None:
            continue
        held = ports.snapshot_blocks.held(row.resource_id, pages)
        if isinstance(held, Unknown):
            return held
        found[row.name] = held
        pages -= -(-held.blocks // BLOCKS_PER_PAGE)
    return found or Unknown("the run has no snapshots")
