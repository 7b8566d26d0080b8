"""What the demonstration watches while it runs: what Peaker published, serving replicas, the workflows' steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from peaker_cli.control_plane import ControlPlane, ExecutionHistory

from peaker_contract.metrics import CLUSTER_DIMENSION, Metric, namespace

# Of the states that a run enters, those that are told.
TOLD = {
    "ChooseDonor": "chooses the replica to copy",
    "CreateSnapshots": "snapshots its data volumes at one instant",
    "LaunchReplica": "launches an instance for each",
    "CreateVolumes": "makes their volumes from the snapshots",
    "Prewarm": "reads the blocks that MySQL needs first",
    "StartDatabase": "starts MySQL",
    "StartReplication": "starts replication",
    "FinishPrewarm": "reads the rest",
    "VerifyStorage": "proves with a benchmark that the storage is warm",
    "WaitForCatchUp": "waits until they have caught up",
    "LoadBufferPool": "loads their buffer pools",
    "RegisterReplica": "registers them behind the read endpoint",
    "RampTraffic": "raises their share of the reads",
    "ReplicaInService": "has put them into service",
    "SelectIdleReplicas": "chooses who goes",
    "DeregisterReplica": "takes them out of the read endpoint",
    "DrainReplica": "waits for their last connections",
    "ConfirmIdle": "sees that nobody uses them",
    "RetireReplica": "deletes them",
    "ReplicaRetired": "has retired them",
}
# A run that only looks enters none of these.
ACTS = ("ChooseDonor", "RemoveReplicas")


@dataclass(frozen=True)
class Sample:
    """One look at the cluster: cloud time, what the readers ask, what Peaker measured last, and who serves."""

    at: datetime
    asked_queries_per_s: float
    measured_queries_per_s: float | None
    serving_replicas: int


@dataclass(frozen=True)
class Forecast:
    """What one check published: of the highest load in the period that begins one lead time later."""

    issued_at: datetime
    lead_seconds: float
    p50: float
    p95: float

    @property
    def target(self) -> datetime:
        """When what is begun at this check serves."""
        return self.issued_at + timedelta(seconds=self.lead_seconds)


@dataclass
class Run:
    """A run of a workflow that did more than look."""

    workflow: str
    history: ExecutionHistory
    ended: str = ""


class Observer(threading.Thread):
    """Looks every other second; tells each new step of a run once, however many members take it."""

    def __init__(
        self,
        control: ControlPlane,
        settings: Mapping[str, Any],
        target_group_arn: str,
        now: Callable[[], datetime],
        demand_at: Callable[[datetime], float],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="observer", daemon=True)
        self._settings, self._target_group_arn = settings, target_group_arn
        self._now, self._demand_at, self._say = now, demand_at, say
        self._clients = {name: control.client(name) for name in ("elbv2", "cloudwatch", "stepfunctions")}
        self._workflows = {name: control.state_machine_arn(name) for name in ("scale_out", "scale_in")}
        self._peaker = namespace(control.environment)
        self._stopping = threading.Event()
        self._told: set[tuple[str, str]] = set()
        self._histories: dict[str, ExecutionHistory] = {}
        self.started = now()
        self.samples: list[Sample] = []
        self.loads: dict[datetime, float] = {}
        self.forecasts: list[Forecast] = []
        self.runs: dict[str, Run] = {}
        self.step = "nothing to do"

    def run(self) -> None:
        while not self._stopping.wait(2.0):
            try:
                self._look()
            except (BotoCoreError, ClientError) as error:
                self._say(f"(could not look: {error})")

    def stop(self) -> None:
        self._stopping.set()
        self.join(10)

    def runs_of(self, workflow: str) -> list[Run]:
        """The runs of a workflow that did more than look, oldest first."""
        return [run for run in list(self.runs.values()) if run.workflow == workflow]

    def is_as_before(self) -> bool:
        """Whether replicas were taken away, no run is at work, and as many serve as at the start."""
        ended = all(run.ended for run in list(self.runs.values()))
        as_many = self.samples[-1].serving_replicas == self.samples[0].serving_replicas
        return ended and as_many and bool(self.runs_of("scale_in"))

    def _look(self) -> None:
        now = self._now()
        health = self._clients["elbv2"].describe_target_health(TargetGroupArn=self._target_group_arn)
        states = [d["TargetHealth"]["State"] for d in health["TargetHealthDescriptions"]]
        self._read_metrics(now)
        measured = self.loads[max(self.loads)] if self.loads else None
        self.samples.append(Sample(now, self._demand_at(now), measured, states.count("healthy")))
        for workflow in self._workflows:
            self._follow(workflow)

    def _read_metrics(self, now: datetime) -> None:
        """The load as it was measured, and the forecasts."""
        cluster = {CLUSTER_DIMENSION: str(self._settings["name"])}
        names = (Metric.FORECAST_LOAD_P50, Metric.FORECAST_LOAD_P95, Metric.LEAD_TIME_SECONDS)
        metric = self._settings["load_metric"]
        queries = [
            _query(
                "load", metric["namespace"], metric["name"], metric["dimensions"], metric["period_seconds"]
            ),
            *(_query(name.value.lower(), self._peaker, name.value, cluster, 60) for name in names),
        ]
        found = self._clients["cloudwatch"].get_metric_data(
            MetricDataQueries=queries, StartTime=self.started, EndTime=now, ScanBy="TimestampAscending"
        )
        series = {
            one["Id"]: dict(zip(one["Timestamps"], one["Values"], strict=True))
            for one in found["MetricDataResults"]
        }
        self.loads = series.pop("load", {})
        p50, p95, lead = (series.get(name.value.lower(), {}) for name in names)
        self.forecasts = [
            Forecast(at, lead[at], p50[at], p95[at]) for at in sorted(p50) if at in p95 and at in lead
        ]

    def _follow(self, workflow: str) -> None:
        stepfunctions = self._clients["stepfunctions"]
        found = stepfunctions.list_executions(stateMachineArn=self._workflows[workflow], maxResults=20)
        for execution in reversed(found["executions"]):
            arn = execution["executionArn"]
            run = self.runs.get(arn)
            if run is None or not run.ended:
                self._follow_run(workflow, arn, execution["status"])

    def _follow_run(self, workflow: str, arn: str, status: str) -> None:
        history = self._histories.setdefault(arn, ExecutionHistory(arn))
        news = [] if history.ended else list(history.look(self._clients["stepfunctions"]))
        if arn not in self.runs:
            if not {state for _, state in history.states} & set(ACTS):
                return
            self.runs[arn] = Run(workflow, history)
        for state in news:
            if state in TOLD and (arn, state) not in self._told:
                self._told.add((arn, state))
                self.step = state
                self._say(f"{workflow:9}  {state:18} {TOLD[state]}")
        if status != "RUNNING":
            self.runs[arn].ended, self.step = status, "nothing to do"
            if status != "SUCCEEDED":
                self._say(f"{workflow:9}  {status}")


def _query(
    query_id: str, in_namespace: str, name: str, dimensions: Mapping[str, str], period: int
) -> dict[str, Any]:
    named: Sequence[dict[str, str]] = [{"Name": key, "Value": value} for key, value in dimensions.items()]
    metric = {"Namespace": in_namespace, "MetricName": name, "Dimensions": named}
    return {"Id": query_id, "MetricStat": {"Metric": metric, "Period": period, "Stat": "Average"}}
