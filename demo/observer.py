"""What the demonstration watches while it runs: demand, serving replicas and workflow steps, for the timeline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from peaker_cli.control_plane import ControlPlane
from peaker_cli.execution_history import ExecutionHistory

from demo.load import ReadLoad

WORKFLOWS = ("scale_out", "add_replica", "scale_in", "remove_replica")


@dataclass(frozen=True)
class Sample:
    """One look at the cluster: cloud time, demand, and replicas that the endpoint sends reads to."""

    at: datetime
    asked_queries_per_s: float
    serving_replicas: int


@dataclass
class ExecutionTrail:
    """What an execution has done so far."""

    history: ExecutionHistory
    workflow: str
    status: str
    told: int = 0

    @property
    def name(self) -> str:
        return self.history.arn.rsplit(":", 1)[1]

    @property
    def states(self) -> list[tuple[datetime, str]]:
        """When it entered which state."""
        return self.history.states


def _acts(states: list[tuple[datetime, str]]) -> bool:
    """Whether a run did more than find that there is nothing to do."""
    entered = {state for _, state in states}
    return bool(entered & {"ChooseDonor", "TakeOverMember", "RemoveReplicas", "PlanOnly", "RequestRejected"})


class Observer(threading.Thread):
    """Looks once a second; publishes the measured demand as the application's own metric once per period."""

    def __init__(
        self,
        control: ControlPlane,
        load: ReadLoad,
        now: Callable[[], datetime],
        demand_at: Callable[[datetime], float],
        target_group_arn: str,
        metric: dict[str, Any],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="observer", daemon=True)
        self._control, self._load, self._now, self._demand_at = control, load, now, demand_at
        self._target_group_arn, self._metric, self._say = target_group_arn, metric, say
        self._clients = {name: control.client(name) for name in ("elbv2", "cloudwatch", "stepfunctions")}
        self._stopping = threading.Event()
        self._published_until: datetime | None = None
        self.samples: list[Sample] = []
        self.trails: dict[str, ExecutionTrail] = {}

    def run(self) -> None:
        while not self._stopping.wait(1.0):
            try:
                self._look()
            except (BotoCoreError, ClientError) as error:
                self._say(f"(could not look: {error})")

    def stop(self) -> None:
        self._stopping.set()
        self.join(10)

    def trails_of(self, workflow: str) -> list[ExecutionTrail]:
        """Executions of a workflow, oldest first."""
        return [trail for trail in self.trails.values() if trail.workflow == workflow]

    def _look(self) -> None:
        now = self._now()
        health = self._clients["elbv2"].describe_target_health(TargetGroupArn=self._target_group_arn)
        states = [d["TargetHealth"]["State"] for d in health["TargetHealthDescriptions"]]
        self.samples.append(Sample(now, self._demand_at(now), states.count("healthy")))
        self._publish_demand(now)
        for workflow in WORKFLOWS:
            self._follow(workflow)

    def _publish_demand(self, now: datetime) -> None:
        period = int(self._metric["period_seconds"])
        start = datetime.fromtimestamp(now.timestamp() // period * period, UTC)
        if self._published_until is None:
            self._published_until = start
        if start <= self._published_until:
            return
        done = [b for b in list(self._load.bursts) if self._published_until <= b.finished_at < start]
        seconds = sum(b.real_seconds for b in done)
        if seconds:
            self._clients["cloudwatch"].put_metric_data(
                Namespace=self._metric["namespace"],
                MetricData=[
                    {
                        "MetricName": self._metric["name"],
                        "Dimensions": [
                            {"Name": k, "Value": v} for k, v in self._metric["dimensions"].items()
                        ],
                        "Timestamp": self._published_until,
                        "Value": sum(b.queries for b in done) / seconds,
                    }
                ],
            )
        self._published_until = start

    def _follow(self, workflow: str) -> None:
        for arn, status in reversed(self._control_executions(workflow)):
            trail = self.trails.setdefault(arn, ExecutionTrail(ExecutionHistory(arn), workflow, ""))
            if trail.status in ("", "RUNNING"):
                self._read_history(trail)
            if status != trail.status:
                trail.status = status
                if status != "RUNNING" and _acts(trail.states):
                    self._say(f"{workflow:9} {trail.name[:13]}  {status}")

    def _control_executions(self, workflow: str) -> list[tuple[str, str]]:
        arn = self._arn(workflow)
        found = self._clients["stepfunctions"].list_executions(stateMachineArn=arn, maxResults=100)
        return [(e["executionArn"], e["status"]) for e in found["executions"]]

    def _arn(self, workflow: str) -> str:
        cached = getattr(self, f"_arn_{workflow}", None)
        if cached is None:
            cached = self._control.state_machine_arn(workflow)
            setattr(self, f"_arn_{workflow}", cached)
        return str(cached)

    def _read_history(self, trail: ExecutionTrail) -> None:
        trail.history.read(self._clients["stepfunctions"])
        if _acts(trail.states):
            for _, state in trail.states[trail.told :]:
                self._say(f"{trail.workflow:9} {trail.name[:13]}  {state}")
            trail.told = len(trail.states)
