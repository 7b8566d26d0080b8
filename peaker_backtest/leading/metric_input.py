"""The past of a leading metric, from the kinds of file that a load comes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from peaker.domain.forecasting import LoadSeries
from peaker.domain.leading import LeadingMetric, on_load_steps

from peaker_backtest.capacity.measure_input import parse_beside_load
from peaker_backtest.errors import BadInput, shown
from peaker_backtest.load_input import Choices, PastLoad
from peaker_backtest.points import Column

MOST_METRICS = 3
LONGEST_PERIOD_SECONDS = 3600.0
_LEADING = Column("leading metric", "--leading", "--leading")


@dataclass(frozen=True)
class PastMetric:
    """A metric by its name: epoch seconds, values, the distance of points in seconds; how it was read, in words."""

    name: str
    times_seconds: Sequence[float]
    values: Sequence[float]
    period_seconds: float
    read: tuple[str, ...] = ()

    def beside(self, load: LoadSeries) -> LeadingMetric:
        """On the steps of the load."""
        values = on_load_steps(self.times_seconds, self.values, self.period_seconds, load)
        return LeadingMetric(self.name, values)


def parse_metric(name: str, source: str, content: bytes, choices: Choices) -> PastMetric:
    """The metric in a file with a time and one value. Raises BadInput."""
    found: PastLoad = parse_beside_load(source, content, replace(choices, column=_LEADING), None)
    if found.period_seconds > LONGEST_PERIOD_SECONDS:
        raise BadInput(
            f"{source}: a point every {found.period_seconds / 60:g} min; a leading metric has one every hour at least",
            field="--leading",
        )
    read = tuple(f"leading metric {shown(name)}: {line}" for line in found.read)
    return PastMetric(shown(name), found.times_seconds, found.values, found.period_seconds, read)


def check_number(count: int) -> None:
    """Raises BadInput for more metrics than a cluster may have."""
    if count > MOST_METRICS:
        raise BadInput(f"--leading is given {count} times; up to {MOST_METRICS} are used", field="--leading")
