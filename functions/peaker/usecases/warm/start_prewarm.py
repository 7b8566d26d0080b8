"""StartPrewarm: the engine reads what the snapshot holds, detached from the command that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from peaker.domain.document.plan import PlannedPrewarm
from peaker.domain.reading import Unknown
from peaker.domain.runs.ledger import BlockList, ResourceKind, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.storage.block_list import BLOCKS_PER_PAGE, BlockRuns, block_list_text
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import build_of_run, host_id
from peaker_contract.errors import AwsCallRejected, AwsUnavailable, ResourceNotFound, Throttled

# A page takes about 0.1 s and covers 4.9 GiB of volume: 3.3 TiB in 70 s. Above that, where EBS answers slower, and
# wherever the list cannot be had, the filesystems' maps alone say what is read. The function has 180 s.
PAGES_AT_MOST = 700
SECONDS_AT_MOST = 90.0
# How fast what the snapshot holds of deleted files follows: a first write into a cold block fetches it first.
REMAINDER_MIB_PER_S = 8


def start_prewarm(ports: Ports, step: StepInput) -> Summary:
    """Starting an engine that runs changes nothing; one that died starts again where its journal ends."""
    planned = build_of_run(ports, step).prewarm
    instance_id = host_id(ports, step, "replica")
    parameters = partial(_parameters, ports, step, planned)
    numbers = run_host_command(ports, step, "start_prewarm", instance_id, parameters, repeat=True)
    listed = ports.ledger.run(step.run_id).part(BlockList) or BlockList()
    missing = numbers.get("block_list_missing") or listed.missing
    return Summary(
        text=f"prewarm engine on {instance_id}, "
        + (
            f"without the snapshots' block list: {missing}" if missing else "within the snapshots' block list"
        ),
        numbers={**numbers, "blocks_in_snapshots": listed.blocks, "block_list_missing": missing},
    )


def _parameters(ports: Ports, step: StepInput, planned: PlannedPrewarm) -> Mapping[str, str]:
    """Without a block list the remainder is not known."""
    url = _block_list_url(ports, step)
    return {
        "RunId": step.run_id,
        "BlockListUrl": url,
        "BackgroundRateMibPerS": str(planned.background_rate_mib_per_s),
        "RemainderRateMibPerS": str(REMAINDER_MIB_PER_S) if url else "0",
    }


def _block_list_url(ports: Ports, step: StepInput) -> str:
    """Returns the address of the block list for the host; empty when it cannot be had, and the ledger says why."""
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
    ports.ledger.settle(step.holder, listed)
    return url


def _blocks_of_snapshots(ports: Ports, step: StepInput) -> dict[str, BlockRuns] | Unknown:
    """Lists the snapshots' blocks by the names of the volumes that were made from them."""
    found: dict[str, BlockRuns] = {}
    pages = PAGES_AT_MOST
    rows = of_kind(ports.ledger.resources(step.shared_run), ResourceKind.SNAPSHOT)
    for row in rows:
        if row.resource_id is None:
            continue
        held = ports.snapshot_blocks.held(row.resource_id, pages, SECONDS_AT_MOST / len(rows))
        if isinstance(held, Unknown):
            return held
        found[row.name] = held
        pages -= -(-held.blocks // BLOCKS_PER_PAGE)
    return found or Unknown("the run has no snapshots")
