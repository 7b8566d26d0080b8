"""`peaker backtest`: what Peaker would have done over the past weeks of a load, and what it would have cost."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.reading import Known, Unknown
from peaker.domain.service.retirement import QUIET_SECONDS
from peaker_backtest.console import print_report, progress
from peaker_backtest.document import as_document, document_text
from peaker_backtest.errors import BadInput, shown
from peaker_backtest.load_input import Choices, PastLoad, read_load
from peaker_backtest.page import render_page
from peaker_backtest.report import run_backtest
from peaker_backtest.scenario import (
    DEFAULT_DAYS,
    DEFAULT_LEAD_MINUTES,
    LEAST_HISTORY_DAYS,
    OWN_USD_A_MONTH_DNS,
    Options,
    check_options,
    make_scenario,
)
from rich.console import Console
from rich.text import Text

from peaker_cli.backtest.live_load import (
    MOST_HISTORY_DAYS,
    Deployed,
    MetricOptions,
    read_deployed,
    read_live_load,
)
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.files import replaceable, replaceable_or_output
from peaker_cli.printing import console
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import PeakerError


def replay_options(
    asked: dict[str, float | str | None],
    deployed: Deployed | None,
    days: int,
) -> Options:
    """An option that was given wins over the cluster's settings, and these over the defaults."""
    values: dict[str, Any] = {}
    basis: dict[str, str] = {}
    if deployed is not None:
        settings, hour = deployed.settings, deployed.replica_hour
        values = {
            "capacity_per_replica": settings.capacity_per_replica,
            "min_replicas": settings.min_replicas,
            "max_replicas": settings.max_replicas,
            "minimum_lifetime_minutes": settings.limits.minimum_lifetime_minutes,
            "headroom": settings.forecast.headroom,
            "quantile": settings.forecast.quantile,
            "time_zone": settings.time_zone,
        }
        basis = dict.fromkeys(values, "from the cluster's settings")
        values |= {
            "rule": settings.forecast.rule,
            "schedule_minutes": settings.forecast.schedule_minutes,
            "drain_minutes": _drain_minutes(settings),
        }
        if isinstance(hour, Known):
            values["replica_hour_usd"] = hour.value
        basis["replica_hour_usd"] = hour.why if isinstance(hour, Unknown) else f"by {deployed.prices.source}"
        if settings.read_endpoint.kind != "nlb":
            values["own_usd_a_month"] = OWN_USD_A_MONTH_DNS
    given = {name: value for name, value in asked.items() if value is not None}
    return Options(**(values | given), days=days, given_by=basis | dict.fromkeys(given, "given"))


def _drain_minutes(settings: ClusterSettings) -> float:
    """Returns the shortest drain: of one whose clients leave at once."""
    endpoint = settings.read_endpoint.clients_follow_within_seconds
    return (endpoint + QUIET_SECONDS + settings.retirement.idle_seconds) / 60


def check_outputs(source: Path | None, json_path: Path | None, html_path: Path | None) -> None:
    """Checks that each file is another one. Raises BadInput."""
    for option, path in (("--json", json_path), ("--html", html_path)):
        if path and source and path.exists() and source.exists() and path.samefile(source):
            raise BadInput(f"{option} is {shown(str(path))}, which is the input; give another path")
    if json_path is not None and html_path is not None and json_path.absolute() == html_path.absolute():
        raise BadInput("--json and --html are the same file; give two paths")


def write(messages: Console, what: str, path: Path, text: str) -> None:
    """Writes the text; `-` is standard output. Raises ControlPlaneError where it cannot be."""
    if str(path) == "-":
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ControlPlaneError(f"{what} could not be written: {error}") from error
    messages.print(Text(f"{what}: {shown(str(path))}"), soft_wrap=True)


_NO_OPTIONS = DeploymentOptions()

EPILOG = """Examples:

peaker backtest load.csv --capacity 460 --lead-minutes 70 --html page.html

peaker backtest export.csv --time-column Zeit --load-column reads --time-zone Europe/Berlin

aws cloudwatch get-metric-data ... | peaker backtest - --json - | jq .headline

peaker backtest --from-cloudwatch --cluster orders --env prod --region eu-west-1

peaker backtest --from-cloudwatch --namespace AWS/RDS --metric ReadIOPS --dimension DBInstanceIdentifier=orders-2

Exit status: 0 the report was made, whether it pays or not; 2 the input or an option cannot be used, with the line
or the option; 1 AWS did not answer, or an output could not be written. How to export a metric: docs/backtest.md."""


# fmt: off
def backtest_command(
    source: Annotated[Path | None, typer.Argument(
        help="CSV with a header, or JSON of CloudWatch; - reads standard input.")] = None,
    from_cloudwatch: Annotated[bool, typer.Option(
        "--from-cloudwatch", help="Read the load from CloudWatch; no file then.")] = False,
    cluster: Annotated[str | None, typer.Option(
        help="A deployed cluster: its metric is read from CloudWatch, its settings hold.")] = None,
    namespace: Annotated[str | None, typer.Option(
        help="CloudWatch namespace of the metric.", show_default="the cluster's")] = None,
    metric: Annotated[str | None, typer.Option(help="Name of the metric.", show_default="the cluster's")] = None,
    dimension: Annotated[list[str] | None, typer.Option(
        help="Dimension of the metric, NAME=VALUE; once for each.", show_default="the cluster's, or none")] = None,
    statistic: Annotated[str | None, typer.Option(
        help="Statistic of the metric.", show_default="the cluster's, or Average")] = None,
    period_seconds: Annotated[int | None, typer.Option(
        help="Period that the loads of a Sum are for, in seconds.", show_default="the cluster's, or 300")] = None,
    history_days: Annotated[int | None, typer.Option(
        help=f"Days to read from CloudWatch: over {KEPT_HISTORY_DAYS} in hours, {MOST_HISTORY_DAYS} at most.",
        show_default=str(KEPT_HISTORY_DAYS))] = None,
    deployment: DeploymentOptions = _NO_OPTIONS,
    capacity: Annotated[float | None, typer.Option(
        help="Load that one replica serves. Without it a tenth of the peak is assumed: no verdict.")] = None,
    lead_minutes: Annotated[float | None, typer.Option(
        help="Minutes from decision to serving.", show_default=f"{DEFAULT_LEAD_MINUTES:g}")] = None,
    quantile: Annotated[float | None, typer.Option(
        help="Quantile of the forecast to serve.", show_default="0.95")] = None,
    min_replicas: Annotated[int | None, typer.Option(help="Replicas that always serve.", show_default="1")] = None,
    max_replicas: Annotated[int | None, typer.Option(help="Most replicas.", show_default="100")] = None,
    replica_hour_usd: Annotated[float | None, typer.Option(help="Price of a replica-hour in USD.")] = None,
    days: Annotated[int, typer.Option(help="Days to replay, the newest ones.")] = DEFAULT_DAYS,
    minimum_lifetime_minutes: Annotated[float | None, typer.Option(
        help="A replica is kept so long.", show_default="60")] = None,
    headroom: Annotated[float | None, typer.Option(
        help="Share of the capacity that stays free.", show_default="0")] = None,
    fleet_of_today: Annotated[int | None, typer.Option(
        help="Replicas that serve today, to compare with.", show_default="not compared")] = None,
    time_column: Annotated[str | None, typer.Option(
        help="Column with the time, by its name or its number from 1.", show_default="the first one")] = None,
    load_column: Annotated[str | None, typer.Option(
        help="Column with the load, by its name or its number from 1.", show_default="the other, or value")] = None,
    time_zone: Annotated[str | None, typer.Option(
        help="Zone of the load's daily rhythm, and of times that have none: Europe/Berlin or +02:00.",
        show_default="the cluster's, or UTC")] = None,
    json_path: Annotated[Path | None, typer.Option(
        "--json", callback=replaceable_or_output, help="Write the report as JSON here; - for standard output.")] = None,
    html_path: Annotated[Path | None, typer.Option(
        "--html", callback=replaceable, help="Write the report as a page here.")] = None,
) -> None:
    # fmt: on
    """Replay the past: does Peaker pay on this load, against a fixed fleet, a cron schedule and reactive scaling?"""
    messages = console(stderr=True)
    to_stdout = json_path is not None and str(json_path) == "-"
    choices = Choices(time_column, load_column, time_zone)
    named = MetricOptions(namespace, metric, tuple(dimension or ()), statistic, period_seconds)
    live = LiveOptions(from_cloudwatch, cluster, named, history_days)
    asked: dict[str, float | str | None] = {
        "capacity_per_replica": capacity,
        "lead_minutes": lead_minutes,
        "quantile": quantile,
        "min_replicas": min_replicas,
        "max_replicas": max_replicas,
        "replica_hour_usd": replica_hour_usd,
        "minimum_lifetime_minutes": minimum_lifetime_minutes,
        "headroom": headroom,
        "fleet_of_today": fleet_of_today,
        "time_zone": time_zone,
    }
    try:
        check_outputs(source, json_path, html_path)
        # What is wrong with the options is said before anything is read.
        check_options(replay_options(asked, None, days))
        live.check(source, choices, deployment)
        name, load, deployed = _load(source, live, deployment, choices, messages)
        options = replay_options(asked, deployed, days)
        scenario = make_scenario(load.series(), options)
        with progress(messages, len(scenario.decision_steps())) as tick:
            report = run_backtest(name, load.read, load.unit, scenario, options, tick)
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


@dataclass(frozen=True)
class LiveOptions:
    """These options name the load in CloudWatch; by default as many days are read as forecast_load reads."""

    asked: bool
    cluster: str | None
    metric: MetricOptions
    history_days_given: int | None

    @property
    def history_days(self) -> int:
        return KEPT_HISTORY_DAYS if self.history_days_given is None else self.history_days_given

    def check(self, source: Path | None, choices: Choices, deployment: DeploymentOptions) -> None:
        """Checks that either a file or CloudWatch is named, with options that go with it. Raises BadInput."""
        flags = {
            "--from-cloudwatch": self.asked or None,
            "--cluster": self.cluster,
            "--history-days": self.history_days_given,
        }
        given = [*(option for option, value in flags.items() if value is not None), *self.metric.given]
        if source is not None:
            where = {
                "--env": deployment.environment,
                "--region": deployment.region,
                "--profile": deployment.profile,
                "--endpoint": deployment.endpoint,
            }
            given += [option for option, value in where.items() if value is not None]
            if given:
                raise BadInput(f"{given[0]} is for CloudWatch: leave it out, or the file")
            return
        if not given:
            raise BadInput("give a file, --cluster, or --from-cloudwatch with a metric")
        for option, value in (("--time-column", choices.time_column), ("--load-column", choices.load_column)):
            if value is not None:
                raise BadInput(f"{option} is for a file: leave it out")
        if self.cluster is None:
            self.metric.over(None)
        if not LEAST_HISTORY_DAYS < self.history_days <= MOST_HISTORY_DAYS:
            raise BadInput(
                f"--history-days is {self.history_days}; give a value from {LEAST_HISTORY_DAYS + 1:.0f} to "
                f"{MOST_HISTORY_DAYS}: CloudWatch keeps no more"
            )


def _load(
    source: Path | None, live: LiveOptions, deployment: DeploymentOptions, choices: Choices, messages: Console
) -> tuple[str, PastLoad, Deployed | None]:
    """Returns the load's name, the load, and the cluster as deployed if one was named."""
    if source is not None:
        return "standard input" if str(source) == "-" else source.stem, read_load(source, choices), None
    control = ControlPlane.of(deployment, in_environment=live.cluster is not None)
    deployed = read_deployed(control, live.cluster) if live.cluster is not None else None
    metric = live.metric.over(deployed.settings.load_metric if deployed else None)
    return live.cluster or metric.name, read_live_load(control, metric, live.history_days, messages), deployed
