"""What the proposed capacity would have changed: the same replay with it, both judged by what a replica serves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from peaker_backtest.capacity.observations import Observations
from peaker_backtest.capacity.proposal import CapacityProposal
from peaker_backtest.replay.simulation import Figures, Outcome, Scenario, outcome_of


@dataclass(frozen=True)
class CapacityEffect:
    """Peaker with the capacity of now and with the proposed one, over the compared steps.

    Shortage is counted by the proposed capacity in both: a replica serves what it serves, whatever is set.
    """

    now: Figures
    proposed: Figures


@dataclass(frozen=True)
class CapacityFinding:
    """The proposal, what was seen (None where load, measure and replicas were never seen together), and its effect."""

    proposal: CapacityProposal
    seen: Observations | None
    effect: CapacityEffect | None = None


def with_proposed(scenario: Scenario, proposal: CapacityProposal | None) -> Scenario | None:
    """The scenario with the proposed capacity; None where there is nothing to compare."""
    if proposal is None or proposal.now is None or proposal.proposed is None:
        return None
    return replace(scenario, capacity_per_replica=proposal.proposed)


def effect_of(proposed: Scenario, now: Outcome, then: Outcome) -> CapacityEffect:
    """Two courses of replicas, judged by the scenario with the proposed capacity."""
    judged = [
        outcome_of(one.name, proposed, one.serving, one.paid, one.events).compared for one in (now, then)
    ]
    return CapacityEffect(*judged)
