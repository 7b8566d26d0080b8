"""`peaker backtest`: what Peaker would have done over the past weeks of a load, and what it would have cost."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker_backtest.capacity.proposal import CapacityProposal
from peaker_backtest.console import print_report, progress
from peaker_backtest.document import as_document, document_text
from peaker_backtest.errors import BadInput, shown
from peaker_backtest.load_input import Choices
from peaker_backtest.page import render_page
from peaker_backtest.report import BacktestReport, run_backtest
from peaker_backtest.scenario import (
    DEFAULT_DAYS,
    DEFAULT_LEAD_MINUTES,
    LEAST_HISTORY_DAYS,
    Options,
    check_options,
    make_scenario,
)
from rich.console import Console
from rich.text import Text

from peaker_cli.backtest.live_load import (
    MOST_HISTORY_DAYS,
    MetricOptions,
    read_deployed,
    read_live_load,
)
from peaker_cli.backtest.outputs import check_outputs, write
from peaker_cli.backtest.service_observations import Loaded, LoadFile, check_service, find_capacity
from peaker_cli.backtest.service_options import ServiceOptions, takes_service
from peaker_cli.backtest.settings_or_options import replay_options
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import console
from peaker_contract.errors import PeakerError

_NO_OPTIONS = DeploymentOptions()
_NO_SERVICE = ServiceOptions()
_OF_FILES = ("time_column", "load_column", "separator", "decimal", "date_order", "series")

EPILOG = """Examples:

peaker backtest load.csv --capacity 460 --lead-minutes 70 --html page.html

peaker backtest export.csv --time-column Zeit --load-column reads --time-zone Europe/Berlin

aws cloudwatch get-metric-data ... | peaker backtest - --json - | jq .headline

peaker backtest reads.csv --latency-limit-ms 20 --measure p95.csv --serving replicas.csv --capacity 460

peaker backtest --from-cloudwatch --cluster orders --env prod --region eu-west-1

peaker backtest --from-cloudwatch --namespace AWS/RDS --metric ReadIOPS --dimension DBInstanceIdentifier=orders-2

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


@takes_service
def backtest_command(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="CSV of a time and a load, or JSON of CloudWatch or Prometheus; - reads standard input."
        ),
    ] = None,
    from_cloudwatch: Annotated[
        bool, typer.Option("--from-cloudwatch", help="Read the load from CloudWatch; no file then.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(help="A deployed cluster: its metric is read from CloudWatch, its settings hold."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="CloudWatch namespace of the metric.", show_default="the cluster's")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Name of the metric.", show_default="the cluster's")
    ] = None,
    dimension: Annotated[
        list[str] | None,
        typer.Option(
            help="Dimension of the metric, NAME=VALUE; once for each.", show_default="the cluster's, or none"
        ),
    ] = None,
    statistic: Annotated[
        str | None,
        typer.Option(help="Statistic of the metric.", show_default="the cluster's, or Average"),
    ] = None,
    period_seconds: Annotated[
        int | None,
        typer.Option(
            help="Period that the loads of a Sum are for, in seconds.", show_default="the cluster's, or 300"
        ),
    ] = None,
    history_days: Annotated[
        int | None,
        typer.Option(
            help=f"Days to read from CloudWatch: over {KEPT_HISTORY_DAYS} in hours, {MOST_HISTORY_DAYS} at most.",
            show_default=str(KEPT_HISTORY_DAYS),
        ),
    ] = None,
    deployment: DeploymentOptions = _NO_OPTIONS,
    service: ServiceOptions = _NO_SERVICE,
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
    builds_at_once: Annotated[
        int,
        typer.Option(
            help="Replicas of one batch; 0 for any number. The next batch begins when this one serves."
        ),
    ] = 0,
    headroom: Annotated[
        float | None, typer.Option(help="Share of the capacity that stays free.", show_default="0")
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
        typer.Option(
            help="Zone of the load's daily rhythm, and of times that have none: Europe/Berlin or +02:00.",
            show_default="the cluster's, or UTC",
        ),
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
    named = MetricOptions(namespace, metric, tuple(dimension or ()), statistic, period_seconds)
    live = LiveOptions(from_cloudwatch, cluster, named, history_days)
    asked: dict[str, float | str | None] = {
        "--capacity": capacity,
        "--lead-minutes": lead_minutes,
        "--quantile": quantile,
        "--min-replicas": min_replicas,
        "--max-replicas": max_replicas,
        "--replica-hour-usd": replica_hour_usd,
        "--minimum-lifetime-minutes": minimum_lifetime_minutes,
        "--headroom": headroom,
        "--accept-short-minutes": accept_short_minutes,
        "--time-zone": time_zone,
    }
    try:
        check_outputs(source, json_path, html_path)
        # What is wrong with the options is said before anything is read.
        check_options(replay_options(asked, None, days, builds_at_once))
        limit = check_service(service, source)
        _check_source(source, live, choices, service)
        loaded = _load(source, live, deployment, choices, messages)
        options = replay_options(asked, loaded.deployed, days, builds_at_once)
        found = None
        if limit is not None:
            found = find_capacity(service, limit, loaded, choices, options.capacity_per_replica)
        report = _report(messages, loaded, options, *(found or (None, ())))
    except BadInput as error:
        messages.print(Text.assemble(("backtest: ", "red"), str(error)), soft_wrap=True)
        raise typer.Exit(2) from None
    except PeakerError as error:
        raise ControlPlaneError(
            f"the load of {shown(cluster or metric or 'the metric')} could not be read: {error}"
        ) from error
    print_report(messages if to_stdout else console(), report)
    if json_path:
        write(messages, "JSON", json_path, document_text(as_document(report)))
    if html_path:
        write(messages, "page", html_path, render_page(report))


def _report(
    messages: Console,
    loaded: Loaded,
    options: Options,
    capacity: CapacityProposal | None,
    measured: tuple[str, ...],
) -> BacktestReport:
    load = loaded.load
    scenario = make_scenario(load.series(), options)
    with progress(messages, len(scenario.decision_steps())) as tick:
        return run_backtest(
            loaded.name, (*load.read, *measured), load.unit, scenario, options, tick, capacity
        )


def _load(
    source: Path | None, live: LiveOptions, deployment: DeploymentOptions, choices: Choices, messages: Console
) -> Loaded:
    """The load by a file or by CloudWatch, with the cluster as deployed where one was named."""
    if source is not None:
        file = LoadFile.at(source)
        return Loaded(file.name, file.load(choices), file)
    control = ControlPlane.of(deployment, in_environment=live.cluster is not None)
    deployed = read_deployed(control, live.cluster) if live.cluster is not None else None
    metric = live.metric.over(deployed.settings.load_metric if deployed else None)
    load = read_live_load(control, metric, live.history_days, messages)
    return Loaded(live.cluster or metric.name, load, None, control, live.cluster, deployed, live.history_days)


def _check_source(source: Path | None, live: LiveOptions, choices: Choices, service: ServiceOptions) -> None:
    """A file or CloudWatch, and options that go with it. Raises BadInput."""
    given = live.given
    if source is None and not given:
        raise BadInput(
            "give a file, --cluster, or --from-cloudwatch with a metric", field="--from-cloudwatch"
        )
    if source is not None and given:
        raise BadInput(f"{given[0]} is for CloudWatch: leave it out, or the file", field=given[0])
    if source is not None:
        return
    # What says how a file is read may be meant for that of the measure or of the replicas.
    of_load = ("load_column", "series") if service.measure or service.serving else _OF_FILES
    for one in fields(choices):
        if one.name in of_load and getattr(choices, one.name) is not None:
            option = f"--{one.name.replace('_', '-')}"
            raise BadInput(f"{option} is for a file: leave it out", field=option)
    if live.cluster is None:
        live.metric.over(None)
    if not LEAST_HISTORY_DAYS < live.history_days <= MOST_HISTORY_DAYS:
        raise BadInput(
            f"--history-days is {live.history_days}; give a value from {LEAST_HISTORY_DAYS + 1:.0f} to "
            f"{MOST_HISTORY_DAYS}: CloudWatch keeps no more",
            field="--history-days",
        )


@dataclass(frozen=True)
class LiveOptions:
    """These options name the load in CloudWatch."""

    asked: bool
    cluster: str | None
    metric: MetricOptions
    history_days_given: int | None

    @property
    def history_days(self) -> int:
        """Returns the days that CloudWatch is asked for; by default, as many as `forecast_load` reads."""
        return KEPT_HISTORY_DAYS if self.history_days_given is None else self.history_days_given

    @property
    def given(self) -> list[str]:
        """The options of it that were given, as they are typed."""
        flags = [
            ("--from-cloudwatch", self.asked or None),
            ("--cluster", self.cluster),
            ("--history-days", self.history_days_given),
        ]
        return [*(option for option, value in flags if value is not None), *self.metric.given]
