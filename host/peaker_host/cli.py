"""The commands: arguments in, one line of JSON out.

Exit code 0 with {"version":1,"command":...,"ok":true,...}, or 1 with {"ok":false,"error":...,"message":...}.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from dataclasses import asdict
from typing import Any, Callable, Dict, List, NoReturn, Optional

from peaker_host.blocks.ranges import Range, difference, intersection
from peaker_host.database.mysql_client import admin_client
from peaker_host.machine import manifest
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import (
    CommandFailed,
    HostError,
    InvalidArgument,
    ToolMissing,
    UnreadableFilesystem,
)
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import ENGINES, Settings, load_settings
from peaker_host.result_line import result_line

# What only one command needs is imported there: an engine's start must not cost more CPU than its reads.
from peaker_host.warm import cold_probe, prewarm, reading_order
from peaker_host.warm.plan import PrewarmRequest

RESULT_VERSION = 1
_RUN_ID = re.compile(r"^[0-9A-Za-z][0-9A-Za-z-]{0,79}$")
_HOST_NAME = re.compile(r"^[0-9A-Za-z][0-9A-Za-z.:-]{0,252}$")
_MAX_SERVER_ID = 2**32 - 1


class Context:
    """What every command gets: settings, the edge to other programs, and the arguments."""

    def __init__(self, settings: Settings, processes: Processes, arguments: argparse.Namespace) -> None:
        self.settings = settings
        self.processes = processes
        self.arguments = arguments

    @staticmethod
    def say(text: str) -> None:
        """Progress for people, on standard error."""
        prewarm.say_on_stderr(text)


Command = Callable[[Context], Dict[str, Any]]


def main(argv: List[str], processes: Optional[Processes] = None) -> int:
    """Run one command; returns the exit code."""
    try:
        arguments = _parser().parse_args(argv)
    except InvalidArgument as error:
        return _fail(argv[0] if argv else "", "InvalidArgument", str(error), {})
    command: Command = arguments.run
    try:
        settings = load_settings(arguments.settings)
        result = command(Context(settings, processes or Processes(), arguments))
    except HostError as error:
        return _fail(arguments.command, type(error).__name__, str(error), error.numbers)
    except Exception as error:  # the top boundary: reported by name, never swallowed
        return _fail(arguments.command, "UnexpectedError", f"{type(error).__name__}: {error}", {})
    _print({**result, "version": RESULT_VERSION, "command": arguments.command, "ok": True})
    return 0


def _fail(command: str, error: str, message: str, numbers: Dict[str, Any]) -> int:
    _print(
        {
            **numbers,
            "version": RESULT_VERSION,
            "command": command,
            "ok": False,
            "error": error,
            "message": message,
        }
    )
    return 1


def _print(result: Dict[str, Any]) -> None:
    print(result_line(result), flush=True)


def _prepare_donor(context: Context) -> Dict[str, Any]:
    from peaker_host.donor import prepare_donor

    arguments = context.arguments
    return prepare_donor.prepare_donor(
        context.settings,
        context.processes,
        arguments.mount_points,
        arguments.dump_percent,
        arguments.timeout_seconds,
        context.say,
    )


def _assemble_storage(context: Context) -> Dict[str, Any]:
    arguments = context.arguments
    members = manifest.parse_volumes(arguments.volumes)
    made = manifest.assemble(context.settings, arguments.run_id, members, arguments.wait_seconds, context.say)
    return {
        "members": [asdict(member) for member in made.members],
        "bytes": sum(member.size_bytes for member in made.members),
    }


def _start_prewarm(context: Context) -> Dict[str, Any]:
    arguments = context.arguments
    request = _prewarm_request(arguments)
    return prewarm.start(
        context.settings, context.processes, request, arguments.block_list_url, arguments.settings
    )


def _prewarm(context: Context) -> Dict[str, Any]:
    engine = prewarm.Engine(
        context.settings, context.processes, _prewarm_request(context.arguments), context.say
    )
    prewarm.stop_on_signals(engine)
    return engine.run()


def _report_prewarm(context: Context) -> Dict[str, Any]:
    return prewarm.report(context.settings, context.arguments.run_id)


def _cancel_prewarm(context: Context) -> Dict[str, Any]:
    return prewarm.cancel(context.settings, context.arguments.run_id)


def _warm_by_writing(context: Context) -> Dict[str, Any]:
    from peaker_host.warm import first_write

    arguments = context.arguments
    return first_write.warm_by_writing(
        context.settings, arguments.volume_id, arguments.rate_limit_mib_per_s, context.say
    )


def _verify_storage(context: Context) -> Dict[str, Any]:
    """Sample one volume after the other; then load all at once, as the database will."""
    from concurrent.futures import ThreadPoolExecutor

    from peaker_host.prove import read_again

    arguments = context.arguments
    generator = random.Random(arguments.seed) if arguments.seed is not None else random.SystemRandom()
    made = manifest.load_manifest(context.settings, arguments.run_id)
    urgent = _urgent_blocks(context, made) if arguments.scope == "hot" else {}
    proofs = [_sample_member(context, member, urgent, generator) for member in made.members]
    slow = {proof.numbers["volume_id"]: proof.numbers.pop("slow_blocks") for proof in proofs}
    read_again.keep_slow_blocks(context.settings, arguments.run_id, slow)
    # The search for the knee comes last: it asks for more than a device can give.
    if arguments.load_seconds > 0:
        with ThreadPoolExecutor(len(proofs)) as loads:
            running = [loads.submit(_load_member, context, proof, generator) for proof in proofs]
            for proof, load in zip(proofs, running):
                proof.numbers["load"] = load.result()
    for proof in proofs:
        proof.numbers["knee"] = _knee_of_member(context, proof, arguments.knee_seconds / len(proofs))
    return _combined_proof([proof.numbers for proof in proofs])


class _Proof:
    """One volume's proof while it is made."""

    def __init__(self, device: BlockDevice, used: List[Range], numbers: Dict[str, Any]) -> None:
        self.device = device
        self.used = used
        self.numbers = numbers


def _sample_member(
    context: Context, member: manifest.Member, urgent: Dict[str, List[Range]], generator: random.Random
) -> _Proof:
    from peaker_host.blocks import live_blocks
    from peaker_host.prove import read_again, storage_proof

    arguments = context.arguments
    device = manifest.open_member(context.settings, member)
    live = live_blocks.live_blocks(context.settings, context.processes, arguments.run_id, member)
    used, unreadable = live.blocks, live.map_unreadable
    if not unreadable:
        used = intersection(urgent.get(member.volume_id, []), used) or used
    probed = cold_probe.kept(context.settings, arguments.run_id).get(member.volume_id)
    if probed is not None:
        used = difference(used, [(block, 1) for block in probed.blocks])
    again = read_again.blocks_to_read(
        context.settings, arguments.run_id, member.volume_id, arguments.remedy, used
    )
    complete = read_again.read_again(device, again)
    warmth = storage_proof.sample_warmth(
        device.path,
        device.size_bytes,
        used,
        arguments.sample_blocks,
        arguments.await_ratio_limit,
        generator,
        lambda text: context.say(f"{member.name}: {text}"),
        live.known,
    )
    if arguments.remedy == "all" and complete:
        warmth = storage_proof.after_reading_all(warmth)
    facts = {"name": member.name, "volume_id": member.volume_id, "map_unreadable": unreadable}
    cold = None if probed is None else probed.await_ms
    return _Proof(
        device, used, {**facts, "await_cold_ms": cold, **asdict(warmth), "load": None, "knee": None}
    )


def _urgent_blocks(context: Context, made: manifest.Manifest) -> Dict[str, List[Range]]:
    """What a database needs before it may serve, by volume; nothing where the files cannot be found."""
    from peaker_host.warm import plan

    try:
        return plan.urgent_blocks(context.settings, context.processes, made)
    except (UnreadableFilesystem, CommandFailed, ToolMissing) as error:
        context.say(f"all that is used is proven, because the hot blocks cannot be found: {error}")
        return {}


def _load_member(context: Context, proof: _Proof, generator: random.Random) -> Dict[str, Any]:
    from peaker_host.prove import load_test

    arguments = context.arguments
    load = load_test.run_load_test(
        context.processes, proof.device, proof.used, arguments.load_depth, arguments.load_seconds, generator
    )
    seen = load["iostat"]
    context.say(f"{proof.numbers['name']}: r_await {seen['r_await']} ms at {seen['r/s']} reads/s")
    return load


def _knee_of_member(context: Context, proof: _Proof, seconds: float) -> Optional[Dict[str, Any]]:
    """The knee within the blocks that were proven warm, in short; None when it was not asked for."""
    from peaker_host.prove import knee

    if seconds <= 0:
        return None
    name, settings = proof.numbers["name"], knee.settings_for(seconds)
    try:
        found = knee.find_knee(
            proof.device.path,
            settings,
            context.processes,
            lambda step: context.say(
                f"{name}: {step.concurrency} at once, {step.requests_per_s:.0f}/s, {step.await_ms} ms"
            ),
            with_throughput=False,
            blocks=proof.used,
        )
    except HostError as error:
        return {"missing": f"{type(error).__name__}: {error}"}
    return knee.in_short(found)


def _combined_proof(volumes: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The worst volume speaks for all."""
    rank = {"warm": 0, "unknown": 1, "not_warm": 2}
    worst = max(volumes, key=lambda volume: (rank[volume["verdict"]], volume["cold_share_upper"] or 0.0))
    load = worst["load"] or {}
    return {
        "verdict": worst["verdict"],
        "reason": f"{worst['name']}: {worst['reason']}",
        "await_cold_ms": worst["await_cold_ms"],
        "await_first_ms": worst["await_first_ms"],
        "await_second_ms": worst["await_second_ms"],
        "ratio": worst["ratio"],
        "cold_share_upper": worst["cold_share_upper"],
        "blocks_sampled": sum(volume["blocks_sampled"] for volume in volumes),
        "iostat": load.get("iostat"),
        "volumes": volumes,
    }


def _start_database(context: Context) -> Dict[str, Any]:
    from peaker_host.replicate import launch

    arguments = context.arguments
    return launch.start_database(
        context.settings,
        context.processes,
        arguments.run_id,
        arguments.server_id,
        arguments.health,
        arguments.timeout_seconds,
        context.say,
    )


def _start_replication(context: Context) -> Dict[str, Any]:
    from peaker_host.replicate import replication

    return replication.start_replication(
        context.settings, context.processes, context.arguments.source_host, context.say
    )


def _wait_for_catch_up(context: Context) -> Dict[str, Any]:
    from peaker_host.replicate import replication

    arguments = context.arguments
    return replication.wait_for_catch_up(
        context.settings,
        context.processes,
        arguments.lag_gate_seconds,
        arguments.lag_samples,
        arguments.timeout_seconds,
        context.say,
    )


def _load_buffer_pool(context: Context) -> Dict[str, Any]:
    from peaker_host.database import page_list

    client = admin_client(context.settings, context.processes)
    return page_list.load_buffer_pool(client, context.arguments.timeout_seconds, context.say)


def _drain_replica(context: Context) -> Dict[str, Any]:
    from peaker_host.health import responder
    from peaker_host.replicate import replication

    responder.mark_draining(context.settings)
    return replication.client_activity(context.settings, context.processes)


def _prepare_base(context: Context) -> Dict[str, Any]:
    from peaker_host.donor import base_replica
    from peaker_host.machine.settings import DEFAULT_PATH

    arguments = context.arguments
    request = base_replica.BaseRequest(
        arguments.engine,
        arguments.health_port,
        arguments.filesystems,
        arguments.least_binlog_seconds,
        arguments.health,
        arguments.admin_defaults_file,
        arguments.health_account == "here",
        arguments.mode == "check",
    )
    return base_replica.prepare_base(
        context.settings,
        arguments.settings or DEFAULT_PATH,
        context.processes,
        request,
        arguments.wait_seconds,
        context.say,
    )


def _measure_service(context: Context) -> Dict[str, Any]:
    from peaker_host.database import client_statements

    client = admin_client(context.settings, context.processes)
    return client_statements.measure_service(client, context.arguments.window_seconds)


def _stop_database(context: Context) -> Dict[str, Any]:
    from peaker_host.replicate import launch

    timeout_seconds = context.arguments.timeout_seconds
    return launch.stop_database(context.settings, context.processes, timeout_seconds, context.say)


def _set_maintenance(context: Context) -> Dict[str, Any]:
    from peaker_host.health import responder

    return responder.set_maintenance(context.settings, context.arguments.maintenance == "on")


def _report_health(context: Context) -> Dict[str, Any]:
    from peaker_host.database import page_list
    from peaker_host.health import policy, responder

    page_list.restore_dump_settings(admin_client(context.settings, context.processes), context.settings)
    arguments = context.arguments
    wanted = policy.HealthPolicy(
        good_samples=arguments.good_samples,
        bad_samples=arguments.bad_samples,
        lag_seconds=arguments.lag_seconds,
        min_free_disk_percent=arguments.min_free_disk_percent,
        floor_replicas=arguments.floor_replicas,
        source_serves_reads=arguments.source_serves_reads == "true",
        peers=policy.parse_peers(arguments.peers),
    )
    return responder.report_health(context.settings, context.processes, wanted)


def _health(context: Context) -> Dict[str, Any]:
    from peaker_host.health import account, process

    client = account.health_client(context.settings, context.processes)
    return process.run(context.settings, client, context.arguments.port, context.say)


def _prewarm_request(arguments: argparse.Namespace) -> PrewarmRequest:
    request = PrewarmRequest(
        arguments.run_id,
        arguments.method,
        arguments.rate_limit_mib_per_s,
        arguments.remainder == "on",
        arguments.background_rate_mib_per_s,
        arguments.remainder_rate_mib_per_s,
    )
    prewarm.check_request(request)
    return request


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that a wrong argument also gives a result line."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise InvalidArgument(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="peaker_host",
        description=__doc__,
        epilog="Example: peaker_host.pyz report_prewarm --run-id scale-out-orders-20261121T0140-9f3a",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--settings", default=os.environ.get("PEAKER_HOST_SETTINGS", ""), help="path of host.json"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_storage_commands(commands)
    _add_database_commands(commands)
    return parser


def _add_storage_commands(commands: Any) -> None:
    add = _Adder(commands)
    assemble = add(
        "assemble_storage",
        _assemble_storage,
        "Wait for the volumes and check that they are the right ones",
        '--run-id R --volumes \'[{"name":"data","volume_id":"vol-0a1b2c3d4e5f60718",'
        '"device":"/dev/sdf","mount_point":"/var/lib/mysql","filesystem":"xfs"}]\'',
    )
    assemble.add_argument(
        "--volumes", required=True, help="JSON list of name, volume_id, device, mount_point, filesystem"
    )
    assemble.add_argument(
        "--wait-seconds", type=_positive_float, default=120.0, help="how long a volume may take to appear"
    )
    start = add(
        "start_prewarm",
        _start_prewarm,
        "Start the prewarm engine in the background, or say that it runs",
        "--run-id R --method used --rate-limit-mib-per-s 0",
    )
    _add_prewarm_arguments(start)
    start.add_argument(
        "--block-list-url",
        default=os.environ.get("PEAKER_BLOCK_LIST_URL", ""),
        help="where the snapshots' block list is; empty for none. A presigned address is a secret: give it as "
        "PEAKER_BLOCK_LIST_URL, for arguments are shown to every user of the host",
    )
    _add_prewarm_arguments(
        add("prewarm", _prewarm, "Run the prewarm engine in the foreground", "--run-id R --method full")
    )
    add("report_prewarm", _report_prewarm, "Say how far the prewarm is", "--run-id R")
    add("cancel_prewarm", _cancel_prewarm, "Stop the prewarm; starting it again resumes it", "--run-id R")
    write = add(
        "warm_by_writing",
        _warm_by_writing,
        "Write zeros over a volume that holds nothing but zeros; needs warm_empty_by_writing in host.json",
        "--run-id R --volume-id vol-0a1b2c3d4e5f60718",
    )
    write.add_argument("--volume-id", required=True, help="the volume, not mounted, without a filesystem")
    write.add_argument("--rate-limit-mib-per-s", type=_not_negative, default=0.0, help="0 for none")
    verify = add(
        "verify_storage",
        _verify_storage,
        "Prove from a random sample that the volumes are warm",
        "--run-id R --sample-blocks 411 --await-ratio-limit 1.5",
    )
    verify.add_argument(
        "--sample-blocks", type=_positive_int, default=411, help="blocks per volume to begin with"
    )
    verify.add_argument(
        "--await-ratio-limit", type=_positive_float, default=1.5, help="first against second reads"
    )
    verify.add_argument(
        "--scope",
        choices=("used", "hot"),
        default="used",
        help="which blocks must be warm: all in use, or what the database needs before it may serve",
    )
    verify.add_argument(
        "--remedy",
        choices=("none", "cold", "all"),
        default="none",
        help="what is read again before: around what was slow at the last look, or all",
    )
    verify.add_argument("--load-seconds", type=_count, default=5, help="length of the read load, 0 for none")
    verify.add_argument(
        "--load-depth", type=_positive_int, default=8, help="reads in flight of the read load"
    )
    verify.add_argument(
        "--knee-seconds",
        type=_count,
        default=0,
        help="time to search for the knee, for all volumes together; 0 for none",
    )
    verify.add_argument("--seed", type=int, default=None, help="makes the sample repeatable")


def _add_database_commands(commands: Any) -> None:
    add = _Adder(commands)
    prepare = add(
        "prepare_donor",
        _prepare_donor,
        "Check the donor, dump its page list, report its position",
        "--run-id R --mount-points /var/lib/mysql,/var/lib/mysql-log",
    )
    prepare.add_argument(
        "--mount-points",
        type=_mount_points,
        required=True,
        help="where the volumes that will be snapshotted are mounted, separated by commas",
    )
    prepare.add_argument(
        "--dump-percent", type=_percent, default=100, help="share of the buffer pool to list"
    )
    prepare.add_argument("--timeout-seconds", type=_positive_float, default=120.0, help="for the dump")
    start = add(
        "start_database",
        _start_database,
        "Mount, take an own identity, start the server read-only",
        "--run-id R --server-id 3141",
    )
    start.add_argument(
        "--server-id", type=_server_id, required=True, help="unique in the cluster, 1 to 4294967295"
    )
    start.add_argument(
        "--health", type=_health_policy, default={}, help="what the health responder goes by, JSON"
    )
    start.add_argument("--timeout-seconds", type=_positive_float, default=1800.0, help="until it answers")
    join = add(
        "start_replication",
        _start_replication,
        "Join the source by GTID",
        "--run-id R --source-host 10.77.0.10",
    )
    join.add_argument("--source-host", type=_host_name, required=True, help="address of the source")
    catch_up = add(
        "wait_for_catch_up",
        _wait_for_catch_up,
        "Wait until the lag stays under its gate",
        "--run-id R --lag-gate-seconds 5 --lag-samples 3 --timeout-seconds 3600",
    )
    catch_up.add_argument("--lag-gate-seconds", type=_count, default=5, help="highest lag that passes")
    catch_up.add_argument("--lag-samples", type=_positive_int, default=3, help="good samples in a row")
    catch_up.add_argument("--timeout-seconds", type=_positive_float, default=3600.0, help="then it fails")
    load = add("load_buffer_pool", _load_buffer_pool, "Load the donor's hot pages into memory", "--run-id R")
    load.add_argument("--timeout-seconds", type=_positive_float, default=1800.0, help="then it fails")
    add("drain_replica", _drain_replica, "Count client connections and transactions now", "--run-id R")
    measure = add(
        "measure_service",
        _measure_service,
        "Count what the server answers to clients, and how fast",
        "--run-id R --window-seconds 30",
    )
    measure.add_argument("--window-seconds", type=_positive_float, default=30.0, help="how long to count")
    stop = add("stop_database", _stop_database, "Shut the server down cleanly and unmount", "--run-id R")
    stop.add_argument("--timeout-seconds", type=_positive_float, default=1800.0, help="then it fails")
    maintenance = add(
        "set_maintenance",
        _set_maintenance,
        "Make the health responder answer 404",
        "--run-id R --maintenance on",
    )
    maintenance.add_argument("--maintenance", choices=("on", "off"), required=True)
    _add_report_health(add)
    _add_prepare_base(add)
    responder = add("health", _health, "Answer health probes until stopped", "--port 9200", with_run_id=False)
    responder.add_argument("--port", type=_port, default=9200)


def _add_report_health(add: "_Adder") -> None:
    report = add(
        "report_health",
        _report_health,
        "Store what the health responder goes by, and say what it answers now",
        '--run-id R --peers \'[{"instance_id":"i-0a1b2c3d4e5f60718","address":"10.77.2.11"}]\'',
    )
    report.add_argument("--peers", default="[]", help="JSON list of instance_id and address: other replicas")
    report.add_argument(
        "--floor-replicas", type=_count, default=1, help="below so many good ones lag ejects nobody"
    )
    report.add_argument("--lag-seconds", type=_not_negative, default=5.0, help="highest lag that is good")
    report.add_argument("--good-samples", type=_positive_int, default=3, help="in a row, to turn good")
    report.add_argument("--bad-samples", type=_positive_int, default=2, help="in a row, to turn bad")
    report.add_argument(
        "--min-free-disk-percent", type=_percent_free, default=5.0, help="of data and log volumes"
    )
    report.add_argument("--source-serves-reads", choices=("true", "false"), default="false")


def _add_prepare_base(add: "_Adder") -> None:
    base = add(
        "prepare_base",
        _prepare_base,
        "Look whether a replica that others built can be a donor, and put there what Peaker needs",
        "--run-id R --engine mysql --health-port 9200 --filesystems /var/lib/mysql=xfs,/var/lib/mysql-log=xfs",
    )
    base.add_argument("--engine", choices=ENGINES, required=True, help="of the cluster")
    base.add_argument("--health-port", type=_port, required=True, help="where the load balancer asks")
    base.add_argument(
        "--filesystems",
        type=_filesystems,
        required=True,
        help="of the cluster's volumes: mount point=xfs or ext4, separated by commas",
    )
    base.add_argument(
        "--least-binlog-seconds", type=_count, default=0, help="how long the source should keep binary logs"
    )
    base.add_argument("--health", type=_health_policy, default={}, help="what the responder goes by, JSON")
    base.add_argument(
        "--admin-defaults-file",
        type=_path_or_nothing,
        default="",
        help="option file of this host with an administrator's login; else root by the socket",
    )
    base.add_argument(
        "--health-account",
        choices=("replicated", "here"),
        default="replicated",
        help="where it comes from: the source, by replication, or made on this server alone, not logged",
    )
    base.add_argument(
        "--mode",
        choices=("prepare", "check"),
        default="prepare",
        help="check: make nothing, refuse what is missing",
    )
    base.add_argument(
        "--wait-seconds",
        type=_not_negative,
        default=30.0,
        help="how long the responder may take to answer good",
    )


def _health_policy(text: str) -> Dict[str, Any]:
    from peaker_host.health.policy import parse_policy

    try:
        return parse_policy(text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class _Adder:
    """Adds commands that all carry a run id and an example."""

    def __init__(self, commands: Any) -> None:
        self._commands = commands

    def __call__(
        self, name: str, run: Command, summary: str, example: str, with_run_id: bool = True
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = self._commands.add_parser(
            name,
            help=summary,
            description=summary + ".",
            epilog=f"Example: peaker_host.pyz {name} {example}".replace("%", "%%"),
        )
        parser.set_defaults(run=run)
        if with_run_id:
            parser.add_argument("--run-id", type=_run_id, required=True, help="the run that asks")
        return parser


def _add_prewarm_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method", choices=reading_order.METHODS, default="used", help="which blocks to read, in which order"
    )
    parser.add_argument(
        "--rate-limit-mib-per-s", type=_not_negative, default=0.0, help="per volume, 0 for none"
    )
    parser.add_argument(
        "--background-rate-mib-per-s",
        type=_not_negative,
        default=0.0,
        help="per volume, once its hot and recovery blocks are read; 0 goes on as before",
    )
    parser.add_argument(
        "--remainder",
        nargs="?",
        choices=("on", "off"),
        const="on",
        default="off",
        help="read the rest of the snapshot afterwards",
    )
    parser.add_argument(
        "--remainder-rate-mib-per-s",
        type=_not_negative,
        default=0.0,
        help="per volume, for that rest, once the volume is mounted; 0 reads it at once",
    )


def _typed(check: Callable[[str], Any], what: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return check(text)
        except (ValueError, InvalidArgument) as error:
            raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}") from error

    return convert


def _within(convert: Callable[[str], Any], low: float, high: float) -> Callable[[str], Any]:
    def check(text: str) -> Any:
        value = convert(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return check


def _matching(pattern: "re.Pattern[str]") -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.match(text):
            raise ValueError(text)
        return text

    return check


def _absolute_paths(text: str) -> List[str]:
    paths = text.split(",")
    if not all(os.path.isabs(path) for path in paths):
        raise ValueError(text)
    return paths


def _filesystem_list(text: str) -> Any:
    from peaker_host.donor.base_checks import Filesystem

    pairs = [part.partition("=") for part in text.split(",")]
    if not all(os.path.isabs(place) and kind in ("xfs", "ext4") for place, _, kind in pairs):
        raise ValueError(text)
    return tuple(Filesystem(place, kind) for place, _, kind in pairs)


def _absolute_or_empty(text: str) -> str:
    if text and not os.path.isabs(text):
        raise ValueError(text)
    return text


_filesystems = _typed(_filesystem_list, "mount point=xfs or ext4, separated by commas")
_path_or_nothing = _typed(_absolute_or_empty, "an absolute path, or empty")
_mount_points = _typed(_absolute_paths, "absolute paths, separated by commas")
_run_id = _typed(_matching(_RUN_ID), "a run id of letters, digits and hyphens, at most 80")
_host_name = _typed(_matching(_HOST_NAME), "a host name or address")
_positive_int = _typed(_within(int, 1, 10**9), "a whole number from 1")
_count = _typed(_within(int, 0, 10**9), "a whole number from 0")
_percent = _typed(_within(int, 1, 100), "a whole number from 1 to 100")
_percent_free = _typed(_within(float, 0, 100), "a percentage")
_port = _typed(_within(int, 0, 65535), "a port")
_server_id = _typed(_within(int, 1, _MAX_SERVER_ID), "a server id from 1 to 4294967295")
_positive_float = _typed(_within(float, 1e-9, 1e12), "a number above 0")
_not_negative = _typed(_within(float, 0, 1e9), "a number from 0")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
