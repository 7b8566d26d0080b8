"""SelectIdleReplica: the peak replica to retire, never a base one."""

from __future__ import annotations

from peaker.domain.errors import NoIdleReplica
from peaker.domain.fleet import Replica
from peaker.domain.retirement import choose_idle_replica, guard_removal
from peaker.domain.run import SelectStep, Summary
from peaker.ports import Ports
from peaker.usecases.guard_retirement import load_reasons
from peaker.usecases.held_lease import holder_of
from peaker.usecases.observe_fleet import observe_fleet


class Selected(Summary):
    """The replica, or None in plan mode, with what was thought of each one and what the guard would say."""

    replica: str | None
    candidates: dict[str, str]
    objections: tuple[str, ...] = ()


def select_idle_replica(ports: Ports, step: SelectStep) -> Selected:
    """Raises NoIdleReplica with a reason per replica; without a fencing token it writes and raises nothing."""
    settings = ports.clusters.settings(step.cluster)
    observation = observe_fleet(ports, settings)
    choice = choose_idle_replica(observation, step.replica)
    candidates = {verdict.instance_id: verdict.reason for verdict in choice.verdicts}
    if step.fencing_token is None:
        reasons = (
            ()
            if choice.replica is None
            else (
                *guard_removal(choice.replica, observation, settings, ports.environment),
                *load_reasons(ports, settings, observation),
            )
        )
        chosen = None if choice.replica is None else choice.replica.instance_id
        return Selected(
            text=f"would retire {chosen}", replica=chosen, candidates=candidates, objections=reasons
        )
    if choice.replica is None:
        raise NoIdleReplica(f"{step.cluster}: {choice.text}")
    ports.ledger.save_facts(holder_of(step), {"replica": _facts(choice.replica)})
    return Selected(
        text=f"{choice.replica.instance_id} is to be retired",
        replica=choice.replica.instance_id,
        candidates=candidates,
        numbers={"replica": choice.replica.instance_id, "candidates": candidates},
    )


def _facts(replica: Replica) -> dict[str, str]:
    assert replica.ledger_row is not None  # choose_idle_replica takes only replicas that the ledger knows
    return {
        "instance_id": replica.instance_id,
        "run_id": replica.ledger_row.run_id,
        "launched_at": replica.instance.launched_at.isoformat(),
    }
