"""Settings of the load, its forecast and its calendar, the limits of runs, and the instance prices that are shipped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, StrictInt, model_validator

from peaker_contract.field_types import (
    MOST_REPLICAS,
    Fault,
    MetricText,
    Moment,
    Number,
    Remark,
    Settings,
    refuse,
)

_LARGEST = 1e15
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|%")
# Words of a metric's name that say that it is no load, anywhere in it or as what it counts in the end, and why.
_NO_LOADS = (
    (r"\w*utili[sz]\w*|\w*util|\w*percent(?!ile)\w*|pct|cpu\w*|hit (rate|ratio)|%", r"share|ratio|util",
     "a utilisation ends at 100 percent, so that no forecast of it says how many replicas are needed"),
    (r"\w*behind\w*", r"\w*lag", "a lag follows the source's writes, which more replicas do not lessen"),
    (r"(time|latency|duration|wait|lag) [mu]?s",
     r"\w*latency|(milli|micro|nano)?seconds|millis|m?sec|ms|duration|delay|\w*wait|await|age|\w*time",
     "a time becomes long when replicas are overloaded and short when one is added"),
    (r"(queue|run) (length|depth|size)", r"queue|depth|backlog",
     "a queue becomes long when replicas are overloaded and empty when one is added"),
    (r"(memory|storage|space|swap|disk|connections|credits?) (free|available|left|balance)|free(able)? (memory|space)",
     r"memory|mem|space|storage|swap|balance|credits?",
     "it says what a host has left, not what readers ask for"),
    (r"failed|aborted|rejected|slow", r"errors?|failures?|timeouts?",
     "it counts what goes wrong, not what readers ask for"),
    (r"(un)?healthy|(replica|host|instance)s? (serving|count)$", r"hosts",
     "it counts replicas, which Peaker itself changes"),
)  # fmt: skip
_STATISTIC = re.compile(
    r"( (avg|average|mean|max|maximum|min|minimum|sum|total|rate|count|number|p|bytes))+$"
)
NO_LOAD_UNITS = ("Percent", "Seconds", "Milliseconds", "Microseconds")


def why_no_load(name: str) -> str | None:
    """Returns why a metric of that name is no load by which replicas can be planned; None where it may be one."""
    spoken = re.sub(r"/\s*(?=[A-Za-z])", " per ", name)
    words = re.sub(r" ?\bper \w+", "", " ".join(_WORD.findall(spoken)).lower())
    counted = _STATISTIC.sub("", words)
    written = f"{name.lower()} {words}"
    return next(
        (
            why
            for anywhere, at_the_end, why in _NO_LOADS
            if re.search(rf"(?<!\w)({anywhere})(?!\w)", written)
            or re.search(rf"(?<!\w)({at_the_end})$", counted)
        ),
        None,
    )


def why_no_load_unit(unit: str) -> str | None:
    """Returns the same of a unit of CloudWatch."""
    return why_no_load(unit) if unit in NO_LOAD_UNITS else None


class LoadMetricSettings(Settings):
    """The CloudWatch metric that says how much read load the cluster takes."""

    namespace: Annotated[MetricText, Field(max_length=255)] = Field(
        description="CloudWatch namespace.", examples=["Peaker/Demand"]
    )
    name: Annotated[MetricText, Field(max_length=255)] = Field(
        description="Metric name.", examples=["ReadQueriesPerSecond"]
    )
    statistic: Literal["Average", "Sum", "Maximum", "Minimum", "SampleCount"] = Field(
        description="Statistic of a period.", examples=["Average"]
    )
    period_seconds: StrictInt = Field(
        ge=60,
        le=21_600,
        multiple_of=60,
        description="Period of a point; a multiple of 60.",
        examples=[300],
    )
    dimensions: Mapping[
        Annotated[MetricText, Field(max_length=255)], Annotated[MetricText, Field(max_length=1024)]
    ] = Field(
        max_length=30,
        description="Dimensions of the metric, name to value.",
        examples=[{"Cluster": "orders"}],
    )

    @model_validator(mode="after")
    def _grows_with_the_readers(self) -> Self:
        if why := why_no_load(self.name):
            message = (
                "must be a load that grows with the readers, such as queries a second; got "
                f"{self.name}: {why}"
            )
            refuse([Fault(("name",), message)])
        return self


class HoldSettings(Settings):
    """A hold keeps all replicas for a time after a failover or a deploy."""

    minutes: StrictInt = Field(
        default=30,
        ge=0,
        le=1_440,
        description="How long nothing is retired after a failover or a deploy "
        "([which](forecast-and-decision.md#holds)).",
    )


class ForecastSettings(Settings):
    """The forecast settings say which part of the forecast is served, and how often it is made."""

    quantile: Number = Field(
        default=0.95,
        gt=0.5,
        le=0.99,
        description="Quantile of the load forecast that is served: short / (short + spare), the costs of an hour short "
        "and of a spare hour. 38 USD and 2 USD give 0.95.",
    )
    rule: Literal["forecast", "reactive"] = Field(
        default="forecast",
        description="`reactive` scales on the measured load alone, at a target of 1 - `headroom`: for loads of bursts "
        "without a rhythm, where `peaker backtest` says that it is cheaper.",
        examples=["reactive"],
    )
    headroom: Number = Field(
        default=0.0,
        ge=0,
        le=0.5,
        description="Share of `capacity_per_replica` that is left free in every plan, on top of the quantile.",
        examples=[0.1],
    )
    schedule_minutes: StrictInt = Field(
        default=5, ge=1, le=1_440, description="How often the forecast is made."
    )


class CalendarEvent(Settings):
    """A known event, which never lowers the need; its times are kept in UTC."""

    model_config = ConfigDict(serialize_by_alias=True)

    from_: Moment = Field(alias="from", description="When it begins.", examples=["2026-11-27T06:00"])
    until: Moment = Field(description="When it ends, after `from`.", examples=["2026-11-28T02:00"])
    reason: Annotated[Remark, Field(max_length=80)] = Field(
        description="What it is; told with each decision that it changes.", examples=["Black Friday"]
    )
    min_replicas: StrictInt | None = Field(
        default=None,
        ge=1,
        le=MOST_REPLICAS,
        description="Replicas that it takes. One of `min_replicas`, `load` and `factor`; at most `max_replicas`.",
        examples=[5],
    )
    load: Number | None = Field(
        default=None,
        gt=0,
        le=_LARGEST,
        description="Load that it brings, in units of the load metric.",
        examples=[21000],
    )
    factor: Number | None = Field(
        default=None,
        ge=1.0,
        le=100,
        description="Multiplies the forecast, up to the highest load of 62 days outside such events, times it.",
        examples=[1.5],
    )

    @model_validator(mode="after")
    def _is_one_event(self) -> Self:
        refuse(self._faults())
        return self

    def _faults(self) -> Iterator[Fault]:
        if self.until <= self.from_:
            yield Fault(
                ("until",),
                f"must be after from, {self.from_:%Y-%m-%dT%H:%MZ}, got {self.until:%Y-%m-%dT%H:%MZ}",
            )
        given = [name for name in ("min_replicas", "load", "factor") if getattr(self, name) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            yield Fault((), f"must have one of min_replicas, load and factor, got {got}")


EventT = TypeVar("EventT", bound=CalendarEvent)
# An environment file has events of a kind of its own, with the zone of their times.
Calendar = Annotated[tuple[EventT, ...], Field(max_length=12, description="Known events.")]


class LimitSettings(Settings):
    """Ceilings that a run may not pass, and the time that a replica is kept at least."""

    max_hourly_cost_usd: Number | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="The budget: what all peak replicas together may cost, instances and volumes. With it, a plan "
        "whose price is not known is refused; without it, costs are told and nothing is refused for them.",
        examples=[10.0],
    )
    minimum_lifetime_minutes: StrictInt = Field(
        default=60, ge=0, le=10_080, description="A replica is kept so long at least; a week at most."
    )
    prewarm_deadline_minutes: StrictInt = Field(
        default=2_880,
        ge=1,
        le=2_880,
        description="A prewarm that cannot end by then fails. 48 hours at most, as a command on a host may take.",
    )


# -- what an instance costs -----------------------------------------------------------------------------------

# On demand, USD an hour: Karpenter's table of 2026-07-20 (pkg/providers/pricing). It serves no other region.
SHIPPED_REGION = "us-east-1"
HOURS_PER_MONTH = 730.0
_SIZES = {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "8xlarge": 16, "12xlarge": 24, "16xlarge": 32}
_LARGE_HOURLY_USD = {"r6i": 0.1260, "r7g": 0.1071, "r7i": 0.1323, "r8g": 0.11782}
INSTANCE_HOURLY_USD: Mapping[str, float] = {
    f"{family}.{size}": round(large * factor, 5)
    for family, large in _LARGE_HOURLY_USD.items()
    for size, factor in _SIZES.items()
}


def shipped_hourly_usd(region: str, instance_type: str) -> float | None:
    """USD per hour on demand, or None where Peaker's table does not have it."""
    return INSTANCE_HOURLY_USD.get(instance_type) if region == SHIPPED_REGION else None
