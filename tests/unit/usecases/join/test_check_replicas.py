"""A scheduled look at all responders: who is told what, who is counted as what, and what is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from aws_lambda_powertools import Metrics
from peaker.domain.host_results import HealthReport
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus, TargetState
from peaker.domain.replicas.replica_check import summarize
from peaker.runtime import telemetry
from peaker.runtime.telemetry import emit_check
from peaker.usecases.join.check_replicas import LOOK_SECONDS, THROTTLED_LOOKS, check_replicas

from peaker_contract.errors import AwsCallRejected, AwsUnavailable, Retryable, Throttled
from peaker_contract.metrics import Metric
from sim.calm import CalmPorts, calm_ports
from sim.workflows.interferences import Raises
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import RUN_ID, instance, orders
from tests.support.peak import STILL_RUNNING

FIRST, SECOND, PARKED = (f"i-0000000000000f000{number}" for number in (1, 2, 3))


@pytest.fixture
def ports() -> CalmPorts:
    """Two registered replicas, a parked one, and one that is being drained."""
    made = calm_ports(orders())
    for number, name in enumerate((FIRST, SECOND, PARKED), 1):
        made.compute.add(replace(instance(name), private_ip=f"10.77.3.{number}"))
    made.compute.add(replace(made.compute.instance(PARKED), state="stopped"))
    made.endpoint.health(orders()).clear()
    made.endpoint.warming_health(orders()).clear()
    for name in (FIRST, SECOND, PARKED):
        made.endpoint.set(name, TargetState.HEALTHY)
    return made


def answers(**body: Any) -> CommandOutcome:
    healthy = {"http_status": 200, "state": "good", "why": "in time", "lag_seconds": 0.5}
    result = {"version": 1, "command": "report_health", "ok": True, **healthy, **body}
    return CommandOutcome(CommandStatus.SUCCESS, stdout=json.dumps(result))


def never(_seconds: float) -> None:
    raise AssertionError("all answers are there, nothing is waited for")


def test_each_running_registered_replica_hears_of_the_others(ports: CalmPorts) -> None:
    ports.commands.said["report_health"] = answers()
    figures = check_replicas(ports, "orders", never)
    assert (figures.registered, figures.serving, figures.unreported) == (2, 2, 0)
    told = dict(zip((host for _, host, _ in ports.commands.sent), ports.commands.parameters, strict=True))
    assert set(told) == {FIRST, SECOND}
    assert json.loads(told[FIRST]["Health"])["peers"] == [{"instance_id": SECOND, "address": "10.77.3.2"}]
    assert json.loads(told[SECOND]["Health"]) == {
        "lag_seconds": orders().gates.lag_seconds,
        "floor_replicas": 1,
        "source_serves_reads": False,
        "peers": [{"instance_id": FIRST, "address": "10.77.3.1"}],
    }


@pytest.mark.parametrize("group", ["serving", "warming"])
def test_a_replica_of_one_group_alone_is_asked_too(ports: CalmPorts, group: str) -> None:
    ports.endpoint.forget(SECOND, only=group)
    ports.commands.said["report_health"] = answers()
    assert check_replicas(ports, "orders", never).registered == 2


class TestAReplicaThatDrains:
    """It is no capacity and no peer; the clients that stayed with it are load all the same."""

    def drains_by_the_ledger(self, ports: CalmPorts) -> None:
        """As after DeregisterReplica, when the load balancer has forgotten the target."""
        ports.endpoint.forget(SECOND)
        holder = ports.lease.acquire("orders", RUN_ID, "scale_in", NOON, NOON + timedelta(hours=1))
        row = ReplicaRow("orders", SECOND, RUN_ID, ReplicaState.DRAINING, NOON)
        ports.ledger.set_replica(holder, row)

    def test_it_is_no_peer_and_nothing_is_published_of_it(self, ports: CalmPorts) -> None:
        ports.endpoint.set(SECOND, TargetState.DRAINING)
        ports.commands.said["report_health"] = answers()
        figures = check_replicas(ports, "orders", never)
        assert (figures.registered, figures.serving) == (1, 1)
        assert json.loads(ports.commands.parameters[0]["Health"])["peers"] == []
        assert set(figures.replica_values()) == {FIRST}

    @pytest.mark.parametrize("by", ["endpoint", "ledger"])
    def test_its_reads_are_in_the_sum(self, ports: CalmPorts, by: str) -> None:
        if by == "ledger":
            self.drains_by_the_ledger(ports)
        else:
            ports.endpoint.set(SECOND, TargetState.DRAINING)
        ports.commands.said["report_health"] = answers(reads_per_second=120.5)
        figures = check_replicas(ports, "orders", never)
        assert figures.metrics()[Metric.READ_QUERIES_PER_SECOND] == 241.0
        assert (figures.registered, figures.reads) == (1, {FIRST: 120.5})

    def test_one_that_is_not_heard_makes_the_sum_unknown_and_nobody_unreported(
        self, ports: CalmPorts
    ) -> None:
        self.drains_by_the_ledger(ports)
        ports.commands.silence(SECOND)
        ports.commands.said["report_health"] = answers(reads_per_second=120.5)
        figures = check_replicas(ports, "orders", never)
        assert Metric.READ_QUERIES_PER_SECOND not in figures.metrics()
        assert figures.unreported == 0
        assert f"the reads of {SECOND}, which drains, are unknown: AwsUnavailable" in figures.reason

    def test_a_ledger_that_cannot_be_read_takes_the_sum_and_nothing_else(self, ports: CalmPorts) -> None:
        ports.refuses("ledger.replicas", Throttled("dynamodb:Query"))
        ports.commands.said["report_health"] = answers(reads_per_second=120.5)
        figures = check_replicas(ports, "orders", never)
        assert (figures.serving, figures.unreported) == (2, 0)
        assert Metric.READ_QUERIES_PER_SECOND not in figures.metrics()
        assert "who drains is unknown: Throttled: dynamodb:Query" in figures.reason


def test_a_host_that_never_answers_is_unreported_in_bounded_time(ports: CalmPorts) -> None:
    ports.commands.said["report_health"] = STILL_RUNNING
    pauses: list[float] = []
    figures = check_replicas(ports, "orders", pauses.append, lambda: sum(pauses))
    assert (figures.unreported, figures.serving, figures.lag_seconds_max) == (2, 0, None)
    assert sum(pauses) == LOOK_SECONDS
    assert f"{FIRST} did not report: no answer within 35 s" in figures.reason


@pytest.mark.parametrize(("call_seconds", "serving"), [(8.0, 2), (9.0, 1), (18.0, 0)])
def test_calls_that_take_long_end_the_look_in_time(
    ports: CalmPorts, call_seconds: float, serving: int
) -> None:
    """Lambda kills the function at 60 s, and with it the figures of all replicas."""
    ports.commands.said["report_health"] = answers()
    clock = count(0.0, call_seconds)
    figures = check_replicas(ports, "orders", never, lambda: next(clock))
    assert (figures.serving, figures.unreported) == (serving, 2 - serving)
    assert (f"{SECOND} did not report: no answer within 35 s" in figures.reason) == (serving < 2)


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (
            CommandOutcome(CommandStatus.FAILED, stdout='{"error":"ResponderUnreachable","message":"x"}'),
            "Responder",
        ),
        (CommandOutcome(CommandStatus.TIMED_OUT, "Undeliverable"), "Undeliverable"),
        (CommandOutcome(CommandStatus.SUCCESS, stdout='{"version":1,"ok":true}'), "does not fit"),
    ],
)
def test_a_bad_answer_is_unreported_never_serving(
    ports: CalmPorts, outcome: CommandOutcome, why: str
) -> None:
    ports.commands.said["report_health"] = outcome
    figures = check_replicas(ports, "orders", never)
    assert (figures.unreported, figures.serving) == (2, 0)
    assert why in figures.reason


def test_a_host_that_does_not_understand_the_check_gets_the_package_of_this_release(ports: CalmPorts) -> None:
    """A replica that serves keeps the package that it was built with; the documents are of the last deployment."""
    not_understood = {"ok": False, "error": "InvalidArgument", "message": "unrecognized arguments: --health"}
    ports.commands.scripts["report_health", SECOND] = [not_understood]
    looks = [check_replicas(ports, "orders", lambda s: ports.clock.advance(seconds=s)) for _ in "ab"]
    assert [(one.serving, one.unreported) for one in looks] == [(1, 1), (2, 0)]
    installed = [host for document, host, _ in ports.commands.sent if document == "install_host_package"]
    assert installed == [SECOND]


def test_one_host_that_cannot_be_asked_does_not_stop_the_rest(ports: CalmPorts) -> None:
    ports.commands.said["report_health"] = answers()
    ports.refuses("commands.send", Throttled("ssm:SendCommand"), of=FIRST)
    figures = check_replicas(ports, "orders", never)
    assert (figures.serving, figures.unreported) == (1, 1)


@pytest.mark.parametrize(
    ("refusal", "times", "unheard", "looks"),
    [
        (Throttled("ssm:GetCommandInvocation"), 1, 0, 2),
        (Throttled("ssm:GetCommandInvocation"), THROTTLED_LOOKS, 1, THROTTLED_LOOKS),
        (AwsUnavailable("ssm:GetCommandInvocation: no answer"), 1, 1, 1),
    ],
)
def test_an_answer_that_aws_does_not_show_takes_no_other_with_it(
    ports: CalmPorts,
    refusal: Retryable,
    times: int,
    unheard: int,
    looks: int,
) -> None:
    """GetCommandInvocation was refused for one host; the others had answered."""
    ports.commands.said["report_health"] = answers()
    ports.meets(*(Raises(at="commands.outcome", error=refusal, of=FIRST) for _ in range(times)))
    pauses: list[float] = []
    figures = check_replicas(ports, "orders", pauses.append)
    assert (figures.serving, figures.unreported, len(pauses) + 1) == (2 - unheard, unheard, looks)
    assert (f"{FIRST} did not report: {type(refusal).__name__}: ssm:Get" in figures.reason) == bool(unheard)


@pytest.mark.parametrize("state", [TargetState.UNHEALTHY, TargetState.DRAINING])
def test_a_replica_that_a_failover_made_the_source_is_asked_nothing_and_keeps_nobody_from_being_heard(
    ports: CalmPorts, state: TargetState
) -> None:
    """It stands in the endpoint still, and IAM lets no command through to a source: one refusal ended each look."""
    ports.compute.add(instance(SECOND, "source"))
    ports.endpoint.set(SECOND, state)
    ports.refuses("commands.send", AwsCallRejected("ssm:SendCommand: AccessDeniedException"), of=SECOND)
    ports.commands.said["report_health"] = answers(reads_per_second=120.5)
    figures = check_replicas(ports, "orders", never)
    assert (figures.registered, figures.serving, figures.unreported) == (1, 1, 0)
    assert figures.metrics()[Metric.READ_QUERIES_PER_SECOND] == 120.5
    assert json.loads(ports.commands.parameters[0]["Health"])["peers"] == []


def test_held_replicas_serve_and_are_counted_apart() -> None:
    good = HealthReport(http_status=200, state="good", why="in time", lag_seconds=1.0)
    held = HealthReport(http_status=200, state="bad", why="lag", kept_by_floor=True, lag_seconds=44.0)
    bad = HealthReport(http_status=503, state="bad", why="the applier thread does not run")
    figures = summarize({"i-1": good, "i-2": held, "i-3": bad, "i-4": Unknown("away")}, {})
    assert (figures.registered, figures.serving, figures.held_by_floor, figures.unreported) == (4, 2, 1, 1)
    assert figures.lag_seconds_max == 44.0
    assert figures.reason == (
        "i-2 is held by the floor; i-3 does not serve: the applier thread does not run; i-4 did not report: away"
    )
    assert figures.metrics() == {
        "ReplicasServing": 2.0,
        "ReplicasHeldByFloor": 1.0,
        "ReplicasUnreported": 1.0,
        "ReplicaLagSecondsMax": 44.0,
    }
    serves = {name: values[Metric.REPLICA_SERVES] for name, values in figures.replica_values().items()}
    assert serves == {"i-1": 1.0, "i-2": 1.0, "i-3": 0.0, "i-4": 0.0}
    assert "ReplicaLagSecondsMax" not in summarize({"i-4": Unknown("away")}, {}).metrics()


def test_each_replica_s_figure_has_its_own_dimension(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Route 53's health check of a replica follows this metric; its alarm asks for exactly these dimensions."""
    monkeypatch.setattr(telemetry, "metrics", Metrics(namespace="Peaker", service="peaker"))
    emit_check(
        "orders",
        {Metric.REPLICAS_SERVING: 1.0},
        {FIRST: {Metric.REPLICA_SERVES: 1.0}, SECOND: {Metric.REPLICA_SERVES: 0.0}},
    )
    _, *lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["Cluster"], line["Instance"], line["ReplicaServes"]) for line in lines] == [
        ("orders", FIRST, [1.0]),
        ("orders", SECOND, [0.0]),
    ]
    for line in lines:
        [directive] = line["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == "Peaker"
        assert set(directive["Dimensions"][0]) == {"Cluster", "Instance", "service"}


def test_a_replica_that_cannot_count_its_reads_serves_and_says_why(ports: CalmPorts) -> None:
    off = "performance_schema is OFF, so that Peaker cannot count the clients' reads"
    ports.commands.said["report_health"] = answers(reads_per_second=None, reads_unknown=off)
    figures = check_replicas(ports, "orders", never)
    assert (figures.serving, figures.unreported, figures.reads) == (2, 0, {})
    assert Metric.READ_QUERIES_PER_SECOND not in figures.metrics()
    assert f"the reads of {FIRST} are unknown: {off}" in figures.reason
