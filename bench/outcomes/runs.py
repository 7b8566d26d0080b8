"""Five scale_outs of each cluster in sequence: what is asked for, and what the receipts say of plan and outcome."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from peaker.domain.planning.learning.elsewhere import ClusterFigures
from peaker.domain.report.plan_outcome import PlanOutcome

from bench.outcomes.truth import Kind, Truth, drawn
from bench.outcomes.world import LawfulWorld

# A replica serves for so many hours.
_SERVES_HOURS = (1.0, 4.0)
_WORLDS_APART = 1_000_003
_LONGEST_RUN_SECONDS = 4 * 86_400.0


@dataclass(frozen=True)
class Asked:
    """What one run is to do. `in_time_factor`: its deadline over what the run before it took; None without."""

    count: int = 1
    in_time_factor: float | None = None


# What each kind is asked for. Parked replicas come back by themselves; a batch of two is met in every cluster.
SEQUENCES: Mapping[str, tuple[Asked, ...]] = {
    "shop": (Asked(), Asked(), Asked(2), Asked(), Asked(2)),
    "bank": (Asked(), Asked(in_time_factor=1.5), Asked(2), Asked(in_time_factor=0.8), Asked()),
    "search": (Asked(), Asked(), Asked(2), Asked(2), Asked(3)),
    "archive": (Asked(), Asked(), Asked(2), Asked(), Asked()),
}


@dataclass(frozen=True)
class Outcome:
    """One replica of one run, by its receipt. `turn` is 1 for the first run of its cluster."""

    cluster: str
    turn: int
    member: int
    method: str
    outcome: PlanOutcome


@dataclass
class Runs:
    """The runs of one cluster. `failed` has those that put nobody into service, with the reason."""

    truth: Truth
    outcomes: list[Outcome] = field(default_factory=list)
    runs: int = 0
    failed: list[str] = field(default_factory=list)
    told: ClusterFigures | None = None


def account(kinds: Sequence[Kind], seed: int, world: int = 0) -> list[Runs]:
    """The runs of an account's clusters one cluster after the other, each told of those before it.

    In another `world` the same clusters are asked for the same; what a volume or a call takes is drawn anew.
    """
    told: dict[str, ClusterFigures] = {}
    found = []
    for kind in kinds:
        one = sequence(kind, seed, told, world)
        found.append(one)
        if one.told is not None:
            told[kind.name] = one.told
    return found


def sequence(
    kind: Kind, seed: int, told: Mapping[str, ClusterFigures] | None = None, other_world: int = 0
) -> Runs:
    """One cluster's runs, from a cold start on; the same for the same seed. `told`: by the account's other clusters."""
    dice = random.Random(f"{kind.name} {seed}")
    found = Runs(drawn(kind, dice))
    world = LawfulWorld(seed + _WORLDS_APART * other_world, found.truth)
    world.knows(told or {})
    try:
        last = 3600.0
        if kind.backed_up_hours is not None:
            world.was_backed_up()
            world.run_for(3600 * dice.uniform(*kind.backed_up_hours))
        for turn, asked in enumerate(SEQUENCES[kind.name], 1):
            world.run_for(3600 * dice.uniform(*kind.gap_hours))
            last = _run(world, kind.name, turn, asked, found, last)
            world.run_for(3600 * dice.uniform(*_SERVES_HOURS))
            _all_go(world, kind.name, asked.count)
        found.told = world.told()
    finally:
        world.close()
    return found


def _run(world: LawfulWorld, cluster: str, turn: int, asked: Asked, found: Runs, last: float) -> float:
    """The seconds that its slowest member took, or `last`."""
    world.load(250, 1 + asked.count, cluster=cluster)
    request: dict[str, Any] = {"count": asked.count}
    if asked.in_time_factor is not None:
        ready_by = world.time.now() + timedelta(seconds=asked.in_time_factor * last)
        request["ready_by"] = ready_by.strftime("%Y-%m-%dT%H:%M:%SZ")
    began = world.time.now()
    execution = world.start("scale_out", cluster, **request)
    world.finish(execution, _LONGEST_RUN_SECONDS)
    found.runs += 1
    if execution.status != "SUCCEEDED":
        found.failed.append(f"{cluster} {turn}: {execution.status} {execution.error} {execution.cause}"[:300])
    told = [one for one in _members(world, cluster, began) if one.get("outcome")]
    for one in told:
        outcome = PlanOutcome.model_validate(one["outcome"])
        found.outcomes.append(Outcome(cluster, turn, one["number"], one["method"], outcome))
    return max((one["outcome"]["took_seconds"] for one in told), default=last)


def _members(world: LawfulWorld, cluster: str, since: datetime) -> list[dict[str, Any]]:
    """Of the receipt of the scale_out that began then; none where it has none."""
    ids = [one["run_id"] for key, one in world.account.table[f"cluster#{cluster}"].items() if "run#" in key]
    receipts = [found for one in ids if (found := world.ports.ledger.receipt(one)) is not None]
    return [
        member
        for one in receipts
        if one["operation"] == "scale_out" and datetime.fromisoformat(one["started_at"]) >= since
        for member in one["members"]
    ]


def _all_go(world: LawfulWorld, cluster: str, count: int) -> None:
    """They are taken away, or parked, as the cluster's settings say."""
    world.load(20, 1, count, cluster=cluster)
    world.run_for(2 * 3600)
    world.run("scale_in", cluster, count=count)
