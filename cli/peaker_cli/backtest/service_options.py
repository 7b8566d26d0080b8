"""Service options describe how the service answered: the measure, its limit, and the serving replicas.

A command takes `service: ServiceOptions` and is decorated with `takes_service`, which gives it these options.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from peaker_backtest.capacity.measure_input import MOST_REPLICAS, limit_of
from peaker_backtest.capacity.observations import Limit
from peaker_backtest.errors import BadInput, shown

from peaker_cli.backtest.service_metric import MeasureMetric

_PANEL = "Capacity of a replica"


def _option(help_text: str, default: str | None = None) -> Any:
    return typer.Option(help=help_text, rich_help_panel=_PANEL, show_default=default or False)


@dataclass(frozen=True)
class ServiceOptions:
    """These options are as typed; None where nothing was."""

    latency_limit_ms: Annotated[
        float | None,
        _option("p95 latency that you accept: proposes the capacity of a replica that keeps it."),
    ] = None
    cpu_limit_percent: Annotated[float | None, _option("CPU that you accept, instead of a latency.")] = None
    measure: Annotated[
        Path | None,
        _option("File of that latency in ms, or CPU in percent.", "the load's file, with --measure-column"),
    ] = None
    measure_column: Annotated[str | None, _option("Its column, or its series in JSON: name or number.")] = (
        None
    )
    measure_namespace: Annotated[str | None, _option("CloudWatch namespace of it, e.g. AWS/EC2.")] = None
    measure_metric: Annotated[str | None, _option("Name of the metric, e.g. CPUUtilization.")] = None
    measure_dimension: Annotated[
        list[str] | None, _option("Dimension of it, NAME=VALUE; once for each, e.g. InstanceId=i-1.")
    ] = None
    measure_statistic: Annotated[str | None, _option("Statistic of it, e.g. p95.", "Average")] = None
    serving: Annotated[
        str | None,
        _option("Replicas that served: a number, or a file.", "the cluster's own metric, with --cluster"),
    ] = None
    serving_column: Annotated[
        str | None, _option("Its column or series; without --serving in the load's file.")
    ] = None

    @property
    def given(self) -> list[str]:
        """The options that were given, as they are typed."""
        return [f"--{one.name.replace('_', '-')}" for one in fields(self) if getattr(self, one.name)]

    @property
    def metric(self) -> MeasureMetric | None:
        """The measure as a metric of CloudWatch; None where none is named. Raises BadInput."""
        if not (self.measure_namespace or self.measure_metric):
            if self.measure_dimension or self.measure_statistic:
                raise BadInput("--measure-dimension and --measure-statistic are for a metric: give --measure-metric",
                               field="--measure-metric")  # fmt: skip
            return None
        return MeasureMetric.named(
            self.measure_namespace,
            self.measure_metric,
            tuple(self.measure_dimension or ()),
            self.measure_statistic,
        )

    def limit(self) -> Limit | None:
        """Returns the service's limit; None where nothing is asked for. Raises BadInput naming the option."""
        found = limit_of(self.latency_limit_ms, self.cpu_limit_percent)
        if found is None:
            if self.given:
                raise BadInput(
                    f"{self.given[0]} is for the capacity of a replica: give --latency-limit-ms or "
                    "--cpu-limit-percent too",
                    field=self.given[0],
                )
            return None
        metric = self.metric
        if metric is None and self.measure is None and self.measure_column is None:
            raise BadInput(
                f"{found.option} needs the {found.measure} that was: give --measure with a file, --measure-column of "
                f"the "
                "load's file, or --measure-metric",
                field="--measure",
            )
        if metric is not None and (self.measure or self.measure_column):
            raise BadInput(
                "--measure-metric is for CloudWatch: leave it out, or the file", field="--measure-metric"
            )
        _ = self.serving_count
        return found

    @property
    def serving_count(self) -> int | None:
        """The number that was given for all the time; None for a file or nothing. Raises BadInput."""
        text = (self.serving or "").strip()
        if not (text.isascii() and text.isdigit()):
            return None
        if len(text) > 6 or not 1 <= int(text) <= MOST_REPLICAS:
            raise BadInput(
                f"--serving is {shown(text)}; give 1 to {MOST_REPLICAS:,} replicas", field="--serving"
            )
        return int(text)


def takes_service(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options above in place of its parameter `service`."""
    signature = inspect.signature(command, eval_str=True)
    types = inspect.get_annotations(ServiceOptions, eval_str=True)

    @functools.wraps(command)
    def called(**given: Any) -> None:
        options = {name: given.pop(name) for name in types}
        command(service=ServiceOptions(**options), **given)

    own = [one for name, one in signature.parameters.items() if name != "service"]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in types.items()
    ]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + shared
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called
