"""Behind a DNS name clients go on with an old answer for a while: what waits for them, and how long.

The name's TTL is 30 s and a change reaches all name servers within 60 s, so clients have followed after 90 s.
"""

from __future__ import annotations

import pytest
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.ledger import ResourceKind, RunReplica
from peaker.domain.runs.past_runs import PastSteps
from peaker.domain.runs.run import StepInput
from peaker.usecases.join.ramp_traffic import ramp_traffic
from peaker.usecases.plan.lead_time_inputs import lead_time_inputs
from peaker.usecases.run.tear_down import TearDown, remove_targets

from peaker_contract import errors
from peaker_contract.names import OWNER_TAG, RUN_TAG
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, BY_NAME, RUN_ID, SOURCE, instance, leased, orders, with_cluster
from tests.support.peak import answers

NEW = "i-000000000000c0002"
FOLLOW_SECONDS = 90


def ramping(step_seconds: int) -> tuple[CalmPorts, StepInput]:
    """A registered newcomer, and the step that raises its share."""
    ramp = {"shares": [0.5, 1.0], "step_seconds": step_seconds}
    ports = with_cluster(calm_ports(orders(read_endpoint=BY_NAME, ramp=ramp)))
    ports.compute.add(instance(NEW))
    ports.endpoint.set(NEW, TargetState.HEALTHY, only="warming")
    given = leased(ports, "RampTraffic")
    ports.ledger.settle(given.holder, RunReplica(instance_id=NEW, builder=RUN_ID, running_since=NOON))
    return ports, given


@pytest.mark.parametrize(("step_seconds", "waits"), [(10, FOLLOW_SECONDS), (300, 300)])
def test_nobody_is_compared_before_clients_have_followed_the_new_share(step_seconds: int, waits: int) -> None:
    ports, given = ramping(step_seconds)
    with pytest.raises(errors.RampInProgress, match="begun"):
        ramp_traffic(ports, given)
    ports.clock.advance(seconds=waits - 1)
    with pytest.raises(errors.RampInProgress, match=rf"share 0.5 for {waits - 1} of {waits} s"):
        ramp_traffic(ports, given)
    assert ports.commands.sent == []
    ports.clock.advance(seconds=1)
    answers(ports, "measure_service", measurable=True, queries=500, errors=0, mean_ms=0.4, window_seconds=30)
    with pytest.raises(errors.RampInProgress, match=r"share 1: "):
        ramp_traffic(ports, given)
    assert {host for _, host, _ in ports.commands.sent} == {NEW, BASE}


def test_a_source_that_serves_reads_is_no_peer_to_compare_with() -> None:
    """IAM lets no command through to it, and a refusal would undo a replica that is warm by now."""
    ports, given = ramping(10)
    ports.endpoint.set(SOURCE, TargetState.HEALTHY)
    ports.refuses(
        "commands.send", errors.AwsCallRejected("ssm:SendCommand: AccessDeniedException"), of=SOURCE
    )
    answers(ports, "measure_service", measurable=True, queries=500, errors=0, mean_ms=0.4, window_seconds=30)
    with pytest.raises(errors.RampInProgress, match="begun"):
        ramp_traffic(ports, given)
    ports.clock.advance(seconds=FOLLOW_SECONDS)
    with pytest.raises(errors.RampInProgress, match=r"share 1: "):
        ramp_traffic(ports, given)
    assert {host for _, host, _ in ports.commands.sent} == {NEW, BASE}


def test_the_lead_time_knows_how_long_a_ramp_by_name_takes() -> None:
    ramp = {"shares": [0.5, 1.0], "step_seconds": 10, "window_seconds": 30}
    promotion = 300
    for endpoint, seconds in (
        (orders().read_endpoint.model_dump(), 2 * 330 + promotion),
        (BY_NAME, 2 * 120 + FOLLOW_SECONDS),
    ):
        settings = orders(read_endpoint=endpoint, ramp=ramp)
        assert lead_time_inputs(settings, None, PastSteps()).ramp_seconds == seconds


def test_an_undo_keeps_the_instance_until_clients_have_followed() -> None:
    ports = with_cluster(calm_ports(orders(read_endpoint=BY_NAME)))
    ports.compute.add(instance(NEW, tags={OWNER_TAG: "local", RUN_TAG: RUN_ID}))
    ports.endpoint.set(NEW, TargetState.HEALTHY, only="warming")
    given = leased(ports, "RegisterReplica")
    holder, now = given.holder, ports.clock.now()
    row = ports.ledger.intend(holder, ResourceKind.TARGET, "read-endpoint", "Made", now, {"instance_id": NEW})
    ports.ledger.made(holder, row, NEW, now)
    job = TearDown(ports, holder, ports.clusters.settings("orders"), RUN_ID)
    assert remove_targets(job, ports.ledger.resources(RUN_ID)) == [f"target {NEW} healthy"]
    ports.clock.advance(seconds=30)
    assert remove_targets(job, ports.ledger.resources(RUN_ID)) == [
        f"clients of {NEW} for 60 s: its address may be cached (TTL and propagation)"
    ]
    ports.clock.advance(seconds=60)
    assert remove_targets(job, ports.ledger.resources(RUN_ID)) == []
