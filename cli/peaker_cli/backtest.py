"""`peaker backtest`: what Peaker would have done over the past weeks of a load, and what it would have cost."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from peaker.adapters.cloudwatch.metrics import CloudWatchLoadHistory
from peaker.adapters.ssm.prices import ParameterPrices
from peaker.domain.contract import misfits
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.planning.fetched_prices import price_table
from peaker.domain.planning.prices import PriceTable
from peaker.domain.planning.scaling_policy import served_quantile
from peaker.domain.reading import Known, Reading, Unknown
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from peaker_backtest.console import print_report, progress
from peaker_backtest.document import as_document, document_text
from peaker_backtest.errors import BadInput, shown
from peaker_backtest.load_input import Choices, PastLoad, read_load
from peaker_backtest.page import render_page
from peaker_backtest.points import iso
from peaker_backtest.report import BacktestReport, run_backtest
from peaker_backtest.scenario import (
    DEFAULT_DAYS,
    DEFAULT_LEAD_MINUTES,
    Options,
    check_options,
    make_scenario,
)
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import console
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import PeakerError
from peaker_contract.names import cluster_parameter

_NO_OPTIONS = DeploymentOptions()

EPILOG = """Examples:

peaker backtest load.csv --capacity 460 --lead-minutes 70 --html page.html

peaker backtest export.csv --time-column Zeit --load-column reads --time-zone Europe/Berlin

aws cloudwatch get-metric-data ... | peaker backtest - --json - | jq .headline

peaker backtest --cluster orders --env prod --region eu-west-1

Exit status: 0 the report was made, whether it pays or not; 2 the input or an option cannot be used, with the line
or the option; 1 AWS did not answer, or an output could not be written. How to export a metric: docs/backtest.md."""


class Separator(StrEnum):
    COMMA = "comma"
    SEMICOLON = "semicolon"
    TAB = "tab"
    PIPE = "pipe"


class Decimal(StrEnum):
    POINT = "point"
    COMMA = "comma"


class DateOrder(StrEnum):
    DMY = "dmy"
    MDY = "mdy"


def backtest_command(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="CSV of a time and a load, or JSON of CloudWatch or Prometheus; - reads standard input."
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Read this cluster's load from CloudWatch instead.")
    ] = None,
    deployment: DeploymentOptions = _NO_OPTIONS,
    capacity: Annotated[
        float | None,
        typer.Option(help="Load that one replica serves; default: a tenth of the load's 99.9th percentile."),
    ] = None,
    lead_minutes: Annotated[
        float | None,
        typer.Option(help="Minutes from decision to serving.", show_default=f"{DEFAULT_LEAD_MINUTES:g}"),
    ] = None,
    quantile: Annotated[
        float | None, typer.Option(help="Quantile of the forecast to serve.", show_default="0.95")
    ] = None,
    min_replicas: Annotated[
        int | None, typer.Option(help="Replicas that always serve.", show_default="1")
    ] = None,
    max_replicas: Annotated[int | None, typer.Option(help="Most replicas.", show_default="100")] = None,
    replica_hour_usd: Annotated[float | None, typer.Option(help="Price of a replica-hour in USD.")] = None,
    days: Annotated[int, typer.Option(help="Days to replay, the newest ones.")] = DEFAULT_DAYS,
    minimum_lifetime_minutes: Annotated[
        float | None, typer.Option(help="A replica is kept so long.", show_default="60")
    ] = None,
    builds_at_once: Annotated[int, typer.Option(help="Replicas built side by side; 0 for no limit.")] = 1,
    headroom: Annotated[
        float | None, typer.Option(help="Share of the capacity that stays free.", show_default="0")
    ] = None,
    keep_lead_times: Annotated[
        float | None, typer.Option(help="Lead times ahead that a replica is kept for.", show_default="2")
    ] = None,
    accept_short_minutes: Annotated[
        float | None,
        typer.Option(
            help="Minutes short a week that proposed settings may have.", show_default="as with those of now"
        ),
    ] = None,
    time_column: Annotated[
        str | None, typer.Option(help="Column with the time: its name, or its number from 1.")
    ] = None,
    load_column: Annotated[
        str | None, typer.Option(help="Column with the load: its name, or its number from 1.")
    ] = None,
    separator: Annotated[Separator | None, typer.Option(help="What separates columns.")] = None,
    decimal: Annotated[Decimal | None, typer.Option(help="What 1,234 or 1.234 means.")] = None,
    date_order: Annotated[DateOrder | None, typer.Option(help="What 01/02/2026 means.")] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Zone of times that have none, e.g. Europe/Berlin or +02:00.", show_default="UTC"),
    ] = None,
    series: Annotated[
        str | None, typer.Option(help="Series of a JSON export with several: name or number.")
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write the report as JSON here; - for standard output.")
    ] = None,
    html_path: Annotated[Path | None, typer.Option("--html", help="Write the report as a page here.")] = None,
) -> None:
    """Replay the past: does Peaker pay on this load, against a static fleet and reactive scaling? Read only."""
    messages = console(stderr=True)
    to_stdout = json_path is not None and str(json_path) == "-"
    choices = Choices(
        time_column, load_column, separator and separator.value, decimal and decimal.value,
        date_order and date_order.value, time_zone, series,
    )  # fmt: skip
    asked = {
        "--capacity": capacity,
        "--lead-minutes": lead_minutes,
        "--quantile": quantile,
        "--min-replicas": min_replicas,
        "--max-replicas": max_replicas,
        "--replica-hour-usd": replica_hour_usd,
        "--minimum-lifetime-minutes": minimum_lifetime_minutes,
        "--headroom": headroom,
        "--keep-lead-times": keep_lead_times,
        "--accept-short-minutes": accept_short_minutes,
    }
    try:
        _check_outputs(source, json_path, html_path)
        # What is wrong with the options is said before anything is read.
        check_options(_options(asked, None, days, builds_at_once))
        name, load, deployed = _load(source, cluster, deployment, choices)
        report = _report(messages, name, load, _options(asked, deployed, days, builds_at_once))
    except BadInput as error:
        messages.print(Text.assemble(("backtest: ", "red"), str(error)), soft_wrap=True)
        raise typer.Exit(2) from None
    except PeakerError as error:
        raise ControlPlaneError(f"the load of {shown(str(cluster))} could not be read: {error}") from error
    print_report(messages if to_stdout else console(), report)
    if json_path:
        _write(messages, "JSON", json_path, document_text(as_document(report)))
    if html_path:
        _write(messages, "page", html_path, render_page(report))


def _report(messages: Console, name: str, load: PastLoad, options: Options) -> BacktestReport:
    scenario = make_scenario(load.series(), options)
    with progress(messages, len(scenario.decision_steps())) as tick:
        return run_backtest(name, load.read, load.unit, scenario, options, tick)


@dataclass(frozen=True)
class Deployed:
    """A cluster as it is deployed: its settings, and the prices that hold for it."""

    settings: ClusterSettings
    prices: PriceTable

    @property
    def replica_hour(self) -> Reading:
        """USD per hour of the instance; what its volumes cost depends on sizes that are not read here."""
        return self.prices.instance_hour(self.settings.instance_type)


def _options(
    asked: dict[str, float | None], deployed: Deployed | None, days: int, builds_at_once: int
) -> Options:
    """An option that was given wins over the cluster's settings, and these over the defaults."""
    configured: dict[str, float | None] = {}
    settings = deployed.settings if deployed else None
    if deployed is not None and settings is not None:
        hour = deployed.replica_hour
        configured = {
            "--capacity": settings.capacity_per_replica,
            "--min-replicas": settings.min_replicas,
            "--max-replicas": settings.max_replicas,
            "--replica-hour-usd": hour.value if isinstance(hour, Known) else None,
            "--minimum-lifetime-minutes": settings.limits.minimum_lifetime_minutes,
            "--headroom": settings.forecast.headroom,
            "--keep-lead-times": settings.forecast.keep_lead_times,
        }
    quantile = served_quantile(settings.forecast if settings else None)
    configured["--quantile"] = quantile.value
    values = {option: configured.get(option) if value is None else value for option, value in asked.items()}
    basis = {
        option: "from the cluster's settings" for option, value in configured.items() if value is not None
    }
    if deployed is not None:
        basis["--replica-hour-usd"] = (
            hour.why if isinstance(hour, Unknown) else f"by {deployed.prices.source}"
        )
    basis["--quantile"] = quantile.basis.removeprefix("the ")
    basis |= {option: "given" for option, value in asked.items() if value is not None}
    named: dict[str, Any] = {
        option.removeprefix("--").replace("-", "_"): value
        for option, value in values.items()
        if value is not None
    }
    for option, name in (
        ("capacity", "capacity_per_replica"),
        ("accept_short_minutes", "accepted_short_minutes"),
    ):
        if option in named:
            named[name] = named.pop(option)
    return Options(**named, days=days, builds_at_once=builds_at_once, given_by=basis)


def _check_outputs(source: Path | None, json_path: Path | None, html_path: Path | None) -> None:
    """Whether the report can be written is known before it is made. Raises BadInput."""
    for option, path in (("--json", json_path), ("--html", html_path)):
        if path is None or (option == "--json" and str(path) == "-"):
            continue
        name = f"{option} is {shown(str(path))}"
        try:
            if "\x00" in str(path):
                raise BadInput(f"{name}: no path has a NUL in it", field=option)
            if path.is_dir():
                raise BadInput(f"{name}, a directory; give the path of a file", field=option)
            if not path.parent.is_dir():
                raise BadInput(
                    f"{name}: there is no directory {shown(str(path.parent))}; make it first", field=option
                )
            writable = os.access(path if path.exists() else path.parent, os.W_OK)
            taken = source is not None and path.exists() and source.exists() and path.samefile(source)
        except (OSError, ValueError) as error:
            raise BadInput(f"{name}: {shown(str(error))}", field=option) from None
        if not writable:
            raise BadInput(f"{name}: no permission to write there", field=option)
        if taken:
            raise BadInput(f"{name}, which is the input; give another path", field=option)
    if json_path is not None and html_path is not None and json_path.absolute() == html_path.absolute():
        raise BadInput("--json and --html are the same file; give two paths", field="--html")


def _write(messages: Console, what: str, path: Path, text: str) -> None:
    if str(path) == "-" and what == "JSON":
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ControlPlaneError(f"{what} could not be written: {error}") from error
    messages.print(Text(f"{what}: {shown(str(path))}"), soft_wrap=True)


def _load(
    source: Path | None, cluster: str | None, deployment: DeploymentOptions, choices: Choices
) -> tuple[str, PastLoad, Deployed | None]:
    if (source is None) == (cluster is None):
        raise BadInput("give either a file or --cluster, not both and not neither", field="--cluster")
    if source is not None:
        return ("standard input" if str(source) == "-" else source.stem), read_load(source, choices), None
    control = ControlPlane.of(deployment)
    settings = _settings(control, str(cluster))
    now = datetime.now(UTC)
    history = CloudWatchLoadHistory(control.client("cloudwatch"))
    points = history.points(settings, now - timedelta(days=KEPT_HISTORY_DAYS), now)
    metric = settings.load_metric
    if len(points.times_seconds) < 2:
        raise BadInput(
            f"CloudWatch has no points of {metric.namespace} {metric.name} {metric.dimensions} in "
            f"{control.region}; check load_metric of {shown(str(cluster))}"
        )
    read = (
        f"read {len(points.times_seconds):,} points, every {points.period_seconds / 60:g} min, from "
        f"{iso(points.times_seconds[0])} to {iso(points.times_seconds[-1])} UTC, {metric.statistic} of "
        f"{metric.namespace} {metric.name} as load"
    )
    load = PastLoad(
        list(points.times_seconds), list(points.values), points.period_seconds, metric.name, (read,)
    )
    stored = ParameterPrices(control.client("ssm"), control.environment).read()
    return str(cluster), load, Deployed(settings, price_table(settings, stored, now))


def _settings(control: ControlPlane, cluster: str) -> ClusterSettings:
    ssm = control.client("ssm")
    name = cluster_parameter(control.environment, cluster)
    try:
        return ClusterSettings.model_validate_json(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    except ssm.exceptions.ParameterNotFound:
        raise BadInput(
            f"no parameter {shown(name)} in {control.region}; check --cluster, --env and --region", field="--cluster"
        ) from None  # fmt: skip
    except ValidationError as error:
        raise BadInput(
            f"parameter {shown(name)} is no cluster setting: {shown(misfits(error))}; deploy again"
        ) from None
