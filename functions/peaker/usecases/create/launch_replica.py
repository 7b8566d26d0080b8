"""LaunchReplica: one instance, in the zone with the fewest replicas that has capacity."""

from __future__ import annotations

from peaker.domain.planning.plan import PlannedBuild, ScaleOutPlan
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import Instance, InstanceSpec
from peaker.domain.runs.ledger import ResourceKind
from peaker.domain.runs.run import StepInput, Summary, client_token
from peaker.domain.runs.run_memory import Placement, RunReplica
from peaker.ports import Ports
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.resource_tags import resource_tags
from peaker.usecases.run.run_memory import approved_build, approved_plan
from peaker_contract.errors import CapacityUnavailable

INSTANCE_ROW = "replica"
ROOT_VOLUME_ROW = "root"


def launch_replica(ports: Ports, step: StepInput) -> Summary:
    """Volumes follow the instance's zone, so the zone is settled here. Raises CapacityUnavailable."""
    holder, now = holder_of(step), ports.clock.now()
    row = ports.ledger.intend(holder, ResourceKind.INSTANCE, INSTANCE_ROW, step.step, now, {})
    ports.ledger.intend(holder, ResourceKind.VOLUME, ROOT_VOLUME_ROW, step.step, now, {})
    there = ports.compute.instances_of_run(step.run_id)
    instance = there[0] if there else _launch(ports, step)
    ports.ledger.made(holder, row, instance.instance_id, ports.clock.now())
    replica = RunReplica(
        instance_id=instance.instance_id, builder=step.run_id, running_since=instance.launched_at
    )
    ports.ledger.settle(holder, replica, Placement(zone=instance.zone))
    ports.ledger.set_replica(
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


def _launch(ports: Ports, step: StepInput) -> Instance:
    plan, build = approved_plan(ports, step), approved_build(ports, step)
    refusals: list[str] = []
    for zone in plan.zones:
        try:
            token = client_token(step.run_id, step.step, zone)
            return ports.compute.launch(_spec(ports, step, plan, build, zone), token)
        except CapacityUnavailable as refusal:
            refusals.append(f"{zone}: {refusal}")
    raise CapacityUnavailable(f"no zone has capacity for {plan.instance_type}: {'; '.join(refusals)}")


def _spec(ports: Ports, step: StepInput, plan: ScaleOutPlan, build: PlannedBuild, zone: str) -> InstanceSpec:
    return InstanceSpec(
        image_id=plan.image_id,
        instance_type=plan.instance_type,
        subnet_id=build.subnets[zone],
        security_group_ids=build.security_group_ids,
        instance_profile=build.instance_profile,
        tags=resource_tags(ports, step),
    )
