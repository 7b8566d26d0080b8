"""`peaker why`: why Peaker did or did not act, in sentences, by the record of the check that decided."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from peaker.domain.decoding import MISFITS, understood
from peaker.domain.instants import from_iso, seconds_between, to_iso
from peaker.domain.planning.needed_replicas import load_text
from peaker.domain.reading import Unknown
from peaker.domain.runs.ledger import RunRow

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.durations import clock, duration, instant_option
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import AsJson, echo, echo_json
from peaker_cli.status.document import STALE_AFTER_CHECKS
from peaker_cli.status.gather import StatusReader
from peaker_contract.cluster import ClusterSettings
from peaker_contract.metrics import Metric
from peaker_contract.names import named

EPILOG = "Examples: peaker why orders --env prod; peaker why orders --at 2026-11-27T03:10:00Z"
_RUNS_LOOKED_AT = 1000
_STANDINGS = {
    "normal": " The forecast is normal.",
    "degraded": " The forecast is degraded: the load cannot be forecast well.",
    "scale_out_only": " The forecast only adds replicas yet, as too few days of load are known.",
}


def why_command(
    cluster: str,
    deployment: DeploymentOptions,
    at: Annotated[
        str | None, typer.Option(help="Then, ISO 8601 with a zone; without it now.", metavar="TIME")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why CLUSTER's fleet was changed or left as it is, with the figures of the check that decided."""
    wanted = None if at is None else from_iso(instant_option(at, "--at"))
    control = ControlPlane.of(deployment)
    reader = StatusReader(control)
    settings = reader.settings(cluster)
    # AWS tells its time in whole seconds.
    if wanted is not None and wanted > control.clock.now() + timedelta(seconds=5):
        raise typer.BadParameter(f"{at} has not come yet", param_hint="--at")
    if wanted is None:
        report = reader.records.report(cluster)
    else:
        report = logged_report(control, settings, wanted) or published_report(reader, settings, wanted)
    if report is None:
        searched = duration(_searched(settings).total_seconds())
        when = "yet" if wanted is None else f"in {searched} before {clock(wanted)}"
        raise ControlPlaneError(
            f"no check of {cluster} is recorded {when}; {control.line('doctor', cluster)}"
        )
    with understood(ControlPlaneError, "the check's record (--json prints it as it is)"):
        runs = runs_after(control, reader, settings, from_iso(str(report["at"])))
        told = list(sentences(report, runs, wanted or control.clock.now(), settings))
    if as_json:
        echo_json(
            {"cluster": cluster, "sentences": told, "check": report, "runs": [one.run_id for one in runs]}
        )
    else:
        echo("\n".join(told))


def _searched(settings: ClusterSettings) -> timedelta:
    """Returns how long before a time the log is searched for the check that decided then."""
    return timedelta(minutes=max(60, settings.forecast.schedule_minutes * STALE_AFTER_CHECKS))


def logged_report(control: ControlPlane, settings: ClusterSettings, at: datetime) -> dict[str, Any] | None:
    """The newest report before that time, which forecast_load has logged."""
    pages = (
        control.client("logs")
        .get_paginator("filter_log_events")
        .paginate(
            logGroupName=f"/aws/lambda/{named(control.environment, 'forecast_load')}",
            startTime=int((at - _searched(settings)).timestamp() * 1000),
            endTime=int(at.timestamp() * 1000) + 1,
            filterPattern='"report"',
        )
    )
    found = [_report_of(str(event["message"]), settings.name) for page in pages for event in page["events"]]
    return max(
        (one for one in found if one is not None and from_iso(str(one["at"])) <= at),
        key=lambda one: from_iso(str(one["at"])),
        default=None,
    )


def published_report(reader: StatusReader, settings: ClusterSettings, at: datetime) -> dict[str, Any] | None:
    """The figures of the newest check before that time as metrics: they outlive the log, which alone has the reason."""

    def figure(metric: Metric, otherwise: float | None = None) -> float | None:
        found = reader.published(settings, metric, at)
        return otherwise if isinstance(found, Unknown) else found.value

    required, load = reader.published(settings, Metric.REQUIRED_REPLICAS, at), reader.load(settings, at)
    serving, decision = figure(Metric.SERVING_REPLICAS), figure(Metric.SCALING_DECISION, 0.0) or 0.0
    if isinstance(required, Unknown) or required.measured_at is None:
        return None
    return {
        "cluster": settings.name,
        "at": to_iso(required.measured_at),
        "action": "scale_out" if decision > 0 else "scale_in" if decision < 0 else "none",
        "reason": "the log does not have the reason any more",
        "load_now": None if isinstance(load, Unknown) else load.value,
        "serving": None if serving is None else round(serving),
        "building": 0,
        "required": round(required.value),
        "capacity_per_replica": figure(Metric.CAPACITY_PER_REPLICA, settings.capacity_per_replica),
        "capacity_basis": "as published",
        "lead_time_p90_seconds": figure(Metric.LEAD_TIME_SECONDS, 0.0),
        "quantile": settings.forecast.quantile,
        "observing": bool(figure(Metric.OBSERVING)),
        "observation": "it was in its days of observation, or in mode observe",
        "numbers": {"forecast_upper": figure(Metric.FORECAST_LOAD)},
    }


def _report_of(message: str, cluster: str) -> dict[str, Any] | None:
    try:
        report = dict(json.loads(message[message.index("{") :])["report"])
        from_iso(str(report["at"]))
    except MISFITS:
        return None
    return report if report.get("cluster") == cluster else None


def runs_after(
    control: ControlPlane, reader: StatusReader, settings: ClusterSettings, at: datetime
) -> list[RunRow]:
    """The runs that began before the next check, the first one first."""
    until = at + timedelta(minutes=settings.forecast.schedule_minutes)
    found = []
    for row in control.runs(settings.name, _RUNS_LOOKED_AT):
        began = from_iso(str(row["sk"]).split("#")[1])
        if began < at:
            break
        if began < until:
            found.append(reader.ledger.run(str(row["run_id"])))
    return found[::-1]


def sentences(
    report: Mapping[str, Any], runs: Sequence[RunRow], now: datetime, settings: ClusterSettings
) -> Iterator[str]:
    """Yields what was decided, by which figures, and what came of it."""
    at, numbers = from_iso(str(report["at"])), report["numbers"]
    did = {
        "scale_out": "asked for more replicas",
        "scale_in": "let replicas go",
        "none": "left the fleet as it is",
    }
    age = seconds_between(at, now)
    late = (
        ", and none has come since"
        if age > 60.0 * settings.forecast.schedule_minutes * STALE_AFTER_CHECKS
        else ""
    )
    yield (
        f"{settings.name}: the check of {clock(at)}, {duration(max(0.0, age))} before"
        f"{late}, {did[report['action']]}: {report['reason']}."
    )
    load, serving, each = report["load_now"], report["serving"], float(report["capacity_per_replica"])
    told = "The load was not known" if load is None else f"The load was {load_text(load)}"
    if serving is None:
        yield f"{told}; how many replicas served was not known."
    else:
        built = f"{report['building']} {'was' if report['building'] == 1 else 'were'} being built"
        building = f", {built}" if report["building"] else ""
        some = f"{serving} replica{'' if serving == 1 else 's'} served"
        in_all = f"{load_text(serving * each)} in all{building}"
        yield f"{told}; {some} at {each:g} each ({report['capacity_basis']}), {in_all}."
    for name in report.get("few_reads", ()):
        yield f"{name} counted as {report['read_shares'][name]:.0%} of a replica by the reads that came to it."
    lead = duration(float(report["lead_time_p90_seconds"]))
    upper = numbers.get("forecast_upper")
    ahead = "no forecast reached so far" if upper is None else f"the forecast for then was {load_text(upper)}"
    level = "" if upper is None else f" (p{100 * float(report['quantile']):g})"
    standing = _STANDINGS.get(str(report.get("standing")), "")
    yield f"A replica begun then would have served in {lead}; {ahead}{level}.{standing}"
    needs = f"{report['required']} replica{' was' if report['required'] == 1 else 's were'} needed"
    yield f"So {needs}, of at least {settings.min_replicas} and at most {settings.max_replicas} by the settings of now."
    if report["observing"] and report["action"] != "none":
        yield f"Nothing was started, as Peaker only observes: {report['observation']}."
    for run in runs:
        outcome = run.outcome.replace("_", " ")
        yield f"{run.run_id} began at {clock(run.started_at)} ({run.request.why}): {outcome}."
    if not runs and report["action"] != "none" and not report["observing"]:
        line = f"peaker status {settings.name} --env {settings.environment}"
        yield f"No run began by it: a rule is off, an event was lost, or a run was at work ({line})."
