"""Everything that a status is made of, read from AWS; what cannot be read is Unknown with AWS's reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import PurePosixPath
from typing import Any, TypeVar

from peaker.adapters.cloudwatch.metrics import CloudWatchLoadHistory
from peaker.adapters.cloudwatch.readings import CloudWatchReadings
from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.read_endpoint.by_kind import read_endpoints
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker.adapters.ssm.prices import ParameterPrices
from peaker.adapters.step_functions_executions import ROLL_BACK, StepFunctionsExecutions
from peaker.domain.instants import from_iso
from peaker.domain.prices.price_table import FetchedPrices, PriceTable
from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.runs.batch import Batch
from peaker.domain.runs.failure import STOPPED_BY_HAND, Failure
from peaker.domain.runs.ledger import LeaseRow, RunRow
from peaker.domain.runs.run_execution import RunExecution, operation_of
from peaker.ports.endpoint import TrafficRouter
from peaker.usecases.plan.gather_fleet import fleet_of

from peaker_cli.aws_failures import EXPECTED, one_line
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployed_prices import deployed_prices
from peaker_cli.failures import ControlPlaneError
from peaker_cli.status.document import Alarm, EndedRun, Facts
from peaker_cli.status.run_at_work import MemberAtWork, RunAtWork
from peaker_cli.status.week import PUBLISHED, WEEK, WEEK_PERIOD_SECONDS, Week
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AboveLimits, LedgerInconsistent, PeakerError, UnknownCluster
from peaker_contract.metrics import Metric
from peaker_contract.names import of_cluster, prefix

FoundT = TypeVar("FoundT")
# The newest run that has ended is behind the members of a batch at work, 40 at most.
_LOOKED_AT_RUNS = 50


class StatusReader:
    """Reads one environment; its clients are made once, so a watch may ask again and again."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._clients: dict[str, Any] = {}
        self._machines: dict[str, str] = {}

    def clusters(self) -> list[str]:
        """The environment's clusters, sorted. Raises PeakerError."""
        return self._directory.names()

    def deployed(self, cluster: str | None) -> list[str]:
        """That cluster, or all. Raises UnknownCluster for a wrong name, ControlPlaneError where there are none."""
        names = self.clusters() if cluster is None else [self.settings(cluster).name]
        if not names:
            raise ControlPlaneError(self._control.not_deployed("no cluster"))
        return names

    def settings(self, cluster: str) -> ClusterSettings:
        """Raises UnknownCluster, naming those that exist, and ControlPlaneError where there are none."""
        try:
            return self._directory.settings(cluster)
        except UnknownCluster as error:
            if self.clusters():
                raise
            raise ControlPlaneError(self._control.not_deployed("no cluster")) from error

    def read(self, cluster: str) -> Facts:
        """All about one cluster. Raises UnknownCluster; what else cannot be read is Unknown."""
        settings = self.settings(cluster)
        at_work = _known(lambda: self.at_work(cluster))
        fleet = _known(lambda: self._fleet(settings))
        now = self._control.clock.now()
        return Facts(
            environment=self._control.environment,
            settings=settings,
            now=now,
            fleet=fleet,
            read_shares=_known(lambda: self._endpoint.read_shares(settings)),
            lags=self._lags(settings, fleet),
            at_work=at_work,
            report=_known(lambda: self.records.report(cluster)),
            load=self.load(settings, now),
            alarms=_known(lambda: self._alarms(cluster)),
            last_run=_known(lambda: self._last_run(cluster)),
            paused_rules=_known(lambda: self._paused_rules(cluster)),
            snapshot_sets=_known(lambda: tuple(self.ledger.snapshot_sets(cluster))),
            prices=self.prices(settings),
        )

    def published(self, settings: ClusterSettings, metric: Metric, at: datetime) -> Reading:
        return _known(lambda: self._readings.published(settings, metric, at))

    def load(self, settings: ClusterSettings, at: datetime) -> Reading:
        return _known(lambda: self._readings.load(settings, at))

    def week(self, settings: ClusterSettings, until: datetime) -> Week:
        start, period = until - WEEK, WEEK_PERIOD_SECONDS

        def load() -> list[tuple[datetime, float]]:
            history = CloudWatchLoadHistory(self._client("cloudwatch"))
            found = history.metric_points(settings.load_metric, start, until, period)
            times = (datetime.fromtimestamp(at, UTC) for at in found.times_seconds)
            return list(zip(times, found.values, strict=True))

        def published() -> dict[Metric, list[tuple[datetime, float]]]:
            read = self._readings.published_points
            return {metric: read(settings, metric, start, until, period) for metric in PUBLISHED}

        return Week(until, _known(load), _known(published))

    def first_check(self, cluster: str) -> datetime | None:
        """Returns the time of the cluster's first check, None before it. Raises PeakerError."""
        seconds = self.records.check_state(cluster).first_check_seconds
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)

    def prices(self, settings: ClusterSettings) -> PriceTable | Unknown:
        return _known(lambda: deployed_prices(self._client, settings, self._control.clock.now()))

    def stored_prices(self) -> FetchedPrices | Unknown:
        """Returns the environment's stored prices of the Price List, which are Linux's."""
        stored = ParameterPrices(self._client("ssm"), self._control.environment)
        return _known(stored.read)

    def at_work(self, cluster: str) -> RunAtWork | None:
        """The run that holds the lease, or None."""
        lease = self._lease.current(cluster, self._control.clock.now())
        if lease is None:
            return None
        execution = _known(lambda: self._execution(lease))
        if isinstance(execution, RunExecution) and execution.ended:
            # It may have ended well, and given the lease back, since the lease was read.
            again = self._lease.current(cluster, self._control.clock.now())
            if again is None or again.run_id != lease.run_id:
                return self.at_work(cluster) if again else None
        undone = self._is_rolled_back(execution)
        try:
            run = self.ledger.run(lease.run_id)
        except LedgerInconsistent:  # it has the lease and has not written its row yet
            return RunAtWork(lease, None, (), execution, rolled_back=undone)
        steps = tuple(self.ledger.steps(lease.run_id))
        return RunAtWork(lease, run, steps, execution, self._members(run), undone)

    def _members(self, run: RunRow) -> tuple[MemberAtWork, ...]:
        """Returns the members of a batch of several; the rows of one that has not begun are not there yet."""
        batch = run.part(Batch)
        found = []
        for run_id in () if batch is None or len(batch.members) < 2 else batch.members:
            with suppress(LedgerInconsistent):
                row = self.ledger.run(run_id)
                found.append(MemberAtWork(row, tuple(self.ledger.steps(run_id))))
        return tuple(found)

    def _is_rolled_back(self, execution: RunExecution | Unknown) -> bool:
        """Tells whether a roll_back runs for an execution that ended; where nobody may look, its steps tell later."""
        if isinstance(execution, Unknown) or not execution.ended:
            return False
        prefix = self._control.state_machine_arn(ROLL_BACK).removesuffix(ROLL_BACK)
        executions = StepFunctionsExecutions(self._client("stepfunctions"), prefix)
        found = _known(executions.being_rolled_back)
        return not isinstance(found, Unknown) and execution.name in found

    def _execution(self, lease: LeaseRow) -> RunExecution | Unknown:
        # Kept snapshots are tended without an execution; no run of that kind is found in a workflow's list.
        workflow = operation_of(lease)
        if workflow not in self._machines:
            self._machines[workflow] = self._control.state_machine_arn(workflow)
        prefix = self._machines[workflow].removesuffix(workflow)
        return StepFunctionsExecutions(self._client("stepfunctions"), prefix).that_began(lease)

    def _fleet(self, settings: ClusterSettings) -> FleetState:
        compute = Ec2Compute(self._client("ec2"), self._control.environment)
        instances = compute.instances_of_cluster(settings.name)
        rows = self.ledger.replicas(settings.name)
        health = _known(lambda: self._endpoint.health(settings))
        return fleet_of(settings.name, self._control.clock.now(), instances, health, rows)

    def _lags(self, settings: ClusterSettings, fleet: FleetState | Unknown) -> Mapping[str, Reading]:
        if isinstance(fleet, Unknown):
            return {}
        now = self._control.clock.now()
        running = [one.instance_id for one in fleet.replicas if one.instance.state == "running"]
        read = self._readings.lag_seconds
        return {name: _known(partial(read, settings, name, now)) for name in running}

    def _alarms(self, cluster: str) -> tuple[Alarm, ...]:
        """Those in ALARM of the cluster, and those of the environment that concern every cluster."""
        pages = (
            self._client("cloudwatch")
            .get_paginator("describe_alarms")
            .paginate(AlarmNamePrefix=f"{prefix(self._control.environment)}-", StateValue="ALARM")
        )
        found = [one for page in pages for one in page["MetricAlarms"]]
        names = self.clusters()
        return tuple(
            Alarm(
                str(one["AlarmName"]),
                one.get("StateUpdatedTimestamp"),
                str(one.get("StateReason", "")),
                PurePosixPath(str(one.get("AlarmDescription", "")).rpartition("Runbook: ")[2]).stem,
            )
            for one in found
            if owner_of(str(one["AlarmName"]), self._control.environment, names) in (None, cluster)
        )

    def rules(self, cluster: str) -> dict[str, bool]:
        """Returns the cluster's rules of EventBridge by name, and whether each is enabled. Raises ClientError."""
        pages = (
            self._client("events")
            .get_paginator("list_rules")
            .paginate(NamePrefix=of_cluster(self._control.environment, cluster, ""))
        )
        # A cluster whose deployment failed has no settings.
        clusters = [*self.clusters(), cluster]
        found = {str(one["Name"]): one["State"] != "DISABLED" for page in pages for one in page["Rules"]}
        return {
            name: is_on
            for name, is_on in sorted(found.items())
            if owner_of(name, self._control.environment, clusters) == cluster
        }

    def _paused_rules(self, cluster: str) -> tuple[str, ...]:
        return tuple(name for name, is_on in self.rules(cluster).items() if not is_on)

    def _last_run(self, cluster: str) -> EndedRun | None:
        """The newest of the last runs that has ended, with its failure out of the receipt."""
        for row in self._control.runs(cluster, _LOOKED_AT_RUNS):
            ended_at = row.get("finished_at")
            if not ended_at or str(row["operation"]) not in ("scale_out", "scale_in"):
                continue
            receipt = self.ledger.receipt(str(row["run_id"])) or {}
            failure = _failure(receipt.get("failure"))
            error = failure.error if failure else ""
            return EndedRun(
                str(row["run_id"]),
                str(row["outcome"]),
                from_iso(str(ended_at)),
                f"{failure.failed_step}: {error}: {failure.cause.partition('. ')[0]}" if failure else "",
                error == AboveLimits.__name__,
                error == STOPPED_BY_HAND,
            )
        return None

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._control.client(service)
        return self._clients[service]

    @cached_property
    def _directory(self) -> ParameterClusters:
        return ParameterClusters(self._client("ssm"), self._control.environment)

    @cached_property
    def _endpoint(self) -> TrafficRouter:
        return read_endpoints(self._client)

    @cached_property
    def _readings(self) -> CloudWatchReadings:
        return CloudWatchReadings(self._client("cloudwatch"))

    @cached_property
    def _table(self) -> LedgerTable:
        return LedgerTable(self._client("dynamodb"), self._control.ledger_table)

    @cached_property
    def _lease(self) -> DynamoDbLease:
        return DynamoDbLease(self._table)

    @cached_property
    def ledger(self) -> DynamoDbLedger:
        return DynamoDbLedger(self._table)

    @cached_property
    def records(self) -> DynamoForecastRecords:
        return DynamoForecastRecords(self._table, self.ledger)


def owner_of(name: str, environment: str, clusters: Sequence[str]) -> str | None:
    """Returns the cluster whose alarm or rule it is, by the longest name that fits; None for one of all clusters."""
    mine = (one for one in clusters if name.startswith(of_cluster(environment, one, "")))
    return max(mine, key=len, default=None)


def _failure(of_receipt: Any) -> Failure | None:
    """The failure as a person reads it; None without one."""
    if not isinstance(of_receipt, Mapping):
        return None
    step, error, cause = (str(of_receipt.get(name) or "") for name in ("failed_step", "error", "cause"))
    return Failure(failed_step=step, error=error, cause=cause).innermost()


def _known(read: Callable[[], FoundT]) -> FoundT | Unknown:
    try:
        return read()
    except (PeakerError, ControlPlaneError, *EXPECTED) as error:
        return Unknown(one_line(error))
