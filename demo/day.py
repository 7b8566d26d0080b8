"""The demonstration's story: one evening of a recorded load, from the forecast to the receipts."""

from __future__ import annotations

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from peaker_cli.control_plane import ControlPlane
from peaker_cli.runs.receipt import render_receipt
from rich.console import Console

from demo.load import ReadLoad
from demo.narrator import Narrator
from demo.observer import Observer
from demo.summary import Day, check_day, draw_day, print_summary
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
from peaker_contract.names import cluster_parameter

ENVIRONMENT, CLUSTER, REGION = "local", "orders", "us-east-1"
# Rentals of bicycles in an hour: what is an evening's rush of commuters there is a rush of queries here.
TRACE = Path("data/demo/bikeshare.csv")
QUERIES_PER_S_PER_RENTAL = 1.95
TRACE_DAY = datetime(2011, 10, 18, tzinfo=UTC)
# The cloud's clock when the stacks are deployed, from when on the schedules count; and when the evening is over.
DEPLOYED_AT, EVENING_ENDS = timedelta(hours=13, minutes=48), timedelta(hours=23)
HISTORY_DAYS = 62
# Of set-up and of tidying up, on an idle machine; what the story takes is reckoned from the clock.
SET_UP_SECONDS = 45.0


class DemoFailed(Exception):
    """The demonstration cannot go on; the message says where and why."""


@dataclass(frozen=True)
class DemoOptions:
    """Where and how fast; `scale` is cloud seconds per real second."""

    checkout: Path
    output: Path
    scale: float
    port: int

    @property
    def state_dir(self) -> Path:
        return self.checkout / ".localcloud"


def run_day(options: DemoOptions, console: Console) -> bool:
    """Run it all; True when every check holds. Leaves nothing behind, also when it fails."""
    trace = read_trace(options.checkout / TRACE, QUERIES_PER_S_PER_RENTAL)
    trace = trace.moved(weeks_until(TRACE_DAY, datetime.now(UTC)))
    with Narrator(console) as say, ThreadPoolExecutor(1) as beside:
        await_end_of_earlier(options.state_dir)
        for line in clean(options.state_dir):
            say(f"left by an earlier run, removed: {line}")
        say.chapter("Set-up")
        say("synthesizing environments/local.yaml")
        templates = beside.submit(_synthesize, options)
        kept = prepare(options.state_dir, say)
        with local_cloud(options.checkout, options.state_dir, options.port) as cloud:
            say(f"local cloud on {cloud.endpoint_url}")
            day = _day_on(cloud, options, trace, kept, templates.result(), say)
    checks = check_day(day, leftovers(options.state_dir))
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
    say.chapter("The local cloud, and the cluster that Peaker finds")
    midnight = TRACE_DAY + weeks_until(TRACE_DAY, datetime.now(UTC))
    cloud.set_clock(1.0, midnight + DEPLOYED_AT)
    deploy(templates, cloud.endpoint_url, progress=lambda line: say(line.split(" to s3://")[0]))
    settings = _settings(control)
    prepare_base = cloud.prepare_base(ENVIRONMENT, CLUSTER, REGION)
    cluster = bring_up(control.client, cloud.admin, settings, kept, prepare_base, say)
    say(
        f"source {cluster.source_id}; base replica {cluster.base_replica_id} serves on port {cluster.listener_port}"
    )
    clock = CloudTime(options.state_dir / "clock.json")
    _load_history(cloud, settings["load_metric"], trace, clock.now())
    say(
        f"the {HISTORY_DAYS} days before are in CloudWatch; {clock.now():%A %H:%M}, {options.scale:g} times faster"
    )
    cloud.set_clock(options.scale)
    return _watch(control, options, settings, cluster, trace, clock, midnight + EVENING_ENDS, say)


def _settings(control: ControlPlane) -> dict[str, Any]:
    parameter = control.client("ssm").get_parameter(Name=cluster_parameter(ENVIRONMENT, CLUSTER))
    settings: dict[str, Any] = json.loads(parameter["Parameter"]["Value"])
    return settings


def _load_history(cloud: RunningCloud, metric: dict[str, Any], trace: Trace, now: datetime) -> None:
    """Of the metric that Peaker's own measurement goes on with."""
    period = int(metric["period_seconds"])
    until = datetime.fromtimestamp(now.timestamp() // period * period, UTC)
    points = [[t.isoformat(), v] for t, v in trace.before(until, HISTORY_DAYS, timedelta(seconds=period))]
    named = {key: metric[key] for key in ("namespace", "name", "dimensions")}
    cloud.admin("metrics/history", {**named, "points": points})


def _watch(
    control: ControlPlane,
    options: DemoOptions,
    settings: dict[str, Any],
    cluster: RunningCluster,
    trace: Trace,
    clock: CloudTime,
    end: datetime,
    say: Narrator,
) -> Day:
    dataset = seed.Dataset()
    endpoint = Endpoint(
        "127.0.0.1", cluster.listener_port, seed.APPLICATION_USER, seed.APPLICATION_PASSWORD,
        dataset.database, dataset.tables, dataset.table_size,
    )  # fmt: skip
    mark = process_mark(options.state_dir)
    load = ReadLoad(endpoint, trace.at, clock.now, mark)
    writes = SourceWrites(cluster.source_address, mark)
    observer = Observer(control, settings, cluster.target_group_arn, clock.now, trace.at, say)
    day = Day(settings, cluster, load, observer, trace, clock.now(), end)
    day.resources_before = day.resources(control)
    say.where = lambda: _where(day, clock)
    threads = (load, writes, observer)
    for thread in threads:
        thread.start()
    try:
        say.chapter("The evening: nobody does anything")
        _until_they_are_gone(day, clock, say)
    finally:
        for thread in threads:
            thread.stop()
    day.read_back(control)
    return day


def _until_they_are_gone(day: Day, clock: CloudTime, say: Narrator) -> None:
    asked = False
    while clock.now() < day.until:
        time.sleep(1.0)
        built = any(run.ended == "SUCCEEDED" for run in day.observer.runs_of("scale_out"))
        if built and not asked:
            day.ask_endpoint_for_servers()
            asked = True
        if built and day.observer.is_as_before():
            return
    say(f"it is {day.until:%H:%M}, and no replicas were built and retired by the forecast")


def _where(day: Day, clock: CloudTime) -> str:
    """One line: the cloud's time, the load, the forecast, the replicas, the step, the real seconds that are left."""
    now, observer = clock.now(), day.observer
    capacity = float(day.settings["capacity_per_replica"])
    sample = observer.samples[-1] if observer.samples else None
    serving = sample.serving_replicas if sample else 1
    parts = [f"{now:%a %H:%M}", f"{day.trace.at(now):.0f} of {serving * capacity:.0f} reads/s"]
    if observer.forecasts:
        newest = observer.forecasts[-1]
        parts.append(f"forecast p95 {newest.p95:.0f} at {newest.target:%H:%M}")
    parts += [f"{serving} serving", observer.step]
    left = clock.real_seconds((day.expected_end - now).total_seconds())
    parts.append(f"about {left:.0f} s to go" if left > 0 else "any moment now")
    return "  ".join(parts)
