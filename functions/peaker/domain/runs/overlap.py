"""Overlap is the time in which parts of an ended build passed side by side. Pure.

The database starts when the hot and recovery blocks are warm. The replica catches up beside the rest of the reading and
the storage proof; what it then still lacks is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from peaker.domain.host_results import PrewarmReport
from peaker.domain.instants import seconds_between
from peaker.domain.runs.ledger import StepRow

# A replica whose lag is less than this share of what it was behind by had caught up before anybody waited for it.
_CAUGHT_UP_SHARE = 0.1
# Less is caught up with between two questions of the workflow: it says nothing of the speed.
_LEAST_LAG_SECONDS = 120.0


def hot_share(report: Mapping[str, Any]) -> float | None:
    """The share of the reading after which a database could start, by the numbers of the last ReportPrewarm.

    1 where nothing was known to be hot, and where the cluster serves on its hot set; None where the host did not say.
    """
    try:
        seen = PrewarmReport.model_validate(report)
    except ValidationError:
        return None
    whole = seen.used_warm_seconds
    if whole is None and seen.state == "done":
        whole = seen.elapsed_seconds
    if whole is None or seen.hot_warm_seconds is None:
        return 1.0 if seen.state in ("running", "done") else None
    return min(1.0, seen.hot_warm_seconds / whole) if whole > 0 else 1.0


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
