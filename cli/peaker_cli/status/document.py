"""A cluster's status is one typed document, made from gathered facts without a look at AWS or the clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from peaker.domain.decoding import MISFITS
from peaker.domain.instants import from_iso, seconds_between, to_iso
from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.domain.replicas.inventory import Instance
from peaker.domain.storage.snapshot_sets import SnapshotSet

from peaker_cli.status.run_at_work import RunAtWork, RunStatus, run_status
from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import of_cluster

# As long as the workflows themselves believe a published figure.
STALE_AFTER_CHECKS = 3
NOT_IN_LEDGER = "not in the ledger"


@dataclass(frozen=True)
class Alarm:
    """A CloudWatch alarm in state ALARM; `runbook` is the page's name that its description ends with."""

    name: str
    since: datetime | None
    reason: str
    runbook: str = ""


@dataclass(frozen=True)
class EndedRun:
    """The newest run that has ended; `failure` is the step and the cause of one that failed or was refused.

    `refused_by_limits`: a person's start may pass what refused it, max_replicas or the budget. `stopped`: by a person.
    """

    run_id: str
    outcome: str
    ended_at: datetime
    failure: str = ""
    refused_by_limits: bool = False
    stopped: bool = False


@dataclass(frozen=True)
class Facts:
    """Everything that was gathered of one cluster; what could not be read is Unknown."""

    environment: str
    settings: ClusterSettings
    now: datetime
    fleet: FleetState | Unknown
    read_shares: Mapping[str, float] | Unknown
    lags: Mapping[str, Reading]
    at_work: RunAtWork | Unknown | None
    report: Mapping[str, Any] | Unknown | None
    load: Reading
    alarms: tuple[Alarm, ...] | Unknown
    snapshot_sets: tuple[SnapshotSet, ...] | Unknown = ()
    last_run: EndedRun | Unknown | None = None
    paused_rules: tuple[str, ...] | Unknown = ()
    prices: PriceTable | Unknown = field(default_factory=lambda: Unknown("prices were not read"))

    @cached_property
    def known_report(self) -> Mapping[str, Any] | Unknown:
        """The newest check's report, if it is there and this release can read it."""
        if self.report is None:
            return Unknown("forecast_load has not run yet since this release was deployed")
        if not isinstance(self.report, Unknown) and not _is_readable(self.report):
            return Unknown(
                "this release cannot read the newest check's report; the next check writes it anew"
            )
        return self.report


@dataclass(frozen=True)
class ReplicaStatus:
    """One replica. `role`: base or peak. `state`: the ledger's of a peak replica, EC2's of others. Shares 0 to 1.

    `share_of_reads` is what the endpoint deals to it; `share_of_a_peer` what it answers over what the busiest replica
    does, and `counts_less` whether the decision counts it as no more than that.
    """

    instance_id: str
    role: str
    zone: str
    state: str
    endpoint: str
    serves: bool | Unknown
    lag_seconds: Reading
    share_of_reads: Reading
    share_of_a_peer: Reading
    counts_less: bool


@dataclass(frozen=True)
class CapacityStatus:
    """The load and its forecast in units of the load metric, against what the serving replicas can take.

    A replica that gets few reads counts in `capacity` as the share of a peer's reads that it takes.
    """

    load: Reading
    load_source: str
    forecast: Reading
    forecast_for_seconds: Reading
    capacity: Reading
    capacity_per_replica: float
    capacity_basis: str
    serving: Reading
    required: Reading
    min_replicas: int
    max_replicas: int


@dataclass(frozen=True)
class DecisionStatus:
    """The newest check. `overdue` when more than three schedules have passed since.

    `history`: of how many days the load is known, of those that a forecast needs. `awaits_load`: a new cluster's load
    has never had a point.
    """

    at: datetime
    overdue: bool
    action: str
    outcome: str
    reason: str
    observing: str | None
    standing: str
    score: str
    history: str = ""
    awaits_load: bool = False


@dataclass(frozen=True)
class AdditionWaiting:
    """Replicas are missing although a run is at work, which has the lease: it builds fewer, or takes one away.

    `since` is when the alarm that starts scale_out went off, else the newest check.
    """

    lease_of: str
    since: datetime


@dataclass(frozen=True)
class KeptSnapshots:
    """A snapshot set that stays between runs: of which replica, by which run, GiB and USD per hour."""

    donor: str
    run_id: str
    kept_at: datetime
    snapshots: tuple[str, ...]
    gib: Reading
    usd_per_hour: Reading


@dataclass(frozen=True)
class ClusterStatus:
    """A cluster's status at `at`. `paused_rules`: rules of the cluster that somebody disabled."""

    cluster: str
    environment: str
    region: str
    at: datetime
    source: str | Unknown
    replicas: tuple[ReplicaStatus, ...] | Unknown
    run: RunStatus | Unknown | None
    capacity: CapacityStatus
    decision: DecisionStatus | Unknown
    alarms: tuple[Alarm, ...] | Unknown
    kept_snapshots: tuple[KeptSnapshots, ...] | Unknown = ()
    addition: AdditionWaiting | None = None
    last_run: EndedRun | Unknown | None = None
    paused_rules: tuple[str, ...] | Unknown = ()


def cluster_status(facts: Facts) -> ClusterStatus:
    return ClusterStatus(
        cluster=facts.settings.name,
        environment=facts.environment,
        region=facts.settings.region,
        at=facts.now,
        source=_source(facts.fleet),
        replicas=_replicas(facts),
        run=_run(facts),
        capacity=_capacity(facts),
        decision=_decision(facts),
        alarms=facts.alarms,
        kept_snapshots=_kept_snapshots(facts),
        addition=_addition(facts),
        last_run=facts.last_run,
        paused_rules=facts.paused_rules,
    )


def as_document(value: Any) -> Any:
    """The status as JSON: a reading is {"value", "measured_at"} or {"unknown": why}."""
    if isinstance(value, Unknown):
        return {"unknown": value.why}
    if isinstance(value, datetime):
        return to_iso(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_document(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [as_document(one) for one in value]
    return value


def _kept_snapshots(facts: Facts) -> tuple[KeptSnapshots, ...] | Unknown:
    if isinstance(facts.snapshot_sets, Unknown):
        return facts.snapshot_sets
    return tuple(
        KeptSnapshots(
            donor=one.donor,
            run_id=one.run_id,
            kept_at=one.kept_at,
            snapshots=tuple(sorted(one.snapshot_ids)),
            gib=Unknown("EC2 gave no size") if one.gib is None else Known(round(one.gib, 2)),
            usd_per_hour=_usd_per_hour(one, facts.prices),
        )
        for one in facts.snapshot_sets
    )


def _usd_per_hour(kept: SnapshotSet, prices: PriceTable | Unknown) -> Reading:
    if isinstance(prices, Unknown):
        return prices
    return Unknown("EC2 gave no size") if kept.gib is None else prices.snapshot_hour(kept.gib)


def _source(fleet: FleetState | Unknown) -> str | Unknown:
    if isinstance(fleet, Unknown):
        return fleet
    return fleet.source.instance_id if isinstance(fleet.source, Instance) else fleet.source


def _replicas(facts: Facts) -> tuple[ReplicaStatus, ...] | Unknown:
    if isinstance(facts.fleet, Unknown):
        return facts.fleet
    report = facts.known_report
    return tuple(_replica(one, facts, report) for one in facts.fleet.replicas)


def _replica(replica: Replica, facts: Facts, report: Mapping[str, Any] | Unknown) -> ReplicaStatus:
    running = replica.instance.state == "running"
    lag = facts.lags.get(replica.instance_id, Unknown("it was not asked for"))
    return ReplicaStatus(
        instance_id=replica.instance_id,
        role="base" if replica.is_base else "peak",
        zone=replica.instance.zone,
        state=_state(replica),
        endpoint=replica.health_text,
        serves=replica.health if isinstance(replica.health, Unknown) else replica.is_serving,
        lag_seconds=lag if running else Unknown(f"its instance is {replica.instance.state}"),
        share_of_reads=_share(replica.instance_id, facts.read_shares),
        share_of_a_peer=_share_of_a_peer(replica.instance_id, report),
        counts_less=not isinstance(report, Unknown) and replica.instance_id in report.get("few_reads", ()),
    )


def _share_of_a_peer(instance_id: str, report: Mapping[str, Any] | Unknown) -> Reading:
    if isinstance(report, Unknown):
        return report
    share = report.get("read_shares", {}).get(instance_id)
    if share is not None:
        return Known(float(share), from_iso(str(report["at"])))
    why = report.get("read_shares_unknown", {}).get(instance_id, "the newest check did not compare it")
    return Unknown(str(why))


def _state(replica: Replica) -> str:
    if replica.is_base:
        return replica.instance.state
    if replica.ledger_row is None:
        return f"{replica.instance.state}, {NOT_IN_LEDGER}"
    return replica.ledger_row.state.value


def _share(instance_id: str, shares: Mapping[str, float] | Unknown) -> Reading:
    """A replica that the endpoint does not know gets no reads: that is known."""
    return shares if isinstance(shares, Unknown) else Known(shares.get(instance_id, 0.0))


def _run(facts: Facts) -> RunStatus | Unknown | None:
    found = facts.at_work
    if found is None or isinstance(found, Unknown):
        return found
    return run_status(found, facts.settings, facts.now)


def _capacity(facts: Facts) -> CapacityStatus:
    settings, report = facts.settings, facts.known_report
    per_replica = settings.capacity_per_replica
    basis = "from the settings"
    if not isinstance(report, Unknown):
        per_replica, basis = float(report["capacity_per_replica"]), str(report["capacity_basis"])
    serving = counted = _serving(facts)
    if not isinstance(facts.fleet, Unknown) and not isinstance(serving, Unknown):
        replicas = (_replica(one, facts, report) for one in facts.fleet.serving)
        shares = [one.share_of_a_peer for one in replicas if one.counts_less]
        missing = sum(1.0 - share.value for share in shares if isinstance(share, Known))
        counted = Known(len(facts.fleet.serving) - missing, facts.now)
    return CapacityStatus(
        load=facts.load,
        load_source="measured by Peaker"
        if settings.measures_load
        else f"{settings.load_metric.namespace} {settings.load_metric.name}",
        forecast=_number(report, "forecast_upper"),
        forecast_for_seconds=_number(report, "lead_time_p90_seconds"),
        capacity=counted
        if isinstance(counted, Unknown)
        else Known(counted.value * per_replica, counted.measured_at),
        capacity_per_replica=per_replica,
        capacity_basis=basis,
        serving=serving,
        required=report
        if isinstance(report, Unknown)
        else Known(float(report["required"]), from_iso(str(report["at"]))),
        min_replicas=settings.min_replicas,
        max_replicas=settings.max_replicas,
    )


def _serving(facts: Facts) -> Reading:
    """The number of replicas that serve; unknown where the endpoint does not say of one how it stands."""
    if isinstance(facts.fleet, Unknown):
        return facts.fleet
    unheard = [one.health for one in facts.fleet.replicas if isinstance(one.health, Unknown)]
    return unheard[0] if unheard else Known(float(len(facts.fleet.serving)), facts.now)


def _addition(facts: Facts) -> AdditionWaiting | None:
    """A check counts what a run builds from its first moment: one that still misses replicas after that waits."""
    run, decision = _run(facts), _decision(facts)
    if run is None or isinstance(run, Unknown) or run.started_at is None or isinstance(decision, Unknown):
        return None
    if decision.action != "scale_out" or decision.observing or decision.at <= run.started_at:
        return None
    name = of_cluster(facts.environment, facts.settings.name, "replica-shortage")
    alarms = () if isinstance(facts.alarms, Unknown) else facts.alarms
    since = next((one.since for one in alarms if one.name == name), None)
    return AdditionWaiting(f"{run.operation} {run.run_id}", since or decision.at)


def _number(report: Mapping[str, Any] | Unknown, name: str) -> Reading:
    if isinstance(report, Unknown):
        return report
    value = report["numbers"].get(name)
    if value is None:
        is_young = report.get("standing") == "reactive_only" and "history" in report
        return Unknown(f"nothing is forecast: {report['history' if is_young else 'reason']}")
    return Known(float(value), from_iso(str(report["at"])))


_SHOWN = ("capacity_basis", "action", "outcome", "reason", "observing", "observation", "standing", "score")


def _is_readable(report: Mapping[str, Any]) -> bool:
    """Tells whether the report, a document of the ledger, has the fields that are shown."""
    try:
        from_iso(str(report["at"]))
        figures = [report["capacity_per_replica"], report["required"], *dict(report["numbers"]).values()]
        figures += [*dict(report.get("read_shares", {})).values()]
        known = [float(figure) for figure in figures if figure is not None]
        told = (list(report.get("few_reads", ())), dict(report.get("read_shares_unknown", {})))
        shown = set(_SHOWN) <= set(report) and all(None not in one for one in told)
        return shown and None not in figures[:2] and all(map(math.isfinite, known))
    except MISFITS:
        return False


def _decision(facts: Facts) -> DecisionStatus | Unknown:
    report = facts.known_report
    if isinstance(report, Unknown):
        return report
    at = from_iso(str(report["at"]))
    longest = timedelta(minutes=facts.settings.forecast.schedule_minutes * STALE_AFTER_CHECKS)
    return DecisionStatus(
        at=at,
        overdue=seconds_between(at, facts.now) > longest.total_seconds(),
        action=str(report["action"]),
        outcome=str(report["outcome"]),
        reason=str(report["reason"]),
        observing=str(report["observation"]) if report["observing"] else None,
        standing=str(report["standing"]),
        score=str(report["score"]),
        history=str(report.get("history", "too few days of load")),
        awaits_load=bool(report.get("awaits_load")),
    )
