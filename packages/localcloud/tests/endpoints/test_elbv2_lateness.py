"""What the API of a load balancer has accepted takes effect minutes later, as on AWS.

Each delay is longer than a test by far; the clock is put forward past it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from test_elbv2 import Reads, target_group

from cloud_rig.resources import SUBNET_A, ResourceCloud, eventually, open_cloud
from localcloud.dataplane import Target
from localcloud.extensions.elbv2.lateness import BalancerLateness

LATE_SECONDS = 100_000.0
ALWAYS_LATE = (LATE_SECONDS, LATE_SECONDS)


class LateReads(Reads):
    def put_forward(self) -> None:
        """Past every delay that has begun."""
        clock = self.aws.cloud.clock
        clock.set(now=clock.now() + timedelta(seconds=LATE_SECONDS))

    def target(self, instance_id: str) -> Target:
        found = self.aws.plane.endpoints.target(self.endpoint.name, instance_id)
        assert found is not None
        return found

    def gets_connections(self, instance_id: str) -> bool:
        target = self.target(instance_id)
        return target.up and not target.draining and target.weight > 0

    def forward(self, **weights: int) -> None:
        groups = [{"TargetGroupArn": arn, "Weight": weight} for arn, weight in weights.items()]
        actions: list[dict[str, Any]] = [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}]
        self.aws.elbv2.modify_listener(ListenerArn=self.listener, DefaultActions=actions)


@pytest.fixture
def reads(tmp_path: Path) -> Iterator[LateReads]:
    with open_cloud(tmp_path, BalancerLateness(ALWAYS_LATE, ALWAYS_LATE, ALWAYS_LATE)) as aws:
        aws.cloud.clock.set(scale=60)
        yield _reads(aws)


def _reads(aws: ResourceCloud) -> LateReads:
    balancer = aws.elbv2.create_load_balancer(Name="orders-reads", Type="network", Subnets=[SUBNET_A])
    arn = balancer["LoadBalancers"][0]["LoadBalancerArn"]
    group = target_group(aws, "orders-replicas")
    listener = aws.elbv2.create_listener(
        LoadBalancerArn=arn,
        Protocol="TCP",
        Port=13306,
        DefaultActions=[{"Type": "forward", "TargetGroupArn": group}],
    )["Listeners"][0]["ListenerArn"]
    return LateReads(aws, arn, group, listener)


def serving(reads: LateReads) -> str:
    instance_id = reads.aws.launched()
    reads.register(instance_id)
    reads.put_forward()
    eventually(lambda: reads.state(instance_id) == "healthy")
    eventually(lambda: reads.gets_connections(instance_id))
    return instance_id


def test_a_registered_target_gets_neither_probes_nor_connections_for_minutes(reads: LateReads) -> None:
    instance_id = reads.aws.launched()
    reads.register(instance_id)
    assert reads.health()[instance_id] == ("initial", "Elb.RegistrationInProgress")
    assert not reads.gets_connections(instance_id)
    assert reads.aws.plane.endpoints.probes == []
    reads.put_forward()
    eventually(lambda: reads.state(instance_id) == "healthy")
    eventually(lambda: reads.gets_connections(instance_id))


def test_a_target_that_registers_is_no_last_resort_when_all_others_are_unhealthy(reads: LateReads) -> None:
    first = serving(reads)
    second = reads.aws.launched()
    reads.register(second)
    reads.answer(first, 503)
    eventually(lambda: reads.state(first) == "unhealthy")
    assert reads.gets_connections(first)
    assert not reads.gets_connections(second)


def test_a_draining_target_goes_on_getting_connections_for_minutes(reads: LateReads) -> None:
    instance_id = serving(reads)
    reads.deregister(instance_id)
    assert reads.state(instance_id) == "draining"
    assert reads.gets_connections(instance_id)
    reads.put_forward()
    eventually(lambda: instance_id not in reads.health())


def test_a_draining_target_that_turns_unhealthy_gets_no_connections_at_once(reads: LateReads) -> None:
    instance_id, other = serving(reads), serving(reads)
    reads.deregister(instance_id)
    assert reads.gets_connections(instance_id)
    reads.answer(instance_id, 404)
    eventually(lambda: not reads.gets_connections(instance_id))
    assert reads.state(instance_id) == "draining"
    assert reads.gets_connections(other)


def test_a_target_that_came_back_while_it_drained_registers_anew(reads: LateReads) -> None:
    instance_id = serving(reads)
    reads.deregister(instance_id)
    reads.register(instance_id)
    assert reads.state(instance_id) == "initial"
    assert not reads.gets_connections(instance_id)
    reads.put_forward()
    eventually(lambda: reads.gets_connections(instance_id))


def test_new_weights_are_acted_on_minutes_later_and_in_their_order(reads: LateReads) -> None:
    old, new = serving(reads), reads.aws.launched()
    second_group = target_group(reads.aws, "orders-warming")
    reads.forward(**{reads.group: 999, second_group: 1})
    reads.forward(**{reads.group: 0, second_group: 999})
    reads.aws.elbv2.register_targets(TargetGroupArn=second_group, Targets=[{"Id": new}])
    assert reads.gets_connections(old)
    assert new not in {target.instance_id for target in reads.endpoint.targets}
    reads.put_forward()
    eventually(lambda: new in {target.instance_id for target in reads.endpoint.targets})
    eventually(lambda: reads.gets_connections(new))
    assert not reads.gets_connections(old)
