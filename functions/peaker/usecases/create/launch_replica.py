"""LaunchReplica: one instance, of the first type and in the first zone of the plan's orders that has capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peaker.domain.document.plan import PlannedBuild, ScaleOutPlan
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import Instance, InstanceSpec
from peaker.domain.runs.ledger import Placement, ResourceKind, ResourceRow, ResourceState, RunReplica, of_kind
from peaker.domain.runs.run import StepInput, Summary, client_token
from peaker.domain.service.leftovers import attempt_of
from peaker.ports.bundle import Ports
from peaker.usecases.create.start_instance import GROUP_REFUSED
from peaker.usecases.run.run_memory import build_of_run, intend, plan_of_run, resource_tags
from peaker_contract.errors import CapacityUnavailable, PeakerError, Throttled

# One row for each pool of capacity that is asked, `replica/us-east-1a`, with a fallback type after it: the next is
# asked only when EC2 has refused this one.
INSTANCE_ROWS = "replica/"
ROOT_VOLUME_ROW = "root"


def launch_replica(ports: Ports, step: StepInput) -> Summary:
    """Launches the run's instance; volumes follow its zone. Raises CapacityUnavailable.

    Each of two calls at once may launch one, in a zone of its own: the first that is settled is the run's replica.
    """
    holder = step.holder
    intend(ports, step, ResourceKind.VOLUME, ROOT_VOLUME_ROW)
    launched = _launched(ports, step) or [_launch(ports, step)]
    for row, one in launched:
        ports.ledger.made(holder, row, one.instance_id, ports.clock.now())
    row, instance = _settle(ports, step, launched)
    ports.ledger.settle(holder, Placement(zone=instance.zone, instance_type=instance.instance_type))
    ports.ledger.add_replica(
        holder,
        ReplicaRow(step.cluster, instance.instance_id, step.run_id, ReplicaState.BUILDING, ports.clock.now()),
    )
    return Summary(
        text=f"{instance.instance_id} ({instance.instance_type}) in {instance.zone}",
        numbers={
            "instance_id": instance.instance_id,
            "zone": instance.zone,
            "instance_type": instance.instance_type,
        },
    )


def _launched(ports: Ports, step: StepInput) -> list[tuple[ResourceRow, Instance]]:
    """The instances that earlier calls launched, each with its row; one that has copied tags is none of them."""
    rows = of_kind(ports.ledger.resources(step.run_id), ResourceKind.INSTANCE)
    found = [(attempt_of(rows, one), one) for one in ports.compute.instances_of_run(step.run_id)]
    return [(row, one) for row, one in found if row is not None]


def _settle(
    ports: Ports, step: StepInput, launched: Sequence[tuple[ResourceRow, Instance]]
) -> tuple[ResourceRow, Instance]:
    """Settles which instance is the run's replica, once. Another one of the run goes with the run's undo, or with the
    sweep after its end: nobody else may terminate.

    Raises Throttled where another call has settled its own: the next try finds that one by its tags.
    """
    _, first = launched[0]
    wanted = RunReplica(instance_id=first.instance_id, builder=step.run_id, running_since=first.launched_at)
    replica = ports.ledger.settle_first(step.holder, wanted)
    settled = next((each for each in launched if each[1].instance_id == replica.instance_id), None)
    if settled is None:
        raise Throttled(
            f"{replica.instance_id}, which another call launched, is the replica; it is looked for again"
        )
    return settled


def _launch(ports: Ports, step: StepInput) -> tuple[ResourceRow, Instance]:
    """In the plan's order. What was asked and has not refused is asked again at first.

    EC2 may have launched there although its answer was lost and nothing shows yet; the token of that pool gives the
    same instance again, that of another one a second instance.
    """
    plan, build = plan_of_run(ports, step), build_of_run(ports, step)
    refusals: list[str] = []
    pools = _pools(plan, build.capacity_reservation_group_arn)
    for pool in _in_order(pools, ports.ledger.resources(step.run_id)):
        row = _attempt(ports, step, pool)
        ports.ledger.require_lease(step.holder)
        try:
            return row, ports.compute.launch(_spec(ports, step, plan, build, pool), _token(step, pool))
        except pool.refusals as refusal:
            ports.ledger.mark(step.holder, step.run_id, row, ResourceState.UNDONE)
            refusals.append(f"{pool.text}: {refusal}")
    said = "; ".join(refusals) or f"{', '.join(plan.zones)} have refused before"
    raise CapacityUnavailable(f"no zone has capacity for {' or '.join(plan.launch_order)}: {said}")


@dataclass(frozen=True)
class _Pool:
    """What EC2 has room for or not: a type in a zone, with a group's reserved room or without.

    `name` tells the pools of a run apart.
    """

    zone: str
    instance_type: str
    name: str
    group_arn: str | None = None

    @property
    def refusals(self) -> tuple[type[PeakerError], ...]:
        """The answers after which the next pool is asked."""
        return GROUP_REFUSED if self.group_arn else (CapacityUnavailable,)

    @property
    def text(self) -> str:
        group = f" ({self.group_arn})" if self.group_arn else ""
        return f"{self.instance_type} in {self.zone}{group}"


def _pools(plan: ScaleOutPlan, group_arn: str | None) -> list[_Pool]:
    """All zones for the first type, then all for the next: a replica like its peers comes before one nearby.

    Each with the group first, then without.
    """
    found = []
    for kind in plan.launch_order:
        for zone in plan.zones:
            name = zone if kind == plan.instance_type else f"{zone}/{kind}"
            if group_arn is not None:
                found.append(_Pool(zone, kind, f"{name}/group", group_arn))
            found.append(_Pool(zone, kind, name))
    return found


def _in_order(pools: Sequence[_Pool], rows: Sequence[ResourceRow]) -> list[_Pool]:
    """The pool whose answer is open, then those that were never asked."""
    asked = {row.name.removeprefix(INSTANCE_ROWS): row for row in of_kind(rows, ResourceKind.INSTANCE)}
    open_ones = [pool for pool in pools if pool.name in asked and asked[pool.name].is_open]
    never = [pool for pool in pools if pool.name not in asked]
    return [*open_ones, *never]


def _attempt(ports: Ports, step: StepInput, pool: _Pool) -> ResourceRow:
    details = {"zone": pool.zone, "client_token": _token(step, pool)}
    return intend(ports, step, ResourceKind.INSTANCE, f"{INSTANCE_ROWS}{pool.name}", details)


def _token(step: StepInput, pool: _Pool) -> str:
    return client_token(step.run_id, step.step, pool.name)


def _spec(
    ports: Ports, step: StepInput, plan: ScaleOutPlan, build: PlannedBuild, pool: _Pool
) -> InstanceSpec:
    return InstanceSpec(
        image_id=plan.image_id,
        instance_type=pool.instance_type,
        subnet_id=build.subnets[pool.zone],
        security_group_ids=build.security_group_ids,
        instance_profile=build.instance_profile,
        tags=resource_tags(ports, step),
        capacity_reservation_group_arn=pool.group_arn,
    )
