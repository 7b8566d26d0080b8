"""Which share of new connections each replica gets, from the read endpoint's weights and health. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peaker.domain.replicas.inventory import TargetHealth, TargetState

_REGISTERED = {TargetState.INITIAL, TargetState.HEALTHY, TargetState.UNHEALTHY}


def shares_of_groups(groups: Sequence[tuple[float, Mapping[str, TargetHealth]]]) -> dict[str, float]:
    """Shares (0 to 1) by instance id behind a load balancer; each weighted group deals evenly to its healthy targets.

    A group without a healthy target deals to all that are registered (AWS: fail-open); the share of an empty group is
    refused, so the shares may sum to less than 1. Every target of a group is in the answer, with 0 when it gets none.
    """
    total = sum(weight for weight, _ in groups)
    shares: dict[str, float] = {}
    for weight, targets in groups:
        getting = receivers(targets)
        for instance_id in targets:
            share = weight / total / len(getting) if total > 0 and instance_id in getting else 0.0
            shares[instance_id] = shares.get(instance_id, 0.0) + share
    return shares


def shares_of_records(weights: Mapping[str, float], targets: Mapping[str, TargetHealth]) -> dict[str, float]:
    """Shares (0 to 1) by instance id of the answers to a DNS name; without a healthy record all are answered."""
    dealt = {name: weight for name, weight in weights.items() if weight > 0}
    getting = receivers({name: targets[name] for name in dealt if name in targets})
    total = sum(weight for name, weight in dealt.items() if name in getting)
    return {name: weights[name] / total if name in getting else 0.0 for name in weights}


def receivers(targets: Mapping[str, TargetHealth]) -> set[str]:
    """The healthy targets; all that are registered when none is healthy."""
    healthy = {name for name, target in targets.items() if target.state is TargetState.HEALTHY}
    return healthy or {name for name, target in targets.items() if target.state in _REGISTERED}
