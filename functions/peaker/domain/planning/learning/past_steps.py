"""What past runs of a cluster took, and what of it teaches a part of the lead time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from peaker.domain.planning.learning.catching_up import usable_speeds
from peaker.domain.planning.learning.drawing import MOST_RUNS
from peaker.domain.planning.learning.elsewhere import Elsewhere
from peaker.domain.storage.snapshot_sets import CopiedBytes
from peaker_contract.steps import Method, Part
from peaker_contract.way_into_service import states_of

# What a build and a return do alike: one teaches the other.
SAME_WORK = (Part.BUFFER_POOL, Part.REGISTRATION, Part.RAMP)


@dataclass(frozen=True)
class PastSteps:
    """Durations of past runs in seconds per state name, newest last; the bytes that each prewarm brought in; of every
    storage proof that reached a volume's knee, the IOPS delivered there over those promised; what each snapshot set
    copied, as far as it was measured; the bytes in each donor's buffer pool; the share of each prewarm after which a
    database could start; how many seconds of log a replica replayed per second, where that was seen; and the waits of
    those that had caught up before anybody looked. `returned` and `return_speeds` are of returns, all else of builds.
    `hydrated_rates`: MiB/s paid for each prewarm's volumes, 0 of none, None where they differ. `first_looks`: seconds
    until the first look of each storage proof had ended.
    `elsewhere`: what other clusters' runs took. `sizes` and `returned_sizes`: for each duration of `seconds` and
    `returned`, how many members its batch had.
    """

    seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    hydrated_bytes: Sequence[float] = ()
    knee_shares: Sequence[float] = ()
    copies: Sequence[CopiedBytes] = ()
    pool_bytes: Sequence[float] = ()
    hot_shares: Sequence[float] = ()
    apply_speeds: Sequence[float] = ()
    caught_up_waits: Sequence[float] = ()
    returned: Mapping[str, Sequence[float]] = field(default_factory=dict)
    return_speeds: Sequence[float] = ()
    hydrated_rates: Sequence[float | None] = ()
    first_looks: Sequence[float] = ()
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    returned_sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)


def measured_apply_speed(past: PastSteps, otherwise: float) -> float:
    """Seconds of binary log that a replica replays per second, as past builds show; 1.1 to 100."""
    speeds = usable_speeds(past.apply_speeds)
    told = past.elsewhere.figure("apply_speed")
    return median(speeds) if speeds else otherwise if told is None else max(1.1, told.value)


def measured_return_speed(past: PastSteps, otherwise: float) -> float:
    """The same of returns: nothing is read beside their appliers. As builds show it where no return did."""
    return measured_apply_speed(
        replace(past, apply_speeds=past.return_speeds or past.apply_speeds), otherwise
    )


def part_seconds(part: Part, past: PastSteps) -> list[float]:
    """Seconds of a part per past build, the newest last; of returns too, where their work is the same."""
    return _part_runs(part, past)[0]


def part_sizes(part: Part, past: PastSteps) -> list[int | None]:
    """For each of them the members of its batch."""
    return _part_runs(part, past)[1]


def _part_runs(part: Part, past: PastSteps) -> tuple[list[float], list[int | None]]:
    took, sizes = by_run(states_of(part), past.seconds, past.sizes)
    if part not in SAME_WORK:
        return took, sizes
    back, back_sizes = by_run(states_of(part, method=Method.RETURN), past.returned, past.returned_sizes)
    return [*took, *back], [*sizes, *back_sizes]


def by_run(
    states: Sequence[str], seconds: Mapping[str, Sequence[float]], sizes: Mapping[str, Sequence[int]]
) -> tuple[list[float], list[int | None]]:
    """The sum over the states that were recorded and the members of the batch, the newest run last."""
    columns = [list(seconds.get(state, ()))[-MOST_RUNS:] for state in states]
    columns = [column for column in columns if column]
    runs = min((len(column) for column in columns), default=0)
    told = max((list(sizes.get(state, ())) for state in states), key=len, default=[])
    last = told[max(0, len(told) - runs) :] if runs else []
    known = [*[None] * (runs - len(last)), *last]
    return [sum(column[len(column) - runs + i] for column in columns) for i in range(runs)], known
