"""How the service answered and how many replicas served, from the kinds of file that a load comes in."""

from __future__ import annotations

import math
from dataclasses import replace

from peaker_backtest.capacity.observations import Limit
from peaker_backtest.errors import BadInput
from peaker_backtest.load_input import Choices, PastLoad, parse_load
from peaker_backtest.points import Column

MOST_REPLICAS = 10_000
MEASURE = Column("measure", "--measure-column", "--measure-column")
SERVING = Column("number of replicas", "--serving-column", "--serving-column")
_JSON_BEGINS = (b"{", b"[")


def limit_of(latency_ms: float | None, cpu_percent: float | None) -> Limit | None:
    """The limit that was asked for; None where none was. Raises BadInput naming the option."""
    if latency_ms is not None and cpu_percent is not None:
        raise BadInput(
            "--latency-limit-ms and --cpu-limit-percent: give one of them", field="--cpu-limit-percent"
        )
    if latency_ms is not None:
        if not 0 < latency_ms < math.inf:
            raise BadInput(
                f"--latency-limit-ms is {latency_ms}; give a value above 0", field="--latency-limit-ms"
            )
        return Limit(latency_ms, "ms", "latency", "--latency-limit-ms")
    if cpu_percent is None:
        return None
    if not 0 < cpu_percent < 100:
        raise BadInput(
            f"--cpu-limit-percent is {cpu_percent}; give a value above 0, below 100",
            field="--cpu-limit-percent",
        )
    return Limit(cpu_percent, "%", "CPU", "--cpu-limit-percent")


def parse_measure(source: str, content: bytes, choices: Choices, name: str | None) -> PastLoad:
    """The measure in a file: latencies in ms, or CPU in percent. `name`: its column or series. Raises BadInput."""
    return parse_beside_load(source, content, replace(choices, column=MEASURE), name)


def parse_serving(source: str, content: bytes, choices: Choices, name: str | None) -> PastLoad:
    """The number of replicas that served, step by step. Raises BadInput."""
    found = parse_beside_load(source, content, replace(choices, column=SERVING), name)
    if max(found.values) > MOST_REPLICAS:
        raise BadInput(
            f"{source}: {max(found.values):g} replicas; up to {MOST_REPLICAS:,} are expected: check --serving-column",
            field="--serving-column",
        )
    return found


def check_measure(measure: PastLoad, limit: Limit) -> None:
    """Raises BadInput for a CPU of over 100 %, which is a sum over processors."""
    highest = max(measure.values)
    if limit.unit == "%" and highest > 100:
        raise BadInput(
            f"the measure is {highest:g} % at its highest: a sum over processors? Divide it by their number",
            field="--measure",
        )


def parse_beside_load(source: str, content: bytes, choices: Choices, name: str | None) -> PastLoad:
    """A series beside the load's. `name` is a table's column or a JSON export's series. Raises BadInput."""
    is_json = content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in _JSON_BEGINS
    asked = replace(choices, load_column=name, series=name if is_json else None)
    try:
        return parse_load(source, content, asked)
    except BadInput as refused:
        # The time column that was named is that of the load's file; another file may have its own name for it.
        if refused.field != "--time-column" or choices.time_column is None:
            raise
        return parse_load(source, content, replace(asked, time_column=None))
