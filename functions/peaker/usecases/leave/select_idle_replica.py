"""SelectIdleReplica: the peak replica to take away, never a base one, never another's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from peaker.domain.planning.parking import Disposal, volumes_hourly
from peaker.domain.planning.prices import PriceTable, total, usd
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.domain.replicas.inventory import Instance
from peaker.domain.runs.run import SelectStep, Summary
from peaker.domain.runs.run_memory import RunReplica
from peaker.domain.service.retirement import RetirementChoice, choose_idle_replica
from peaker.ports import Ports
from peaker.usecases.leave.choose_disposal import disposal_of
from peaker.usecases.leave.guard_retirement import load_evidence, removal_reasons
from peaker.usecases.plan.cluster_prices import cluster_prices
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.run.held_lease import holder_of
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import NoIdleReplica, ResourceNotFound
from peaker_contract.tags import CLUSTER_TAG


class Selected(Summary):
    """The replica, or None in plan mode, with what was thought of each one and what the guard would say.

    `parked`: it stands already. `out_of_service`: it does, or was left behind in the making, and goes straight to
    retirement. `disposal` compares parking with retiring.
    """

    replica: str | None
    parked: bool = False
    out_of_service: bool = False
    candidates: dict[str, str]
    figures: dict[str, dict[str, Any]] = Field(default_factory=dict)
    objections: tuple[str, ...] = ()
    disposal: Disposal | None = None


def select_idle_replica(ports: Ports, step: SelectStep) -> Selected:
    """Raises NoIdleReplica with a reason per replica; without a fencing token it writes and raises nothing."""
    settings = ports.clusters.settings(step.cluster)
    fleet = gather_fleet(ports, settings, with_volumes=True)
    load = load_evidence(ports, settings).measured
    prices = cluster_prices(ports, settings)
    choice = choose_idle_replica(fleet, step.replica, _hourly(fleet, prices), load)
    if step.fencing_token is None:
        return _planned(ports, step, settings, fleet, choice)
    chosen = _first_choice(ports, step, fleet, choice.replica)
    if chosen is None:
        raise NoIdleReplica(_refusal(ports, step, fleet, choice))
    candidates = {verdict.instance_id: verdict.reason for verdict in choice.verdicts}
    return Selected(
        text=f"{chosen.instance_id} is to go: {candidates.get(chosen.instance_id, 'chosen before')}",
        replica=chosen.instance_id,
        parked=chosen.is_parked,
        out_of_service=_is_out(chosen),
        candidates=candidates,
        figures=_figures(choice),
        numbers={"replica": chosen.instance_id, "candidates": candidates},
    )


def _first_choice(ports: Ports, step: SelectStep, fleet: FleetState, found: Replica | None) -> Replica | None:
    """A run takes one replica: a call that is repeated, or lands late, keeps to the choice that stands (I3)."""
    settled = ports.ledger.run(step.run_id).part(RunReplica)
    if settled is None and found is not None:
        settled = ports.ledger.settle_first(holder_of(step), _chosen(found, fleet.source))
    return None if settled is None else fleet.replica(settled.instance_id)


def _planned(
    ports: Ports,
    step: SelectStep,
    settings: ClusterSettings,
    fleet: FleetState,
    choice: RetirementChoice,
) -> Selected:
    candidates = {verdict.instance_id: verdict.reason for verdict in choice.verdicts}
    if choice.replica is None:
        text = f"would take none away: {_refusal(ports, step, fleet, choice)}"
        return Selected(text=text, replica=None, candidates=candidates, figures=_figures(choice))
    chosen = choice.replica
    disposal = None if _is_out(chosen) else disposal_of(ports, settings, fleet, chosen)
    verb = "retire" if disposal is None else disposal.action
    return Selected(
        text=f"would {verb} {chosen.instance_id}",
        replica=chosen.instance_id,
        parked=chosen.is_parked,
        out_of_service=_is_out(chosen),
        candidates=candidates,
        figures=_figures(choice),
        objections=tuple(removal_reasons(ports, settings, fleet, chosen.instance_id)),
        disposal=disposal,
    )


def _is_out(replica: Replica) -> bool:
    return replica.is_parked or replica.is_building


def _figures(choice: RetirementChoice) -> dict[str, dict[str, Any]]:
    return {verdict.instance_id: dict(verdict.numbers) for verdict in choice.verdicts}


def _hourly(fleet: FleetState, prices: PriceTable) -> Mapping[str, float | None]:
    """USD per hour of each replica as it runs, None where a price is not known."""
    return {
        one.instance_id: usd(
            total((prices.instance_hour(one.instance.instance_type), volumes_hourly(one.volumes, prices))), 6
        )
        for one in fleet.replicas
    }


def _refusal(ports: Ports, step: SelectStep, fleet: FleetState, choice: RetirementChoice) -> str:
    """Why none goes; one that was asked for by name is refused by that name, and it is said whose it is."""
    if step.replica is None:
        return f"{step.cluster}: {choice.text}"
    text = f"replica: given {step.replica}: {choice.verdicts[0].reason}"
    if fleet.replica(step.replica) is not None:
        return text
    try:
        tags = ports.compute.instance(step.replica).tags
    except ResourceNotFound:
        return f"{text}; EC2 knows no such instance"
    owner = tags.get(CLUSTER_TAG)
    return text if owner == step.cluster else f"{text}; its tag {CLUSTER_TAG} is {owner!r}"


def _chosen(replica: Replica, source: Instance | Unknown) -> RunReplica:
    assert replica.ledger_row is not None  # choose_idle_replica takes only replicas that the ledger knows
    return RunReplica(
        instance_id=replica.instance_id,
        builder=replica.ledger_row.run_id,
        running_since=replica.instance.launched_at,
        follows=None if isinstance(source, Unknown) else source.instance_id,
    )
