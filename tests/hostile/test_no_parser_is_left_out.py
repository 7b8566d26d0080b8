"""Whatever decodes what others wrote is in the registry of entry points, or it is said why it need not be."""

from __future__ import annotations

import importlib
import pkgutil
from functools import reduce

import peaker
import pytest
from peaker.domain.host_results import HostResult
from peaker.domain.runs.ledger import RunPart

from tests.hostile import registry
from tests.hostile.decoders import decoders

# What these read is of this machine's kernel, of this checkout, or of the process itself.
NOT_OF_OTHERS = {
    "environments.aws_names._listed": "a file of this repository",
    "peaker.domain.decoding.measured_json": "the decoder itself",
    "peaker.domain.decoding.parsed_json": "the decoder itself",
    "peaker.ports.endpoint.TrafficRouter.read_shares": "a port",
    "peaker.runtime.clock.ScaledClock.now": "the local cloud's own file",
    "peaker.runtime.settings.FunctionSettings.from_environment": "what the stack gives a function",
    "peaker_host.blocks.log_replay._query": "the kernel's answer",
    "peaker_host.blocks.log_replay.replay_log": "a process of this package",
    "peaker_host.blocks.database_files.read_in_pieces": "bytes, handed on as they are",
    "peaker_host.blocks.timed_reads.read_latencies_ms": "how long reads take",
    "peaker_host.database.data_paths.read_mounts": "the kernel's list",
    "peaker_host.donor.base_checks.read_filesystems": "the kernel's list",
    "peaker_host.machine.command_gate._holder": "the gate's own lock file",
    "peaker_host.layouts.image_fit._carried": "written one call before",
    "peaker_host.layouts.image_rules._keyring_of_image": "any misfit makes the fact unknown, in image_fit._known",
    "peaker_host.machine.devices.describe_device": "the kernel's answer",
    "peaker_host.machine.understanding.parsed_json": "the decoder itself",
    "peaker_host.prove.read_again.read_again": "reads blocks and looks at none",
    "peaker_host.prove.storage_proof._read_chunk": "how long reads take",
    "peaker_host.warm.engine_lock.holder": "the kernel's answer",
    "peaker_host.warm.plan.Planner._read_first": "reads blocks and looks at none",
    "peaker_host.warm.reader_pool.ReaderPool._read_all": "reads blocks and looks at none",
    "peaker_host.warm.reader_pool.ReaderPool._read_fully": "reads blocks and looks at none",
    "peaker_host.warm.reader_pool.ReaderPool._read_in_pieces": "reads blocks and looks at none",
    "peaker_host.warm.reader_pool.ReaderPool._read_one_again": "reads blocks and looks at none",
    "peaker.adapters.read_endpoint.by_kind.ReadEndpointByKind.read_shares": "asks another adapter",
    "peaker.adapters.read_endpoint.by_kind.read_endpoints": "makes adapters",
    "peaker.adapters.read_endpoint.elb.ElbReadEndpoint.read_shares": "AWS's answer, whose form botocore checks",
    "peaker.adapters.read_endpoint.route53.Route53ReadEndpoint.read_shares": "AWS's answer, whose form botocore checks",
    "peaker_cli.backtest.live_load.read_deployed": "asks the adapters; the settings are an entry point",
    "peaker_cli.month.gather.read_month": "asks the adapters; the receipts are an entry point",
    "peaker_cli.runs.command.read_runs": "asks the ledger's adapter",
    "peaker_cli.runs.receipt_command.read_unfinished": "asks the ledger's adapter",
    "peaker_cli.status.command.read_statuses": "asks the adapters",
    "ssm_documents.schema.load_document": "a file of this repository",
}
# Reached over the entry point that is named.
REACHED_OVER = {
    "peaker.domain.runs.failure._failure": "a cause",
    "peaker.domain.storage.iostat_text._TextReader._read_cpu": "iostat, text",
    "peaker.domain.storage.iostat_text._TextReader._read_heading": "iostat, text",
    "peaker.domain.storage.iostat_text._TextReader._read_line": "iostat, text",
    "peaker.domain.storage.iostat_text._TextReader._read_row": "iostat, text",
    "peaker.domain.storage.storage_judgement.exceeded_during": "load tests of a proof",
    "peaker.usecases.undo.end_run._failure": "a receipt's row",
    "peaker.usecases.undo.identify_stopped_run._given": "the event of a stopped execution",
    "peaker_backtest.load_input.read_load": "a load file, table",
    "peaker_backtest.times._written": "a load file, table",
    "peaker_backtest.times.read_times": "a load file, table",
    "peaker_cli.runs.receipt._clock": "a receipt on the terminal",
    "peaker_host.blocks.filesystem_maps.XfsMap._parse_extents": "xfs_db",
    "peaker_host.database.mysql_client._content": "the client's output",
    "peaker_host.database.replica_status.read_status": "numbers of a base",
    "peaker_host.health.serving_floor.read_health": "a peer's answer",
    "peaker_host.machine.devices._ext_size": "superblock",
    "peaker_host.machine.devices._lvm_uuid": "superblock",
}
COVERED = {name for one in registry.entry_points() for name in one.covers}


def test_every_function_that_decodes_has_an_entry_point() -> None:
    found = decoders()
    missing = sorted(set(found) - COVERED - set(NOT_OF_OTHERS) - set(REACHED_OVER))
    assert missing == [], "\n".join(f"{name}: {found[name]}" for name in missing)


def test_the_exceptions_are_still_there_and_still_needed() -> None:
    found = decoders()
    assert sorted((set(NOT_OF_OTHERS) | set(REACHED_OVER)) - set(found)) == []
    names = {one.name for one in registry.entry_points()}
    assert set(REACHED_OVER.values()) <= names


@pytest.mark.parametrize("name", sorted(COVERED))
def test_what_an_entry_point_covers_exists(name: str) -> None:
    resolved(name)


@pytest.mark.parametrize("base", [HostResult, RunPart])
def test_every_model_of_a_host_s_answer_and_of_a_run_s_part_has_an_entry_point(base: type) -> None:
    for module in pkgutil.walk_packages(peaker.__path__, "peaker."):
        if not module.name.startswith("peaker.handlers"):
            importlib.import_module(module.name)
    models = {
        f"{one.__module__}.{one.__name__}"
        for one in base.__subclasses__()
        if one.__module__.startswith("peaker.")
    }
    assert sorted(models - COVERED) == []


def resolved(name: str) -> object:
    """The function or class of a dotted name."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[end:], module)
    raise AssertionError(f"{name} is nowhere")
