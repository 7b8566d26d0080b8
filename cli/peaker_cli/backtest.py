"""`peaker backtest`: what Peaker would have done over the past weeks of a load, and what it would have cost."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from peaker.adapters.cloudwatch_metrics import CloudWatchLoadHistory
from peaker.domain.cluster import ClusterSettings
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.prices import US_EAST_1
from peaker.domain.reading import Known
from peaker.domain.scaling import served_quantile
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from peaker_cli.backtest_input import BadInput, PastLoad, read_csv
from peaker_cli.backtest_page import render_page
from peaker_cli.backtest_report import BacktestReport, as_document, run_backtest, verdict
from peaker_cli.backtest_simulation import Scenario
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions

_NO_OPTIONS = DeploymentOptions()
_LEAST_HISTORY_DAYS = 4.0
_DEFAULT_REPLICAS_AT_PEAK = 10


def backtest_command(
    source: Annotated[
        Path | None, typer.Argument(help="CSV of `timestamp,value`; or give --cluster.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Read this cluster's load from CloudWatch.")] = None,
    deployment: DeploymentOptions = _NO_OPTIONS,
    capacity: Annotated[
        float | None, typer.Option(help="Load that one replica serves; default: a tenth of the peak.")
    ] = None,
    lead_minutes: Annotated[float, typer.Option(help="Minutes from decision to serving.")] = 70.0,
    quantile: Annotated[float | None, typer.Option(help="Quantile of the forecast to serve.")] = None,
    min_replicas: Annotated[int | None, typer.Option(help="Replicas that always serve.")] = None,
    max_replicas: Annotated[int | None, typer.Option(help="Most replicas.")] = None,
    replica_hour_usd: Annotated[float | None, typer.Option(help="Price of a replica-hour in USD.")] = None,
    days: Annotated[int, typer.Option(help="Days to replay, the newest ones.")] = 28,
    minimum_lifetime_minutes: Annotated[float | None, typer.Option(help="A replica is kept so long.")] = None,
    builds_at_once: Annotated[int, typer.Option(help="Replicas built side by side; 0 for no limit.")] = 1,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON here.")] = None,
    html_path: Annotated[Path | None, typer.Option("--html", help="Write the report as a page here.")] = None,
) -> None:
    """Replay the past: shortage, replica-hours and dollars against reactive, static and an oracle. Read only."""
    console = Console()
    try:
        name, load, settings = _load(source, cluster, deployment)
        series = load.series()
        first = first_step(series, days)
        given = {
            "capacity_per_replica": _first(capacity, settings and settings.capacity_per_replica),
            "quantile": _first(quantile, served_quantile(settings.forecast if settings else None).value),
            "min_replicas": _first(min_replicas, settings and settings.min_replicas, 1),
            "max_replicas": _first(max_replicas, settings and settings.max_replicas, 100),
        }
        lifetime = minimum_lifetime_minutes
        if lifetime is None:
            lifetime = settings.limits.minimum_lifetime_minutes if settings else 60.0
        scenario = make_scenario(series, first, lead_minutes, lifetime, builds_at_once, given)
        price = replica_hour_usd if replica_hour_usd is not None else _price(settings)
        report = _run(console, name, scenario, price)
    except BadInput as error:
        console.print(f"[red]backtest:[/red] {error}", soft_wrap=True, highlight=False)
        raise typer.Exit(2) from None
    _print(console, report)
    if json_path:
        json_path.write_text(json.dumps(as_document(report), indent=2) + "\n", encoding="utf-8")
        console.print(f"JSON: {json_path}")
    if html_path:
        html_path.write_text(render_page(report), encoding="utf-8")
        console.print(f"page: {html_path}")


def _first(*candidates: Any) -> Any:
    """The first candidate that was given; an option of 0 was given."""
    return next((one for one in candidates if one is not None), None)


def first_step(series: LoadSeries, days: int) -> int:
    """First step to replay: `days` before the end, but after enough history. Raises BadInput."""
    day = series.steps_per_day
    history = math.ceil(_LEAST_HISTORY_DAYS * day)
    if len(series.values) < history + day:
        raise BadInput(
            f"{len(series.values) / day:.1f} days of load; a backtest needs {_LEAST_HISTORY_DAYS + 1:.0f} at "
            "least and says something from 21 on: export more"
        )
    return max(history, len(series.values) - days * day)


def make_scenario(
    series: LoadSeries,
    first: int,
    lead_minutes: float,
    lifetime_minutes: float,
    builds_at_once: int,
    given: dict[str, Any],
) -> Scenario:
    """The scenario with checked settings. Raises BadInput naming the option."""
    capacity = given["capacity_per_replica"]
    if capacity is None:
        capacity = float(np.nanquantile(series.values, 0.999)) / _DEFAULT_REPLICAS_AT_PEAK
    level, least, most = given["quantile"], given["min_replicas"], given["max_replicas"]
    checks = [
        (capacity > 0, "--capacity", capacity, "above 0 (without it, the load must rise above 0)"),
        (0.5 < level <= 0.99, "--quantile", level, "above 0.5, up to 0.99"),
        (lead_minutes > 0, "--lead-minutes", lead_minutes, "above 0"),
        (least >= 1, "--min-replicas", least, "of 1 or more"),
        (most >= least, "--max-replicas", most, "of min_replicas or more"),
        (builds_at_once >= 0, "--builds-at-once", builds_at_once, "of 0 or more"),
    ]
    for good, option, value, allowed in checks:
        if not good:
            raise BadInput(f"{option} is {value}; give a value {allowed}")
    return Scenario(
        series=series,
        first=first,
        last=len(series.values),
        lead_steps=max(1, math.ceil(lead_minutes * 60 / series.step_seconds)),
        capacity_per_replica=capacity,
        quantile=level,
        min_replicas=least,
        max_replicas=most,
        minimum_lifetime_seconds=60.0 * lifetime_minutes,
        builds_at_once=builds_at_once or None,
    )


def _load(
    source: Path | None, cluster: str | None, deployment: DeploymentOptions
) -> tuple[str, PastLoad, ClusterSettings | None]:
    if (source is None) == (cluster is None):
        raise BadInput("give either a CSV file or --cluster, not both and not neither")
    if source is not None:
        return source.stem, read_csv(source), None
    control = ControlPlane.of(deployment)
    settings = _settings(control, str(cluster))
    now = datetime.now(UTC)
    history = CloudWatchLoadHistory(control.client("cloudwatch"))
    points = history.points(settings, now - timedelta(days=KEPT_HISTORY_DAYS), now)
    if len(points.times_seconds) < 2:
        metric = settings.load_metric
        raise BadInput(
            f"CloudWatch has no points of {metric.namespace} {metric.name} {metric.dimensions} in "
            f"{control.region}; check load_metric of {cluster}"
        )
    load = PastLoad(list(points.times_seconds), list(points.values), points.period_seconds)
    return str(cluster), load, settings


def _settings(control: ControlPlane, cluster: str) -> ClusterSettings:
    ssm = control.client("ssm")
    name = f"/peaker/{control.environment}/clusters/{cluster}"
    try:
        return ClusterSettings.model_validate_json(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    except ssm.exceptions.ParameterNotFound:
        raise BadInput(
            f"no parameter {name} in {control.region}; check --cluster, --env and --region"
        ) from None
    except ValidationError as error:
        raise BadInput(f"parameter {name} is no cluster setting: {error}") from None


def _price(settings: ClusterSettings | None) -> float | None:
    """USD per replica-hour of the instance; what its volumes cost depends on sizes that are not read here."""
    if settings is None:
        return None
    price = US_EAST_1.instance_hour(settings.instance_type)
    return price.value if isinstance(price, Known) else None


def _run(console: Console, name: str, scenario: Scenario, price: float | None) -> BacktestReport:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("decisions replayed", total=len(scenario.decision_steps()))
        return run_backtest(name, scenario, price, lambda: progress.advance(task))


def _print(console: Console, report: BacktestReport) -> None:
    console.print(f"[bold]{report.source}[/bold]: {verdict(report)}", highlight=False)
    for warning in report.warnings:
        console.print(f"[yellow]{warning}[/yellow]", highlight=False)
    table = Table(title="Policies")
    for column in ("policy", "short (min)", "share", "replica-hours", "USD", "out / in"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for policy in as_document(report)["policies"]:
        dollars = "" if policy["dollars"] is None else f"{policy['dollars']:,.2f}"
        table.add_row(
            policy["name"],
            f"{policy['short_minutes']:,.0f}",
            f"{policy['short_share']:.2%}",
            f"{policy['replica_hours']:,.0f}",
            dollars,
            f"{policy['scale_outs']} / {policy['scale_ins']}",
        )
    console.print(table)
    accuracy = Table(title="Accuracy by horizon")
    for column in ("ahead (min)", "forecasts", "p50 error", "under p90", "under p95", "p95 loss / last week"):
        accuracy.add_column(column, justify="right")
    for one in report.accuracy:
        ratio = "" if one.pinball95_to_last_week is None else f"{one.pinball95_to_last_week:.2f}"
        accuracy.add_row(
            str(one.minutes),
            f"{one.scored:,}",
            f"{one.error50:.1%}",
            f"{one.coverage90:.1%}",
            f"{one.coverage95:.1%}",
            ratio,
        )
    console.print(accuracy)
