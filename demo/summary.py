"""What the day showed: receipts, checks, the picture and one JSON document."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from peaker_cli.control_plane import ControlPlane
from peaker_cli.durations import duration
from rich.console import Console
from rich.table import Table

from demo.load import totals
from demo.observer import ExecutionTrail, Observer
from demo.timeline import Bar, Picture, draw
from lab import seed
from lab.cluster import RunningCluster
from peaker_contract.metrics import CLUSTER_DIMENSION, Metric, namespace

DATA_VOLUMES = 2
PEAK_REPLICAS = 2
LEAST_PEAK = 1.8


@dataclass(frozen=True)
class Check:
    """One claim of the demonstration."""

    claim: str
    holds: bool
    value: str


@dataclass(frozen=True)
class Bill:
    """USD of the peak's replicas for a day: if they were always on, and as Peaker had them."""

    always_on: float
    peaker: float


@dataclass
class Day:
    """What happened, gathered while the local cloud ran.

    `receipts` are one for each run, `of_members` those of the further members of its batch.
    """

    settings: dict[str, Any]
    cluster: RunningCluster
    load: Any
    observer: Observer
    cloud_started: datetime
    plan: Any = None
    plan_changed_nothing: bool = False
    servers_seen: list[set[str]] = field(default_factory=list)
    receipts: list[dict[str, Any]] = field(default_factory=list)
    of_members: list[dict[str, Any]] = field(default_factory=list)
    forecast: list[tuple[datetime, float, float]] = field(default_factory=list)
    resources_before: dict[str, list[str]] = field(default_factory=dict)
    resources_at_end: dict[str, list[str]] = field(default_factory=dict)
    replicas_at_end: list[str] = field(default_factory=list)

    def resources(self, control: ControlPlane) -> dict[str, list[str]]:
        """Ids of instances, volumes and snapshots that are there now."""
        ec2 = control.client("ec2")
        instances = [
            i["InstanceId"]
            for reservation in ec2.describe_instances()["Reservations"]
            for i in reservation["Instances"]
            if i["State"]["Name"] not in ("terminated", "shutting-down")
        ]
        volumes = [v["VolumeId"] for v in ec2.describe_volumes()["Volumes"]]
        snapshots = [s["SnapshotId"] for s in ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]]
        return {"instances": sorted(instances), "volumes": sorted(volumes), "snapshots": sorted(snapshots)}

    def ask_endpoint_for_servers(self, questions: int = 24) -> None:
        """Which servers answer through the endpoint, each asked on a connection of its own."""
        command = [
            "mariadb", "--batch", "--skip-column-names", "--host=127.0.0.1",
            f"--port={self.cluster.listener_port}", f"--user={seed.APPLICATION_USER}",
            f"--password={seed.APPLICATION_PASSWORD}", "--execute=SELECT @@server_uuid",
        ]  # fmt: skip
        answers = [subprocess.run(command, capture_output=True, text=True) for _ in range(questions)]
        self.servers_seen.append({a.stdout.strip() for a in answers if a.returncode == 0})

    def automatic_runs(self, before: dict[str, int]) -> dict[str, list[ExecutionTrail]]:
        """Executions since the part by hand that did more than look, by workflow."""
        return {
            workflow: [
                trail
                for trail in self.observer.trails_of(workflow)[count:]
                if any(state in ("AddReplicas", "RemoveReplicas") for _, state in trail.states)
            ]
            for workflow, count in before.items()
        }

    def read_back(self, control: ControlPlane) -> None:
        """Receipts, the forecast's points and what is still there, read before the cloud stops."""
        self.resources_at_end = self.resources(control)
        self.replicas_at_end = [
            d["Target"]["Id"]
            for d in control.client("elbv2").describe_target_health(
                TargetGroupArn=self.cluster.target_group_arn
            )["TargetHealthDescriptions"]
            # A retired target is listed until its deregistration delay is over, and gets nothing.
            if d["TargetHealth"]["State"] != "draining"
        ]
        for run in reversed(control.runs(self.cluster.name, limit=100)):
            receipt = control.receipt(str(run["run_id"]))
            if receipt["outcome"] != "nothing_to_do":
                self.receipts.append(receipt)
        others = {
            one["run_id"]
            for receipt in self.receipts
            for one in receipt["members"]
            if one["run_id"] != receipt["run_id"]
        }
        self.of_members = [one for one in self.receipts if one["run_id"] in others]
        self.receipts = [one for one in self.receipts if one["run_id"] not in others]
        self.forecast = _forecast_points(control, self.cluster.name, self.cloud_started)

    # -- derived -------------------------------------------------------------------------------------------

    @property
    def by_alarm(self) -> dict[str, Any] | None:
        """The receipt of the scale_out that the forecast's alarm started."""
        found = [
            r for r in self.receipts if r["operation"] == "scale_out" and r["trigger"].get("kind") == "alarm"
        ]
        return found[0] if found else None

    @property
    def peak_retired(self) -> dict[str, Any] | None:
        """The receipt of the scale_in that took away what the alarm's run had built."""
        built = {one["instance_id"] for one in (self.by_alarm or {}).get("members", ())}
        found = [
            receipt
            for receipt in self.receipts
            if receipt["operation"] == "scale_in"
            and built & {one["instance_id"] for one in receipt["members"]}
        ]
        return found[0] if found else None

    @property
    def highest_demand(self) -> float:
        """Of all looks, as a multiple of what the base replica serves."""
        asked = max((s.asked_queries_per_s for s in self.observer.samples), default=0.0)
        return asked / float(self.settings["capacity_per_replica"])

    @property
    def bill(self) -> Bill | None:
        """What the peak's replicas cost, and what they would have cost all day; None where a price is not known."""
        retired = self.peak_retired
        if retired is None:
            return None
        ids = {one["run_id"] for one in retired["members"]}
        costs = [one["cost"] for one in (*self.receipts, *self.of_members) if one["run_id"] in ids]
        if any(one is None or one["so_far"] is None or one["hourly"] is None for one in costs):
            return None
        return Bill(sum(24 * one["hourly"] for one in costs), sum(one["so_far"] for one in costs))

    @property
    def alarm_at(self) -> datetime | None:
        receipt = self.by_alarm
        return None if receipt is None else _time(receipt["trigger"]["at"])

    @property
    def serving_at(self) -> datetime | None:
        """When the replica that the alarm's run built had its full share of the reads."""
        lead = (self.by_alarm or {}).get("forecast_lead") or {}
        return _time(lead["serving_at"]) if lead.get("serving_at") else None

    @property
    def crossed_at(self) -> datetime | None:
        """When demand first passed what the base replica serves, after the alarm."""
        limit = float(self.settings["capacity_per_replica"])
        after = self.alarm_at or self.cloud_started
        return next(
            (s.at for s in self.observer.samples if s.at > after and s.asked_queries_per_s > limit), None
        )


def check_day(day: Day, left: Sequence[str]) -> list[Check]:
    """Every claim with what was measured."""
    queries, failed = totals(day.load.bursts)
    checks = [
        Check(
            "demand reached 1.8 times the base capacity",
            day.highest_demand >= LEAST_PEAK,
            f"{day.highest_demand:.2f} times",
        ),
        Check("read queries failed", failed == 0 and queries > 0, f"{failed} of {queries:,}"),
        Check("plan mode changed nothing", day.plan_changed_nothing, _plan_text(day.plan)),
        Check(
            "replicas warm before demand passed capacity",
            None not in (day.serving_at, day.crossed_at) and day.serving_at < day.crossed_at,  # type: ignore[operator]
            _lead_text(day),
        ),
    ]
    built = [r for r in day.receipts if r["operation"] == "scale_out"]
    retired = [r for r in day.receipts if r["operation"] == "scale_in"]
    checks += [
        Check("both peak replicas came in one batch", *_batch_text(day.by_alarm, "in_service", "scale_out")),
        Check("both were drained side by side", *_batch_text(day.peak_retired, "gone", "scale_in")),
        Check("Peaker cost less than two replicas that are always on", *_bill_text(day.bill)),
        Check(
            "runs succeeded",
            all(r["outcome"] == "succeeded" for r in day.receipts) and len(built) >= 2 and len(retired) >= 2,
            f"{len(built)} built, {len(retired)} retired",
        ),
        Check(
            "the new replicas answered through the endpoint",
            [len(seen) for seen in day.servers_seen] == 2 * [1 + PEAK_REPLICAS],
            "; ".join(f"{len(seen)} servers answered" for seen in day.servers_seen),
        ),
        Check(
            "only the base replica is left in service",
            day.replicas_at_end == [day.cluster.base_replica_id],
            ", ".join(day.replicas_at_end),
        ),
        Check("instances, volumes and snapshots of the peak are deleted, but one set", *_as_before(day)),
        Check(
            "nothing left on this machine",
            not left,
            ", ".join(left) or "no process, mount, device, namespace",
        ),
    ]
    return checks


def _batch_text(receipt: dict[str, Any] | None, state: str, operation: str) -> tuple[bool, str]:
    members = [] if receipt is None else receipt["members"]
    ended = [one for one in members if one["state"] == state]
    return len(ended) == len(members) == PEAK_REPLICAS, f"{len(ended)} replicas in one {operation}"


def _bill_text(bill: Bill | None) -> tuple[bool, str]:
    if bill is None:
        return False, "a price is not known"
    share = 1 - bill.peaker / bill.always_on
    return (
        bill.peaker < bill.always_on,
        f"${bill.peaker:.2f} against ${bill.always_on:.2f} a day, {share:.0%} less",
    )


def _as_before(day: Day) -> tuple[bool, str]:
    counts = ", ".join(f"{len(ids)} {kind}" for kind, ids in day.resources_at_end.items())
    added = [
        resource
        for kind, ids in day.resources_at_end.items()
        for resource in ids
        if resource not in day.resources_before[kind]
    ]
    kept = {
        row["id"]
        for receipt in day.receipts
        for row in receipt["resources"]
        if row["kind"] == "snapshot" and row["state"] == "kept"
    }
    one_set = [resource for resource in added if resource in kept]
    more = [resource for resource in added if resource not in kept]
    good = not more and len(one_set) <= DATA_VOLUMES and bool(day.resources_at_end)
    if not good:
        return False, ", ".join(added)
    return True, f"{counts}, {len(one_set)} of them the kept set of the base replica"


def _plan_text(plan: Any) -> str:
    if not isinstance(plan, dict):
        return "no plan"
    price = (plan.get("plan") or plan).get("price") or {}
    return f"a plan at ${price['hourly']:.4f}/h" if price.get("hourly") is not None else "a plan"


def _lead_text(day: Day) -> str:
    if day.alarm_at is None or day.crossed_at is None or day.serving_at is None:
        return f"alarm {day.alarm_at}, serving {day.serving_at}, passed {day.crossed_at}"
    lead = (day.crossed_at - day.alarm_at).total_seconds()
    spare = (day.crossed_at - day.serving_at).total_seconds()
    return (
        f"alarm {day.alarm_at:%H:%M}, serving {day.serving_at:%H:%M}, passed {day.crossed_at:%H:%M}: "
        f"{duration(lead)} ahead, ready {duration(spare)} early"
        if spare >= 0
        else f"alarm {day.alarm_at:%H:%M}, passed {day.crossed_at:%H:%M}, serving {day.serving_at:%H:%M}: too late"
    )


def draw_day(day: Day, output: Path) -> Path:
    """The timeline as PNG."""
    runs = []
    for receipt in sorted(
        (*day.receipts, *day.of_members), key=lambda one: (one["started_at"], one["run_id"])
    ):
        bars = [
            Bar(receipt["operation"], step["step"], _time(step["started_at"]),
                _time(step["started_at"]) + timedelta(seconds=step["seconds"] or 0))
            for step in receipt["steps"]
        ]  # fmt: skip
        how = receipt["trigger"].get("kind", "manual")
        beside = ", beside it" if receipt in day.of_members else ""
        runs.append((f"{receipt['operation']} ({how}){beside}", bars))
    path = output / "timeline.png"
    draw(
        Picture(
            day.observer.samples, float(day.settings["capacity_per_replica"]), day.forecast, day.alarm_at,
            day.crossed_at, runs, f"Peaker: cluster {day.cluster.name}, {day.cloud_started:%A %d %B %Y}",
            None if day.bill is None else (day.bill.always_on, day.bill.peaker),
        ),
        path,
    )  # fmt: skip
    return path


def print_summary(day: Day, checks: Sequence[Check], picture: Path, output: Path, console: Console) -> bool:
    """Print the checks, write summary.json; True when all hold."""
    table = Table(box=None, pad_edge=False, header_style="bold", title="Summary", title_justify="left")
    for column in ("", "claim", "measured"):
        table.add_column(column, overflow="fold")
    for check in checks:
        table.add_row("[green]holds[/]" if check.holds else "[bold red]FAILS[/]", check.claim, check.value)
    console.print(table)
    queries, failed = totals(day.load.bursts)
    document = {
        "checks": [asdict(check) for check in checks],
        "queries": queries,
        "failed_queries": failed,
        "load_errors": sorted({b.error for b in day.load.bursts if b.error}),
        "alarm_at": _iso(day.alarm_at),
        "serving_at": _iso(day.serving_at),
        "crossed_at": _iso(day.crossed_at),
        "highest_demand": day.highest_demand,
        "bill": None if day.bill is None else asdict(day.bill),
        "plan": day.plan,
        "receipts": day.receipts,
    }
    output.mkdir(parents=True, exist_ok=True)
    (output / "summary.json").write_text(json.dumps(document, indent=1, default=str))
    console.print(f"timeline: {picture}\nsummary:  {output / 'summary.json'}")
    return all(check.holds for check in checks)


def _forecast_points(
    control: ControlPlane, cluster: str, start: datetime
) -> list[tuple[datetime, float, float]]:
    """(target time, p50, p95) of the published forecasts, moved ahead by the lead time they were made for."""
    names = (Metric.FORECAST_LOAD_P50, Metric.FORECAST_LOAD_P95, Metric.LEAD_TIME_SECONDS)
    queries = [
        {
            "Id": f"q{index}",
            "MetricStat": {
                "Metric": {
                    "Namespace": namespace(control.environment), "MetricName": name.value,
                    "Dimensions": [{"Name": CLUSTER_DIMENSION, "Value": cluster}],
                },
                "Period": 300,
                "Stat": "Average",
            },
        }
        for index, name in enumerate(names)
    ]  # fmt: skip
    found = control.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries,
        StartTime=start,
        EndTime=start + timedelta(days=2),
        ScanBy="TimestampAscending",
    )
    series = [dict(zip(r["Timestamps"], r["Values"], strict=True)) for r in found["MetricDataResults"]]
    shared = sorted(set(series[0]) & set(series[1]) & set(series[2])) if len(series) == 3 else []
    return [(t + timedelta(seconds=series[2][t]), series[0][t], series[1][t]) for t in shared]


def _time(iso: str) -> datetime:
    moment = datetime.fromisoformat(iso)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
