"""A plan with a deadline: what is chosen is what is planned, priced and built."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.document.plan import ScaleOutPlan
from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.runs.run import ExecutionRequest, PlanStep
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.validate_request import validate_request

from peaker_contract.errors import AwsCallRejected, InvalidRequest, ScaleOutRefused
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, RUN_ID, data_volumes_of, leased, orders, with_cluster

VOLUMES = [
    {"name": name, "device": device, "mount_point": place, "filesystem": "xfs", "volume_type": "gp3",
     "iops": 3000, "throughput_mib_per_s": 250}
    for name, device, place in (("data", "/dev/sdf", "/var/lib/mysql"), ("log", "/dev/sdg", "/var/lib/mysql-log"))
]  # fmt: skip


@pytest.fixture
def ports() -> CalmPorts:
    """200 GiB of data and of log; at most 300 MiB/s are paid."""
    made = calm_ports(orders(initialization_rate_mib_per_s=300, volumes=VOLUMES))
    with_cluster(made)
    for volume in data_volumes_of(BASE, size_gib=200):
        made.storage.add(volume)
    return made


def planned(ports: CalmPorts, hours: float | None = None, held: bool = False, count: int = 1) -> ScaleOutPlan:
    """The plan of a run whose replicas are to serve in so many hours."""
    given: dict[str, Any] = {
        "ready_by": None if hours is None else NOON + timedelta(hours=hours),
        "count": count,
    }
    if held:
        step = PlanStep(**leased(ports, "PlanScaleOut").model_dump(), **given)
    else:
        step = PlanStep(run_id=RUN_ID, cluster="orders", operation="scale_out", step="PlanOnly", **given)
    return ScaleOutPlan.model_validate(plan_scale_out(ports, step).plan)


def rates(plan: ScaleOutPlan) -> list[int | None]:
    return [volume.initialization_rate_mib_per_s for volume in plan.volumes]


def test_every_replica_of_a_batch_is_built_as_it_was_chosen_for_it(ports: CalmPorts) -> None:
    plan = planned(ports, hours=24, count=3)
    for number in (1, 2, 3):
        own = plan.of_member(number)
        assert own.choice is not None
        assert own.choice.in_time is True
        assert rates(own) == [None, None]


def test_an_instance_type_that_ec2_does_not_explain_is_unknown_not_fine(ports: CalmPorts) -> None:
    def refused(instance_type: str) -> InstancePromise:
        raise AwsCallRejected(f"ec2:DescribeInstanceTypes: UnauthorizedOperation {instance_type}")

    ports.compute.ebs_promise = refused  # type: ignore[method-assign]
    checks = {one.name: one.verdict for one in planned(ports).checks}
    assert checks["bandwidth"] == "unknown"


def test_binary_logs_that_do_not_last_refuse_the_run(ports: CalmPorts) -> None:
    """As the source said when a replica was parked: it keeps ten minutes."""
    gone = "i-0000000000000d0e1"
    row = ReplicaRow("orders", gone, RUN_ID, ReplicaState.RETIRED, NOON, Parking(NOON, None, 600.0, None, ""))
    ports.ledger.set_replica(leased(ports, "PlanScaleOut").holder, row)
    with pytest.raises(ScaleOutRefused, match=r"binary logs: .*raise binlog_expire_logs_seconds"):
        planned(ports, held=True)


def request(**given: Any) -> ExecutionRequest:
    operation = given.pop("operation", "scale_out")
    return ExecutionRequest(operation=operation, execution_name="e", started_at=NOON, input=given)


def test_a_deadline_in_the_past_is_wrong(ports: CalmPorts) -> None:
    with pytest.raises(InvalidRequest, match=r"ready_by: given .*allowed is a time after 2026-11-21T12:00"):
        validate_request(ports, request(cluster="orders", ready_by="2026-11-21T12:00:00Z"))


def test_only_a_scale_out_has_a_deadline(ports: CalmPorts) -> None:
    asked = request(cluster="orders", ready_by="2026-11-21T14:00:00Z", operation="scale_in")
    with pytest.raises(InvalidRequest, match=r"ready_by: .*only scale_out"):
        validate_request(ports, asked)
