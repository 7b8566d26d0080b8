"""The verdict is the first line of `peaker status`: how a cluster stands, why, and the line to type. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from peaker.domain.instants import seconds_between
from peaker.domain.reading import Known, Unknown

from peaker_cli.durations import clock, duration
from peaker_cli.status.document import (
    NOT_IN_LEDGER,
    Alarm,
    ClusterStatus,
    DecisionStatus,
    EndedRun,
    ReplicaStatus,
    as_document,
)
from peaker_cli.status.run_at_work import RunStatus, run_line
from peaker_contract.names import failed_invocations, of_cluster, operator_topic, undelivered

# The outcomes of a run that a person should hear of, until a later run ends well, or for a day.
_HEARD_OF_FOR_SECONDS = 86_400.0
_FAILED_OUTCOMES = {
    "rolled_back": "failed and was undone",
    "undo_incomplete": "failed, and its undo is not complete",
    "partly": "brought only a part of what it was to bring",
}


_THROTTLED = ("Throttl", "RequestLimitExceeded", "TooManyRequests")
_READ_QUEUE = (
    "aws sqs receive-message --region {region} --message-attribute-names All --queue-url "
    '"$(aws sqs get-queue-url --region {region} --queue-name {queue} --query QueueUrl --output text)"'
)


class Word(StrEnum):
    """How a cluster stands, the worst last."""

    OK = "OK"
    WAITING = "WAITING"
    PAUSED = "PAUSED"
    UNKNOWN = "UNKNOWN"
    FAILED = "FAILED"
    SHORT = "SHORT"


# As monitoring plugins exit (Nagios: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN).
EXIT_STATUS = {Word.OK: 0, Word.WAITING: 1, Word.PAUSED: 1, Word.FAILED: 2, Word.SHORT: 2, Word.UNKNOWN: 3}
_RANK = {word: rank for rank, word in enumerate(Word)}


@dataclass(frozen=True)
class Trouble:
    """One finding: its word, a sentence, the runbook under docs/runbooks and the line to type."""

    word: Word
    sentence: str
    runbook: str
    line: str

    @property
    def text(self) -> str:
        return f"{self.word}: {self.sentence}. Runbook {self.runbook}; type: {self.line}"


@dataclass(frozen=True)
class Verdict:
    """The worst finding's word; all findings, the worst first. Without findings the cluster is OK."""

    word: Word
    troubles: tuple[Trouble, ...]
    last_run: str

    @property
    def exit_status(self) -> int:
        """0 OK, 1 warning, 2 critical, 3 unknown, as monitoring plugins exit."""
        return EXIT_STATUS[self.word]

    @property
    def first_line(self) -> str:
        """The line that a pager shows."""
        return self.troubles[0].text if self.troubles else f"{self.word}: {self.last_run}"


def verdict(status: ClusterStatus) -> Verdict:
    """Names the cluster's troubles from its status, the worst first."""
    told = (replace(one, line=_in_environment(one.line, status)) for one in _troubles(status))
    found = sorted(told, key=lambda one: -_RANK[one.word])
    word = found[0].word if found else Word.OK
    at_work = f"{run_line(status.run, status.at)}; " if isinstance(status.run, RunStatus) else ""
    return Verdict(word, tuple(found), at_work + last_run_line(status.last_run, status.at))


def _in_environment(line: str, status: ClusterStatus) -> str:
    """Returns the line with the environment, which the shell that it is typed in need not have set."""
    return f"{line} --env {status.environment}" if line.startswith("peaker ") else line


def status_document(status: ClusterStatus) -> dict[str, Any]:
    """The document of --json: the verdict, then the facts."""
    return {"verdict": as_document(verdict(status)), **as_document(status)}


def worst_first(statuses: Sequence[ClusterStatus]) -> list[ClusterStatus]:
    """Orders clusters by their verdicts, the worst first; equal ones keep their order."""
    return sorted(statuses, key=lambda one: -_RANK[verdict(one).word])


def last_run_line(run: EndedRun | Unknown | None, now: datetime) -> str:
    if run is None:
        return "no run has ended yet"
    if isinstance(run, Unknown):
        return f"last run unknown ({run.why})"
    stopped = "stopped by hand, " if run.stopped else ""
    return f"last run {run.run_id} {stopped}{run.outcome.replace('_', ' ')} {_age(run.ended_at, now)} ago"


def _troubles(status: ClusterStatus) -> Iterator[Trouble]:
    yield from _of_replicas(status)
    yield from _of_load(status)
    yield from _of_runs(status)
    yield from _of_forecast(status)
    yield from _of_rules(status)
    yield from _of_alarms(status)
    yield from _of_what_is_unknown(status)


def _of_replicas(status: ClusterStatus) -> Iterator[Trouble]:
    """Too few replicas serve, one that readers are sent to does not answer, or a host is not what its tags say."""
    doctor = f"peaker doctor {status.cluster}"
    if isinstance(status.source, Unknown) and not isinstance(status.replicas, Unknown):
        yield Trouble(Word.FAILED, f"the source is unknown: {status.source.why}", "workflow-failed", doctor)
    if isinstance(status.replicas, Unknown):
        return
    may_serve = [one for one in status.replicas if one.serves is not False]
    least = status.capacity.min_replicas
    if len(may_serve) < least:
        sentence = f"{len(may_serve)} of at least {least} replicas serve"
        runbook = "replica-shortage" if may_serve else "empty-read-endpoint"
        yield Trouble(Word.SHORT, sentence, runbook, doctor)
    for one in status.replicas:
        if _is_sick(one):
            sentence = f"{one.instance_id} does not serve, the read endpoint says {one.endpoint}"
            retire = f"peaker retire {status.cluster} {one.instance_id}"
            yield Trouble(
                Word.FAILED, sentence, "empty-read-endpoint", doctor if one.role == "base" else retire
            )
        elif one.state == f"running, {NOT_IN_LEDGER}" and status.run is None:
            sentence = f"{one.instance_id} has the tags of a peak replica, and no run made it"
            yield Trouble(Word.FAILED, sentence, "undo-incomplete", doctor)


def _is_sick(one: ReplicaStatus) -> bool:
    """Tells whether a replica that should serve is registered and unhealthy, or its instance does not run."""
    should = one.state in ("running", "in_service") if one.role == "base" else one.state == "in_service"
    stopped = one.role == "base" and one.state not in ("running", "pending")
    return stopped or (should and one.serves is False and one.endpoint.startswith("unhealthy"))


def _of_load(status: ClusterStatus) -> Iterator[Trouble]:
    """The load is above the capacity, or a shortage stands that no run mends."""
    capacity, cluster = status.capacity, status.cluster
    shortage = next(
        (one for one in _alarms(status) if one.name.endswith(f"{cluster}-replica-shortage")), None
    )
    since = f" since {clock(shortage.since)}" if shortage and shortage.since else ""
    why, line = _remedy(status)
    load, most = capacity.load, capacity.capacity
    if isinstance(load, Known) and isinstance(most, Known) and load.value > most.value:
        over = f"the load {load.value:,.0f} is {load.value - most.value:,.0f} above the capacity of {most.value:,.0f}"
        yield Trouble(Word.SHORT, over + since + why, "replica-shortage", line)
    elif isinstance(capacity.required, Known) and isinstance(capacity.serving, Known) and status.run is None:
        missing = capacity.required.value - capacity.serving.value
        acts = not isinstance(status.decision, Unknown) and status.decision.action == "scale_out"
        if missing >= 1 and acts:
            of = f"{missing:.0f} of {capacity.required.value:.0f} replicas are missing{since}, and no run builds them"
            yield Trouble(Word.SHORT, of + why, "replica-shortage", line)


def _remedy(status: ClusterStatus) -> tuple[str, str]:
    """What has been tried against a shortage, and the line to type: wait for the build, pass the limit, or build."""
    run, last, cluster = status.run, status.last_run, status.cluster
    if isinstance(run, RunStatus) and run.operation == "scale_out" and run.ended is None:
        return f"; {run.run_id} builds", f"peaker watch {cluster}"
    if isinstance(status.decision, DecisionStatus) and status.decision.observing:
        return f"; Peaker only observes: {status.decision.observing}", f"peaker plan {cluster}"
    if isinstance(last, EndedRun) and last.outcome == "refused":
        passing = f"peaker scale-out {cluster} --above-limits --reason TEXT"
        return f"; {last.run_id} was refused: {last.failure}", (
            passing if last.refused_by_limits else f"peaker plan {cluster}"
        )
    return "", f"peaker scale-out {cluster}"


def _of_runs(status: ClusterStatus) -> Iterator[Trouble]:
    """A run whose execution ended, an undo at work, a lease that another start waits for, a run that failed."""
    run, cluster = status.run, status.cluster
    if isinstance(run, RunStatus) and run.ended is not None:
        line = f"peaker watch {cluster}" if run.undone_by_roll_back else f"peaker receipt {run.run_id}"
        what = "roll_back undoes it" if run.undone_by_roll_back else "roll_back has not begun"
        word = Word.WAITING if run.undone_by_roll_back else Word.FAILED
        yield Trouble(word, f"{run.run_id}: {run.ended.text}; {what}", "abort-run", line)
    elif isinstance(run, RunStatus) and isinstance(run.execution, Unknown):
        held = f"{run.run_id} holds the lease until {clock(run.lease_until)}"
        sentence = f"{held}, and its execution is unknown: {run.execution.why}"
        yield Trouble(Word.WAITING, sentence, "abort-run", f"peaker watch {cluster}")
    elif status.addition is not None:
        waits = status.addition
        sentence = f"an addition waits since {clock(waits.since)} for the lease of {waits.lease_of}"
        yield Trouble(Word.WAITING, sentence, "replica-shortage", f"peaker watch {cluster}")
    last = status.last_run
    if last is None or isinstance(last, Unknown):
        return
    is_open = last.outcome == "undo_incomplete"
    is_new = not last.stopped and seconds_between(last.ended_at, status.at) <= _HEARD_OF_FOR_SECONDS
    if (text := _FAILED_OUTCOMES.get(last.outcome)) is not None and (is_open or is_new):
        runbook = "undo-incomplete" if is_open else "workflow-failed"
        why = f": {last.failure}" if last.failure else ""
        sentence = f"{last.run_id} {text} {_age(last.ended_at, status.at)} ago{why}"
        yield Trouble(Word.FAILED, sentence, runbook, f"peaker receipt {last.run_id}")


def _of_forecast(status: ClusterStatus) -> Iterator[Trouble]:
    """The check that decides is late or missing, or rests on a load that is too old, or cannot be met."""
    decision, cluster = status.decision, status.cluster
    paused = () if isinstance(status.paused_rules, Unknown) else status.paused_rules
    is_off = of_cluster(status.environment, cluster, "forecast") in paused
    line, why = (
        (f"peaker resume {cluster}", ", its rule is disabled") if is_off else (f"peaker doctor {cluster}", "")
    )
    if isinstance(decision, Unknown):
        yield Trouble(Word.FAILED, f"no forecast: {decision.why}{why}", "forecast-stale", line)
        return
    if decision.overdue:
        sentence = f"no forecast for {_age(decision.at, status.at)}{why}"
        yield Trouble(Word.FAILED, sentence, "forecast-stale", line)
    elif decision.awaits_load:
        sentence = "no load yet: the metric has no point; nothing starts by itself meanwhile"
        yield Trouble(Word.WAITING, sentence, "forecast-degraded", f"peaker doctor {cluster}")
    elif decision.outcome == "alarm":
        yield Trouble(Word.FAILED, decision.reason, "rules-cannot-be-met", f"peaker plan {cluster}")
    elif isinstance(status.capacity.load, Unknown):
        sentence = f"the load is unknown: {status.capacity.load.why}"
        yield Trouble(Word.FAILED, sentence, "forecast-degraded", f"peaker doctor {cluster}")
    elif decision.standing == "reactive_only":
        sentence = f"no forecast yet: {decision.history}; the measured load decides"
        yield Trouble(Word.WAITING, sentence, "forecast-degraded", f"peaker doctor {cluster}")
    elif decision.standing == "degraded":
        yield Trouble(Word.WAITING, f"the forecast is degraded: {decision.reason}", "forecast-degraded",
                      f"peaker doctor {cluster}")  # fmt: skip


def _of_rules(status: ClusterStatus) -> Iterator[Trouble]:
    """Rules that somebody disabled start nothing."""
    if isinstance(status.paused_rules, Unknown):
        return
    if status.paused_rules:
        names = ", ".join(status.paused_rules)
        line = f"peaker resume {status.cluster}"
        yield Trouble(Word.PAUSED, f"disabled by hand: {names}", "stop-everything", line)


def _of_alarms(status: ClusterStatus) -> Iterator[Trouble]:
    """Alarms but those that start workflows; one without a runbook is of a replica behind a DNS name."""
    starting = [
        of_cluster(status.environment, status.cluster, one) for one in ("replica-shortage", "replica-surplus")
    ]
    for alarm in _alarms(status):
        if alarm.name not in starting:
            since = f" since {clock(alarm.since)}" if alarm.since else ""
            queue = _dead_letters(alarm, status.environment)
            lies = f": a message lies in {queue}" if queue else ""
            read = _READ_QUEUE.format(queue=queue, region=status.region)
            line = read if queue else f"peaker runs {status.cluster}"
            runbook = alarm.runbook or "empty-read-endpoint"
            yield Trouble(Word.FAILED, f"alarm {alarm.name}{since}{lies}", runbook, line)


def _dead_letters(alarm: Alarm, environment: str) -> str | None:
    """Returns the queue whose messages an alarm is about."""
    shared = {
        "invocation-failed": failed_invocations(environment),
        "page-not-delivered": undelivered(operator_topic(environment)),
    }
    if alarm.runbook == "event-not-delivered":
        return undelivered(alarm.name.removesuffix("-event-not-delivered"))
    return shared.get(alarm.runbook)


def _of_what_is_unknown(status: ClusterStatus) -> Iterator[Trouble]:
    """Facts that AWS would not tell."""
    asked = (
        ("replicas", status.replicas), ("the run at work", status.run), ("alarms", status.alarms),
        ("rules", status.paused_rules), ("the last run", status.last_run),
    )  # fmt: skip
    unknown = [(name, fact.why) for name, fact in asked if isinstance(fact, Unknown)]
    if not isinstance(status.replicas, Unknown):
        why = {one.serves.why for one in status.replicas if isinstance(one.serves, Unknown)}
        unknown += [("who serves", reason) for reason in sorted(why)]
    for name, reason in unknown:
        # A throttled call is answered a moment later; for any other the doctor names what is missing.
        verb = "watch" if any(word in reason for word in _THROTTLED) else "doctor"
        line = f"peaker {verb} {status.cluster}"
        yield Trouble(Word.UNKNOWN, f"{name} unknown: {reason}", "invocation-failed", line)


def _alarms(status: ClusterStatus) -> Sequence[Alarm]:
    return () if isinstance(status.alarms, Unknown) else status.alarms


def _age(at: datetime, now: datetime) -> str:
    return duration(max(0.0, seconds_between(at, now)))
