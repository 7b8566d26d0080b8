"""The figures of `bench.plan`, part `runs`: of all runs, and of those from which Peaker had learned. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bench.outcomes import oracle
from bench.outcomes.errors import Compared, of_parts, of_wholes, small, unplanned
from bench.outcomes.runs import Outcome, Runs

MEDIAN_AT_MOST, P90_AT_MOST, COVERED_AT_LEAST = 0.15, 0.35, 0.9


def of_runs(found: Sequence[Runs]) -> dict[str, dict[str, object]]:
    """`{figure: {value, must, holds}}`. A first run of a cluster is planned from the usual figures alone."""
    every = [outcome for one in found for outcome in one.outcomes]
    count = sum(one.runs for one in found)
    groups = {
        f"all {count} runs": every,
        "from a cluster's second run on": [one for one in every if one.turn > 1],
    }
    few, largest = small(every)
    failed = sum(len(one.failed) for one in found)
    missing = unplanned(every)
    told: dict[str, dict[str, object]] = {}
    for group, outcomes in groups.items():
        told |= _errors(f"per step, {group}", of_parts(outcomes))
    for group, outcomes in groups.items():
        told |= _errors(f"whole lead time, {group}", of_wholes(outcomes))
    told |= {
        "replicas of the runs, built and returned": _told(_methods(every)),
        "steps too small for a share (under 10 s and 1 % of the replica's lead time), largest error": _told(
            f"{few}, {largest:.0f} s"
        ),
        "steps without a prediction": {"value": missing, "must": "0", "holds": missing == 0},
        "runs that failed": {"value": failed, "must": "0", "holds": failed == 0},
    }
    return told


def of_oracle(found: Sequence[Runs], elsewhere: Sequence[Runs]) -> dict[str, dict[str, object]]:
    """What a planner that knows the laws would miss by in these runs; `elsewhere` are the same runs in other worlds."""
    every = [outcome for one in found for outcome in one.outcomes]
    others = [outcome for one in elsewhere for outcome in one.outcomes]
    told: dict[str, dict[str, object]] = {}
    steps, wholes = oracle.of_parts(every, others), oracle.of_wholes(every, others)
    for what, one in (("per step", steps), ("whole lead time", wholes)):
        told[f"who knows the laws, {what} ({one.count}): median error"] = _told(f"{one.median:.1%}")
        told[f"who knows the laws, {what} ({one.count}): p90 of the error"] = _told(f"{one.p90:.1%}")
    return told


def _errors(what: str, found: Compared) -> dict[str, dict[str, object]]:
    return {
        f"{what} ({found.count}): median error": _at_most(found.median, MEDIAN_AT_MOST),
        f"{what} ({found.count}): p90 of the error": _at_most(found.p90, P90_AT_MOST),
        f"{what} ({found.promised}): within the plan's p90": {
            "value": f"{found.covered:.1%}",
            "must": f">= {COVERED_AT_LEAST:.0%}",
            "holds": found.covered >= COVERED_AT_LEAST,
        },
    }


def _at_most(value: float, must: float) -> dict[str, object]:
    return {"value": f"{value:.1%}", "must": f"<= {must:.0%}", "holds": value <= must}


def _told(value: str) -> dict[str, object]:
    return {"value": value, "must": "is told", "holds": True}


def _methods(outcomes: Sequence[Outcome]) -> str:
    counts = {name: sum(one.method == name for one in outcomes) for name in ("build", "return", "refill")}
    return ", ".join(f"{count} {name}" for name, count in counts.items())
