"""SelectIdleReplicas: how many peak replicas may go, and which; never a base one, never another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from peaker.domain.document.disposal import Disposal
from peaker.domain.prices.price_table import PriceTable, total, usd, volumes_hourly
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.domain.replicas.inventory import Instance
from peaker.domain.runs.batch import Batch, Member, member_run_id
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.ledger import Removal, RunReplica, RunRow
from peaker.domain.runs.run import SelectStep, Summary
from peaker.domain.service.retirement import LoadEvidence, RetirementChoice, guard_lifetime
from peaker.domain.service.surplus import (
    RemovableReplicas,
    RemovalRequest,
    choose_idle_replicas,
    removable_replicas,
)
from peaker.ports.bundle import Ports
from peaker.usecases.leave.guard_retirement import load_evidence, removal_reasons
from peaker.usecases.plan.disposal import disposal_of
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.plan.refresh_prices import cluster_prices
from peaker.usecases.run.batch_members import handed_to_member
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import NoIdleReplica, ResourceNotFound
from peaker_contract.metrics import Metric
from peaker_contract.names import CLUSTER_TAG


class PlannedRemoval(Summary):
    """One replica that would go in plan mode: what the guard says against it, and parking compared with retiring.

    `disposal` is None for one that stands already, or was left behind in the making: it would be retired.
    """

    replica: str
    objections: tuple[str, ...] = ()
    disposal: Disposal | None = None


class Selected(Summary):
    """Who is to go, and what was thought of each replica. `to_spare` in service may go, `why` says why not more.

    In act mode `members` are what RemoveReplicas is given; in plan mode `planned` says how each would go.
    """

    replicas: tuple[str, ...] = ()
    to_spare: int
    why: str
    members: tuple[dict[str, Any], ...] = ()
    planned: tuple[PlannedRemoval, ...] = ()
    candidates: dict[str, str]
    figures: dict[str, dict[str, Any]] = Field(default_factory=dict)


def select_idle_replicas(ports: Ports, step: SelectStep) -> Selected:
    """Raises NoIdleReplica with a reason per replica; without a fencing token it writes and raises nothing."""
    settings = ports.clusters.settings(step.cluster)
    fleet = gather_fleet(ports, settings, with_volumes=True)
    load = load_evidence(ports, settings)
    hourly = _hourly(fleet, cluster_prices(ports, settings))
    spare, idle = idle_replicas(ports, settings, fleet, load, step.trigger, step.count, step.replica, hourly)
    candidates = {verdict.instance_id: verdict.reason for verdict in idle.verdicts}
    said = {
        "to_spare": spare.count,
        "why": spare.reason,
        "candidates": candidates,
        "figures": {one.instance_id: dict(one.numbers) for one in idle.verdicts},
    }
    if step.fencing_token is None:
        return Selected(**_planned(ports, step, settings, fleet, idle), **said)
    # The guard does not know the forecast's reasons to hold: without a surplus an automatic start takes nobody.
    is_held = step.trigger.kind != "manual" and spare.count == 0
    removal = _first_choice(
        ports, step, fleet, [one for one in idle.replicas if one.is_parked or not is_held]
    )
    if removal is None:
        raise NoIdleReplica(
            f"{step.cluster}: {spare.reason}" if is_held else _refusal(ports, step, fleet, idle)
        )
    members = _opened(ports, step, removal, fleet)
    ids = tuple(one.instance_id for one in removal.replicas)
    text = f"{', '.join(ids)} {'is' if len(ids) == 1 else 'are'} to go: {spare.reason}"
    numbers = {**spare.numbers, "replicas": list(ids), "why": spare.reason, "candidates": candidates}
    return Selected(text=text, replicas=ids, members=members, numbers=numbers, **said)


def idle_replicas(
    ports: Ports,
    settings: ClusterSettings,
    fleet: FleetState,
    load: LoadEvidence,
    trigger: Trigger,
    count: int = 1,
    wanted: str | None = None,
    hourly_usd: Mapping[str, float | None] | None = None,
) -> tuple[RemovableReplicas, RetirementChoice]:
    """How many may go, and which; an automatic start leaves those alone whose minimum lifetime is not over.

    Where none would go one is put to the guard all the same, which says everything that forbids it.
    """
    spare = removable_replicas(fleet, settings, load, _removal_request(ports, settings, trigger, count))
    young: dict[str, str] = {}
    if trigger.kind != "manual":
        now, ours = ports.clock.now(), [one for one in fleet.staying if not one.is_base]
        reasons = {one.instance_id: guard_lifetime(one, settings, now) for one in ours}
        young = {one: "; ".join(why) for one, why in reasons.items() if why}
    idle = choose_idle_replicas(fleet, spare.count, wanted, hourly_usd, load.measured, young)
    if not idle.replicas:
        idle = choose_idle_replicas(fleet, 1, wanted, hourly_usd, load.measured)
    return spare, idle


def _removal_request(ports: Ports, settings: ClusterSettings, trigger: Trigger, count: int) -> RemovalRequest:
    if trigger.kind == "manual":
        return RemovalRequest(count=count)
    surplus = ports.readings.published(settings, Metric.REPLICA_SURPLUS, ports.clock.now())
    return RemovalRequest(surplus=surplus, saw_surplus=trigger.kind == "alarm")


def _first_choice(
    ports: Ports, step: SelectStep, fleet: FleetState, idle: Sequence[Replica]
) -> Removal | None:
    """A run chooses once: a call that is repeated, or lands late, keeps to the choice that stands (I3)."""
    settled = ports.ledger.run(step.run_id).part(Removal)
    if settled is None and idle:
        chosen = tuple(_chosen(one, fleet.source) for one in idle)
        settled = ports.ledger.settle_first(step.holder, Removal(replicas=chosen))
    return settled


def _opened(
    ports: Ports, step: SelectStep, removal: Removal, fleet: FleetState
) -> tuple[dict[str, Any], ...]:
    """Each member's rows, then the batch: a call that dies in between opens the same rows again, and changes none."""
    run, given = ports.ledger.run(step.run_id), []
    for number, chosen in enumerate(removal.replicas, 1):
        run_id = member_run_id(step.run_id, number)
        member = Member(batch=step.run_id, number=number)
        holder = replace(step.holder, run_id=run_id, batch=step.run_id)
        if number == 1:
            ports.ledger.settle_first(holder, chosen)
            ports.ledger.settle_first(holder, member)
        else:
            parts = {part.ledger_name: part.model_dump_json() for part in (member, chosen)}
            row = RunRow(run_id, run.cluster, run.operation, ports.clock.now(), run.request, parts=parts)
            ports.ledger.open_run(holder, row)
        replica = fleet.replica(chosen.instance_id)
        out_of_service = replica is not None and _is_out(replica)
        given.append({**handed_to_member(ports, step, run_id), "out_of_service": out_of_service})
    ids = tuple(str(one["run_id"]) for one in given)
    batch = Batch(wanted=len(ids), deadline=ports.clock.now(), rounds=(ids,))
    ports.ledger.settle(step.holder, batch)
    return tuple(given)


def _planned(
    ports: Ports, step: SelectStep, settings: ClusterSettings, fleet: FleetState, idle: RetirementChoice
) -> dict[str, Any]:
    if not idle.replicas:
        return {"text": f"would take none away: {_refusal(ports, step, fleet, idle)}"}
    planned = tuple(_would_go(ports, settings, fleet, one) for one in idle.replicas)
    return {
        "text": f"would {'; '.join(one.text for one in planned)}",
        "replicas": tuple(one.replica for one in planned),
        "planned": planned,
    }


def _would_go(ports: Ports, settings: ClusterSettings, fleet: FleetState, replica: Replica) -> PlannedRemoval:
    disposal = None if _is_out(replica) else disposal_of(ports, settings, fleet, replica)
    verb = "retire" if disposal is None else disposal.action
    return PlannedRemoval(
        text=f"{verb} {replica.instance_id}",
        replica=replica.instance_id,
        objections=tuple(removal_reasons(ports, settings, fleet, replica.instance_id)),
        disposal=disposal,
    )


def _is_out(replica: Replica) -> bool:
    return replica.is_parked or replica.is_building


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
