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

from demo.load import ReadLoad, totals
from demo.observer import Forecast, Observer
from demo.timeline import Bar, Picture, draw
from demo.trace import Trace
from lab import seed
from lab.cluster import RunningCluster

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
    load: ReadLoad
    observer: Observer
    trace: Trace
    started: datetime
    until: datetime
    servers_seen: set[str] = field(default_factory=set)
    receipts: list[dict[str, Any]] = field(default_factory=list)
    of_members: list[dict[str, Any]] = field(default_factory=list)
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
        self.servers_seen = {a.stdout.strip() for a in answers if a.returncode == 0}

    def read_back(self, control: ControlPlane) -> None:
        """Receipts and what is still there, read before the cloud stops."""
        self.resources_at_end = self.resources(control)
        health = control.client("elbv2").describe_target_health(TargetGroupArn=self.cluster.target_group_arn)
        self.replicas_at_end = [
            d["Target"]["Id"]
            for d in health["TargetHealthDescriptions"]
            # A retired target is listed until its deregistration delay is over, and gets nothing.
            if d["TargetHealth"]["State"] != "draining"
        ]
        ids = [str(run["run_id"]) for run in control.runs(self.cluster.name, limit=100)]
        found = [one for one in map(control.find_receipt, ids) if one is not None]
        acted = sorted(
            (r for r in found if r["outcome"] != "nothing_to_do"), key=lambda r: str(r["started_at"])
        )
        others = {m["run_id"] for r in acted for m in r["members"] if m["run_id"] != r["run_id"]}
        self.receipts = [r for r in acted if r["run_id"] not in others]
        self.of_members = [r for r in acted if r["run_id"] in others]

    # -- derived -------------------------------------------------------------------------------------------

    @property
    def capacity(self) -> float:
        """Queries per second that one replica serves, so the base load's one."""
        return float(self.settings["capacity_per_replica"])

    @property
    def crossings(self) -> tuple[datetime | None, datetime | None]:
        """When the load passes what the base replica serves, and when it is below again for the last time."""
        found = self.trace.passes(self.capacity, self.started, self.until)
        return (found[0], found[-1]) if len(found) >= 2 else (None, None)

    @property
    def expected_end(self) -> datetime:
        """Half a lead time after the load is below again, as far as a lead time was predicted."""
        below = self.crossings[1] or self.until
        return below + timedelta(seconds=0.6 * (self.lead_seconds or 3600.0))

    @property
    def built(self) -> dict[str, Any] | None:
        """The receipt of the first run that built replicas."""
        return next((r for r in self.receipts if r["operation"] == "scale_out"), None)

    @property
    def retired(self) -> list[dict[str, Any]]:
        """The receipts of the runs that took them away."""
        return [r for r in self.receipts if r["operation"] == "scale_in"]

    @property
    def alarm_at(self) -> datetime | None:
        """When the alarm went off that started the run; None where none did."""
        trigger = {} if self.built is None else self.built["trigger"]
        return _time(trigger["at"]) if trigger.get("kind") == "alarm" else None

    @property
    def forecast_of_alarm(self) -> Forecast | None:
        """The newest forecast when the alarm went off."""
        at = self.alarm_at
        known = [one for one in self.observer.forecasts if at is not None and one.issued_at <= at]
        return known[-1] if known else None

    @property
    def lead_seconds(self) -> float | None:
        """The lead time by which the alarm was raised, else the first one; None before the first forecast."""
        used = self.forecast_of_alarm or next(iter(self.observer.forecasts), None)
        return None if used is None else used.lead_seconds

    @property
    def serving_at(self) -> datetime | None:
        """When the last of the new replicas had its full share of the reads."""
        members = [] if self.built is None else self.built["members"]
        times = [_time(m["serving_at"]) for m in members if m["serving_at"]]
        return max(times) if times and len(times) == len(members) else None

    @property
    def gone_at(self) -> datetime | None:
        """When the last of them was retired."""
        gone = [r for r in self.retired if r["outcome"] == "succeeded"]
        return max((_time(r["finished_at"]) for r in gone), default=None)

    @property
    def bill(self) -> Bill | None:
        """What the peak's replicas cost, and what they would have cost all day; None where a price is not known."""
        ids = {m["run_id"] for r in self.retired for m in r["members"]}
        costs = [r["cost"] for r in (*self.receipts, *self.of_members) if r["run_id"] in ids]
        if not costs or any(c is None or c["so_far"] is None or c["hourly"] is None for c in costs):
            return None
        return Bill(sum(24 * c["hourly"] for c in costs), sum(c["so_far"] for c in costs))


def check_day(day: Day, left: Sequence[str]) -> list[Check]:
    """Every claim with what was measured."""
    queries, failed = totals(day.load.bursts)
    return [
        Check("the load reached 1.8 times the base capacity", *_peak(day)),
        Check("no read failed", failed == 0 and queries > 0, f"{failed} of {queries:,}"),
        Check("the forecast alone raised the alarm", *_alarm(day)),
        Check("two replicas came in one run", *_batch(day)),
        Check("ready before the load passed capacity, at most a lead time", *_ready(day)),
        Check("gone at most a lead time after it was below", *_gone(day)),
        Check("the new replicas answered through the endpoint", len(day.servers_seen) == 1 + PEAK_REPLICAS,
              f"{len(day.servers_seen)} servers answered"),
        Check("Peaker cost less than two replicas that are always on", *_costs(day.bill)),
        Check("runs succeeded", bool(day.receipts) and all(r["outcome"] == "succeeded" for r in day.receipts),
              ", ".join(f"{r['operation']} {r['outcome']}" for r in day.receipts)),
        Check("only the base replica is left in service", day.replicas_at_end == [day.cluster.base_replica_id],
              ", ".join(day.replicas_at_end)),
        Check("instances, volumes and snapshots of the peak are deleted, but one set", *_as_before(day)),
        Check("nothing left on this machine", not left,
              ", ".join(left) or "no process, mount, device, namespace"),
    ]  # fmt: skip


def _peak(day: Day) -> tuple[bool, str]:
    asked = max((s.asked_queries_per_s for s in day.observer.samples), default=0.0)
    measured = max(day.observer.loads.values(), default=0.0)
    return (
        measured >= LEAST_PEAK * day.capacity,
        f"{measured / day.capacity:.2f} times: {measured:,.0f} queries per second were measured, "
        f"{asked:,.0f} were asked for at the most",
    )


def _alarm(day: Day) -> tuple[bool, str]:
    """By an alarm, while all that was measured was below capacity; nobody and no calendar said anything."""
    at, forecast = day.alarm_at, day.forecast_of_alarm
    if at is None or forecast is None:
        return False, "no alarm started a run"
    measured = [load for moment, load in day.observer.loads.items() if moment <= at]
    by_hand = [r["run_id"] for r in day.receipts if r["trigger"].get("kind") not in ("alarm", "schedule")]
    highest = max(measured, default=0.0)
    holds = highest < day.capacity < forecast.p95 and not by_hand and not day.settings.get("calendar")
    return holds, (
        f"at {at:%H:%M} at most {highest:,.0f} of {day.capacity:,.0f} queries per second had been measured; "
        f"p95 for {forecast.target:%H:%M} was {forecast.p95:,.0f}"
    )


def _batch(day: Day) -> tuple[bool, str]:
    members = [] if day.built is None else day.built["members"]
    came = [m for m in members if m["serving_at"]]
    return len(came) == len(members) == PEAK_REPLICAS, f"{len(came)} replicas in one scale_out"


def _ready(day: Day) -> tuple[bool, str]:
    alarm, serving, passed, lead = day.alarm_at, day.serving_at, day.crossings[0], day.lead_seconds
    if alarm is None or serving is None or passed is None or lead is None:
        return False, f"alarm {alarm}, serving {serving}, passed {passed}"
    early = (passed - serving).total_seconds()
    text = (
        f"lead time {duration(lead)}: alarm {alarm:%H:%M}, serving {serving:%H:%M}, passed {passed:%H:%M}: "
        f"{_times(early, lead)}"
    )
    return 0 <= early <= lead, text


def _gone(day: Day) -> tuple[bool, str]:
    below, gone, lead = day.crossings[1], day.gone_at, day.lead_seconds
    if below is None or gone is None or lead is None:
        return False, f"below {below}, gone {gone}"
    late = (gone - below).total_seconds()
    members = sum(m["state"] == "gone" for r in day.retired for m in r["members"])
    return (
        late <= lead and members == PEAK_REPLICAS,
        f"below {below:%H:%M}, {members} gone {gone:%H:%M}: {_times(late, lead)}",
    )


def _times(seconds: float, lead_seconds: float) -> str:
    sign = "-" if seconds < 0 else ""
    return f"{sign}{duration(abs(seconds))}, {seconds / lead_seconds:.2f} lead times"


def _costs(bill: Bill | None) -> tuple[bool, str]:
    if bill is None:
        return False, "a price is not known"
    return (
        bill.peaker < bill.always_on,
        f"${bill.peaker:.2f} against ${bill.always_on:.2f} a day, {1 - bill.peaker / bill.always_on:.0%} less",
    )


def _as_before(day: Day) -> tuple[bool, str]:
    before = {resource for ids in day.resources_before.values() for resource in ids}
    added = [resource for ids in day.resources_at_end.values() for resource in ids if resource not in before]
    kept = {
        row["id"]
        for receipt in day.receipts
        for row in receipt["resources"]
        if row["kind"] == "snapshot" and row["state"] == "kept"
    }
    if not day.resources_at_end or set(added) - kept or len(added) > DATA_VOLUMES:
        return False, ", ".join(added)
    counts = ", ".join(f"{len(ids)} {kind}" for kind, ids in day.resources_at_end.items())
    return True, f"{counts}, {len(added)} of them the kept set of the base replica"


def draw_day(day: Day, output: Path) -> Path:
    """The timeline as PNG."""
    receipts = sorted((*day.receipts, *day.of_members), key=lambda r: (str(r["started_at"]), r["run_id"]))
    path = output / "timeline.png"
    picture = Picture(
        samples=day.observer.samples,
        measured=sorted(day.observer.loads.items()),
        forecasts=day.observer.forecasts,
        period=timedelta(minutes=day.settings["forecast"]["schedule_minutes"]),
        capacity_per_replica=day.capacity,
        alarm_at=day.alarm_at,
        serving_at=day.serving_at,
        crossings=day.crossings,
        gone_at=day.gone_at,
        runs=[(r["operation"], [_bar(step) for step in r["steps"]]) for r in receipts],
        title=f"Peaker: cluster {day.cluster.name}, {day.started:%A %d %B %Y}",
        usd_a_day=None if day.bill is None else (day.bill.always_on, day.bill.peaker),
    )
    draw(picture, path)
    return path


def _bar(step: dict[str, Any]) -> Bar:
    start = _time(step["started_at"])
    return Bar(step["step"], start, start + timedelta(seconds=step["seconds"] or 0))


def print_summary(day: Day, checks: Sequence[Check], picture: Path, output: Path, console: Console) -> bool:
    """Print the checks, write summary.json; True when all hold."""
    table = Table(box=None, pad_edge=False, header_style="bold", title="Summary", title_justify="left")
    for column in ("", "claim", "measured"):
        table.add_column(column, overflow="fold")
    for check in checks:
        table.add_row("[green]holds[/]" if check.holds else "[bold red]FAILS[/]", check.claim, check.value)
    console.print(table)
    document = {
        "checks": [asdict(check) for check in checks],
        "load_errors": sorted({b.error for b in day.load.bursts if b.error}),
        "forecasts": [asdict(forecast) for forecast in day.observer.forecasts],
        "measured": {at.isoformat(): load for at, load in day.observer.loads.items()},
        "receipts": day.receipts,
    }
    output.mkdir(parents=True, exist_ok=True)
    (output / "summary.json").write_text(json.dumps(document, indent=1, default=str))
    console.print(f"timeline: {picture}\nsummary:  {output / 'summary.json'}")
    return all(check.holds for check in checks)


def _time(iso: str) -> datetime:
    moment = datetime.fromisoformat(iso)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
