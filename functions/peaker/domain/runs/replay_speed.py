"""The speed at which a replica replays the binary log, by the steps of its run: seconds of log per second. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peaker.domain.instants import seconds_between
from peaker.domain.runs.ledger import StepRow

# A replica whose lag is less than this share of what it was behind by had caught up before anybody waited for it.
_CAUGHT_UP_SHARE = 0.1
# Less is caught up with between two questions of the workflow: it says nothing of the speed.
_LEAST_LAG_SECONDS = 120.0


def apply_speed(steps: Mapping[str, StepRow]) -> float | None:
    """Seconds of binary log that the replica replayed per second, by the steps of its build.

    It is behind by what passed since its snapshots: those of the batch, where they are among the steps. Without them
    it is behind by what passed since its volumes were made, so that the speed is rather too low than too high. None
    where it had caught up before it was waited for: how soon, nobody saw.
    """
    taken, made, began, waited = (
        steps.get(name) for name in ("CreateSnapshots", "CreateVolumes", "StartReplication", "WaitForCatchUp")
    )
    made = taken or made
    if made is None or began is None or waited is None:
        return None
    if began.finished_at is None or waited.finished_at is None:
        return None
    behind = seconds_between(made.started_at, began.finished_at)
    first = _first_lag(waited.numbers.get("samples"))
    if first is None or first < _CAUGHT_UP_SHARE * behind:
        return None
    return 1 + behind / max(1.0, seconds_between(began.finished_at, waited.finished_at))


def return_speed(waited: StepRow | None) -> float | None:
    """Seconds of binary log that a returned replica replayed per second, from its lag at the first wait and the wait.

    None where it had caught up by then.
    """
    if waited is None or waited.finished_at is None:
        return None
    first, took = (
        _first_lag(waited.numbers.get("samples")),
        seconds_between(waited.started_at, waited.finished_at),
    )
    if first is None or first < _LEAST_LAG_SECONDS:
        return None
    return 1 + first / max(1.0, took)


def _first_lag(samples: Any) -> float | None:
    """Seconds by the first sample; a sample is a number or has `lag_seconds`."""
    first = samples[0] if isinstance(samples, list) and samples else None
    lag = first.get("lag_seconds") if isinstance(first, Mapping) else first
    return float(lag) if isinstance(lag, int | float) and not isinstance(lag, bool) else None
