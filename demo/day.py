"""The demonstration's story: one day of a real trace, from the forecast to the receipt."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from peaker_cli.control_plane import ControlPlane, Execution
from peaker_cli.runs.receipt import render_receipt
from rich.console import Console

from demo.load import ReadLoad
from demo.observer import Observer
from demo.summary import PEAK_REPLICAS, Day, check_day, draw_day, print_summary
from demo.trace import Trace, read_trace, weeks_until
from demo.writes import SourceWrites
from lab import seed
from lab.cluster import RunningCluster, bring_up
from lab.endpoint import Endpoint
from lab.local_cloud import CloudTime, RunningCloud, await_end_of_earlier, local_cloud
from lab.prepare import prepare
from localcloud.cleanup import clean, leftovers
from localcloud.deploy import deploy
from localcloud.hosts.state_lock import process_mark
from peaker_contract.errors import LeaseHeld
from peaker_contract.names import cluster_parameter

ENVIRONMENT, CLUSTER, REGION = "local", "orders", "us-east-1"
# The trace counts taxi passengers per half hour; this makes them queries per second that this machine serves.
QUERIES_PER_S_PER_UNIT = 0.016
TRACE_DAY = datetime(2014, 10, 21, tzinfo=UTC)
DAY_STARTS, DAY_ENDS = timedelta(hours=9), timedelta(hours=27)
# A sale that was never before multiplies what the trace has. The calendar of the cluster has it begin early: two
# replicas share this machine's processors, and the lead time was learned of one.
SALE_STARTS, SALE_ENDS, SALE_FACTOR = timedelta(hours=19), timedelta(hours=21, minutes=30), 2.6
SALE_KNOWN_FROM, SALE_QUERIES_PER_S = SALE_STARTS - timedelta(hours=2, minutes=30), 1100
HISTORY_DAYS = 56
# Ten hours of the cloud's time.
RUN_LIMIT_CLOUD_SECONDS = 36_000
LEASE_TRIES = 10


class DemoFailed(Exception):
    """The demonstration cannot go on; the message says where and why."""


@dataclass(frozen=True)
class DemoOptions:
    """Where and how fast; `scale` is cloud seconds per real second."""

    checkout: Path
    output: Path
    trace: Path
    scale: float
    port: int

    @property
    def state_dir(self) -> Path:
        return self.checkout / ".localcloud"


class Narrator:
    """Prints a line with the real seconds since the start and, once the day runs, the cloud's time."""

    def __init__(self, console: Console) -> None:
        self._console, self._started = console, time.monotonic()
        self.cloud_time: Callable[[], datetime] | None = None

    def __call__(self, text: str) -> None:
        clock = f"{self.cloud_time():%a %H:%M}" if self.cloud_time else " " * 9
        self._console.print(f"[dim]{time.monotonic() - self._started:6.1f} s  {clock}[/]  {text}")

    def chapter(self, title: str) -> None:
        """A new part of the story."""
        self._console.print(f"\n[bold]{title}[/]")


def run_day(options: DemoOptions, console: Console) -> bool:
    """Run it all; True when every check holds. Leaves nothing behind, also when it fails."""
    trace = read_trace(options.trace, QUERIES_PER_S_PER_UNIT)
    say = Narrator(console)
    await_end_of_earlier(options.state_dir)
    for line in clean(options.state_dir):
        say(f"left by an earlier run, removed: {line}")
    say.chapter("Set-up")
    kept = prepare(options.state_dir, say)
    say("synthesizing environments/local.yaml")
    templates = _synthesize(options)
    say = Narrator(console)
    with local_cloud(options.checkout, options.state_dir, options.port) as cloud:
        day = _day_on(cloud, options, trace, kept, templates, say)
    left = leftovers(options.state_dir)
    checks = check_day(day, left)
    for receipt in day.receipts:
        console.print(render_receipt(receipt, 1 / options.scale))
    picture = draw_day(day, options.output)
    return print_summary(day, checks, picture, options.output, console)


def _synthesize(options: DemoOptions) -> Path:
    output = options.checkout / "cdk.out" / ENVIRONMENT
    done = subprocess.run(
        [str(options.checkout / "scripts" / "synth"), ENVIRONMENT, "--output", str(output)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise DemoFailed(f"scripts/synth {ENVIRONMENT}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return output


def _day_on(
    cloud: RunningCloud, options: DemoOptions, trace: Trace, kept: seed.Seed, templates: Path, say: Narrator
) -> Day:
    control = ControlPlane(ENVIRONMENT, REGION, cloud.endpoint_url)
    say.chapter("The local cloud and the cluster that Peaker finds")
    say(f"local cloud on {cloud.endpoint_url}; deploying {templates.relative_to(options.checkout)}")
    deploy(templates, cloud.endpoint_url, progress=lambda line: say(line.split(" to s3://")[0]))
    settings = _settings(control)
    prepare_base = cloud.prepare_base(ENVIRONMENT, CLUSTER, REGION)
    cluster = bring_up(control.client, cloud.admin, settings, kept, prepare_base, say)
    say(
        f"source {cluster.source_id}, base replica {cluster.base_replica_id} serves on port {cluster.listener_port}"
    )
    moved = trace.moved(weeks_until(TRACE_DAY, datetime.now(UTC)))
    midnight = TRACE_DAY + (moved.times[0] - trace.times[0])
    start = midnight + DAY_STARTS
    moved = moved.raised(midnight + SALE_STARTS, midnight + SALE_ENDS, SALE_FACTOR)
    _load_history(cloud, settings["load_metric"], moved, start)
    say(
        f"{HISTORY_DAYS} days of the trace's history are in CloudWatch; one day from {start:%A %H:%M}, "
        f"{options.scale:g} times faster"
    )
    cloud.set_clock(options.scale, start)
    cloud_time = CloudTime(options.state_dir / "clock.json")
    say.cloud_time = cloud_time.now
    return _watch(control, options.state_dir, settings, cluster, moved, cloud_time, midnight, say)


def _settings(control: ControlPlane) -> dict[str, Any]:
    parameter = control.client("ssm").get_parameter(Name=cluster_parameter(ENVIRONMENT, CLUSTER))
    settings: dict[str, Any] = json.loads(parameter["Parameter"]["Value"])
    return settings


def _announce_sale(
    control: ControlPlane, settings: dict[str, Any], midnight: datetime, say: Narrator
) -> None:
    """Into the cluster's calendar, as a deploy of the changed environment file writes it."""
    start, until = midnight + SALE_KNOWN_FROM, midnight + SALE_ENDS
    sale = {
        "from": start.isoformat(),
        "until": until.isoformat(),
        "reason": "evening sale",
        "load": SALE_QUERIES_PER_S,
    }
    name, value = cluster_parameter(ENVIRONMENT, CLUSTER), json.dumps({**settings, "calendar": [sale]})
    control.client("ssm").put_parameter(Name=name, Value=value, Type="String", Overwrite=True)
    say(
        f"the calendar of {CLUSTER} knows a sale now: {SALE_QUERIES_PER_S:,} queries per second, "
        f"{start:%H:%M} to {until:%H:%M}"
    )


def _load_history(cloud: RunningCloud, metric: dict[str, Any], trace: Trace, start: datetime) -> None:
    points = [[t.isoformat(), v] for t, v in trace.before(start, HISTORY_DAYS)]
    cloud.admin(
        "metrics/history",
        {key: metric[key] for key in ("namespace", "name", "dimensions")} | {"points": points},
    )


def _watch(
    control: ControlPlane,
    state_dir: Path,
    settings: dict[str, Any],
    cluster: RunningCluster,
    trace: Trace,
    clock: CloudTime,
    midnight: datetime,
    say: Narrator,
) -> Day:
    dataset = seed.Dataset()
    endpoint = Endpoint(
        "127.0.0.1", cluster.listener_port, seed.APPLICATION_USER, seed.APPLICATION_PASSWORD,
        dataset.database, dataset.tables, dataset.table_size,
    )  # fmt: skip
    mark = process_mark(state_dir)
    load = ReadLoad(endpoint, trace, clock.now, mark)
    writes = SourceWrites(cluster.source_address, mark)
    observer = Observer(
        control, load, clock.now, trace.at, cluster.target_group_arn, settings["load_metric"], say
    )
    day = Day(settings, cluster, load, observer, cloud_started=clock.now())
    threads = (load, writes, observer)
    for thread in threads:
        thread.start()
    try:
        say.chapter("Before the day: by hand, as in the console")
        _by_hand(control, day, clock.real_seconds(RUN_LIMIT_CLOUD_SECONDS), say)
        say.chapter("The day: the forecast acts")
        _announce_sale(control, settings, midnight, say)
        _by_forecast(control, day, clock, say)
    finally:
        for thread in threads:
            thread.stop()
    day.read_back(control)
    return day


def _by_hand(control: ControlPlane, day: Day, limit_seconds: float, say: Narrator) -> None:
    day.resources_before = day.resources(control)
    say(f'scale_out {{"cluster": "{CLUSTER}", "mode": "plan"}}')
    planned = _run(control, "scale_out", {"cluster": CLUSTER, "mode": "plan"}, limit_seconds, say)
    day.plan = planned.output
    day.plan_changed_nothing = day.resources(control) == day.resources_before
    # As many as the evening takes: side by side each takes longer here, and lead times are learned from these.
    by_hand = {"cluster": CLUSTER, "count": PEAK_REPLICAS, "reason": "demonstration by hand"}
    say(f'scale_out {{"cluster": "{CLUSTER}", "count": {PEAK_REPLICAS}}}')
    _run(control, "scale_out", by_hand, limit_seconds, say)
    day.ask_endpoint_for_servers()
    say(f'scale_in {{"cluster": "{CLUSTER}", "count": {PEAK_REPLICAS}}}')
    _run(control, "scale_in", by_hand, limit_seconds, say)


def _run(
    control: ControlPlane, workflow: str, request: dict[str, Any], limit_seconds: float, say: Narrator
) -> Execution:
    """By hand, as a person does: when another operation holds the cluster's lease, try again in a moment."""
    for _ in range(LEASE_TRIES):
        execution = control.wait(control.start(workflow, request), limit_seconds)
        if execution.failure is not None:
            error, cause = execution.failure
            break
        if not execution.is_refused:
            return execution
        error, cause = str(execution.output["error"]), str(execution.output["reason"])
        if error != LeaseHeld.__name__:
            break
        say("another operation holds the lease, once more in a moment")
        time.sleep(2.0)
    raise DemoFailed(f"{workflow} {json.dumps(request)} ended {execution.status}: {error}: {cause}")


def _by_forecast(control: ControlPlane, day: Day, clock: CloudTime, say: Narrator) -> None:
    end = day.cloud_started.replace(hour=0, minute=0) + DAY_ENDS
    before = {workflow: len(day.observer.trails_of(workflow)) for workflow in ("scale_out", "scale_in")}
    asked = False
    while clock.now() < end:
        time.sleep(1.0)
        acted = day.automatic_runs(before)
        if not asked and any(trail.status == "SUCCEEDED" for trail in acted["scale_out"]):
            day.ask_endpoint_for_servers()
            asked = True
        if asked and any(trail.status == "SUCCEEDED" for trail in acted["scale_in"]):
            say("the peak replicas are gone; the day's work is done")
            return
    say(f"the day ended at {end:%A %H:%M} without replicas built and retired by the forecast")
