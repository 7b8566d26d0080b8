"""A listener with several target groups: real connections through HAProxy to servers on loopback.

The targets are addresses (127.0.1.x) with a service that answers with its letter and a health port whose
answer the test sets; the control plane and its probes are the local cloud's own.
"""

from __future__ import annotations

import http.server
import shutil
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cloud_rig.clocks import REAL_TIME, at_scale
from cloud_rig.real_machine import free_port
from cloud_rig.resources import SUBNET_A, eventually
from localcloud.dataplane import DataPlane
from localcloud.extensions.ec2.network import VPC_ID
from localcloud.extensions.elbv2.lateness import PROMPT
from localcloud.open_cloud import CloudSettings
from localcloud.read_endpoint import HaproxyReadEndpoints
from localcloud.server import LocalCloud
from localcloud.simulated_dataplane import simulated_dataplane

pytestmark = pytest.mark.real
SCALE = 60


class _Service(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with socket_errors_end():
            while self.request.recv(64):
                self.request.sendall(self.server.letter)  # type: ignore[attr-defined]


@contextmanager
def socket_errors_end() -> Iterator[None]:
    try:
        yield
    except OSError:
        return


class _Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """The probes need no log."""


@dataclass
class Listening:
    """A network load balancer with a serving and a warming group, and the servers behind it."""

    cloud: LocalCloud
    port: int
    service_port: int
    serving: str = ""
    warming: str = ""
    listener: str = ""
    servers: dict[str, http.server.HTTPServer] = field(default_factory=dict)

    @property
    def elbv2(self) -> Any:
        return self.cloud.client("elbv2")

    def address(self, letter: str) -> str:
        return f"127.0.1.{ord(letter) - ord('a') + 1}"

    def register(self, group: str, *letters: str) -> None:
        targets = [{"Id": self.address(letter)} for letter in letters]
        self.elbv2.register_targets(TargetGroupArn=group, Targets=targets)
        eventually(lambda: all(self.state(group, letter) == "healthy" for letter in letters))

    def deregister(self, group: str, *letters: str) -> None:
        targets = [{"Id": self.address(letter)} for letter in letters]
        self.elbv2.deregister_targets(TargetGroupArn=group, Targets=targets)

    def state(self, group: str, letter: str) -> str:
        targets = [{"Id": self.address(letter)}]
        found = self.elbv2.describe_target_health(TargetGroupArn=group, Targets=targets)
        return str(found["TargetHealthDescriptions"][0]["TargetHealth"]["State"])

    def forward(self, serving: int, warming: int) -> None:
        self.elbv2.modify_listener(ListenerArn=self.listener, DefaultActions=self.actions(serving, warming))

    def actions(self, serving: int, warming: int) -> list[dict[str, Any]]:
        groups = [
            {"TargetGroupArn": self.serving, "Weight": serving},
            {"TargetGroupArn": self.warming, "Weight": warming},
        ]
        return [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}]

    def attribute(self, group: str, key: str, value: str) -> None:
        self.elbv2.modify_target_group_attributes(
            TargetGroupArn=group, Attributes=[{"Key": key, "Value": value}]
        )

    def connect(self) -> Connection:
        return Connection(socket.create_connection(("127.0.0.1", self.port), 60))

    def connect_to(self, letter: str) -> Connection:
        """A connection that this server answers."""
        for _ in range(200):
            connection = self.connect()
            if connection.ask() == letter:
                return connection
            connection.close()
        raise AssertionError(f"no connection reached {letter}")

    def who_answers(self, times: int) -> Counter[str]:
        """Who answers that many new connections; an empty name for those that are refused."""
        answers: Counter[str] = Counter()
        for _ in range(times):
            with self.connect() as connection:
                answers[connection.ask()] += 1
        return answers


class Connection:
    """One client's connection through the listener."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self) -> str:
        """The server's letter, or nothing when the connection is closed."""
        try:
            self._socket.sendall(b"?")
            return self._socket.recv(1).decode()
        except ConnectionError:
            return ""


@pytest.fixture
def reads(tmp_path: Path) -> Iterator[Listening]:
    simulated = simulated_dataplane()
    endpoints = HaproxyReadEndpoints(tmp_path / "endpoints")
    plane = DataPlane(simulated.volumes, simulated.hosts, endpoints)
    settings = CloudSettings(describe_delay_seconds=0.1, balancer_lateness=PROMPT)
    with ExitStack() as stack:
        cloud = stack.enter_context(LocalCloud(plane, tmp_path, clock_scale=SCALE, settings=settings))
        listening = Listening(cloud, free_port(), free_port())
        health_port = free_port()
        for letter in "abc":
            _serve(stack, listening, letter, health_port)
        listening.serving, listening.warming = (
            _group(listening, name, health_port) for name in ("serving", "warming")
        )
        balancer = listening.elbv2.create_load_balancer(Name="reads", Type="network", Subnets=[SUBNET_A])
        listening.listener = listening.elbv2.create_listener(
            LoadBalancerArn=balancer["LoadBalancers"][0]["LoadBalancerArn"],
            Protocol="TCP",
            Port=listening.port,
            DefaultActions=listening.actions(999, 1),
        )["Listeners"][0]["ListenerArn"]
        yield listening
    shutil.rmtree(tmp_path, ignore_errors=True)


def _serve(stack: ExitStack, listening: Listening, letter: str, health_port: int) -> None:
    address = listening.address(letter)
    service = socketserver.ThreadingTCPServer((address, listening.service_port), _Service)
    service.daemon_threads = True
    service.letter = letter.encode()  # type: ignore[attr-defined]
    health = http.server.ThreadingHTTPServer((address, health_port), _Health)
    health.status = 200  # type: ignore[attr-defined]
    listening.servers[letter] = health
    for server in (service, health):
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        stack.callback(server.server_close)
        stack.callback(server.shutdown)


def _group(listening: Listening, name: str, health_port: int) -> str:
    return str(
        listening.elbv2.create_target_group(
            Name=name, Protocol="TCP", Port=listening.service_port, VpcId=VPC_ID, TargetType="ip",
            HealthCheckProtocol="HTTP", HealthCheckPort=str(health_port), HealthCheckPath="/",
            HealthCheckIntervalSeconds=10, HealthyThresholdCount=2, UnhealthyThresholdCount=2,
        )["TargetGroups"][0]["TargetGroupArn"]
    )  # fmt: skip


def answer(reads: Listening, letter: str, status: int) -> None:
    reads.servers[letter].status = status  # type: ignore[attr-defined]


def in_real_time(reads: Listening) -> AbstractContextManager[None]:
    """What has to be done before connections are closed or a target is drained has 20 s on however busy a machine."""
    return at_scale(reads.cloud.clock, REAL_TIME)


def test_new_connections_follow_the_weights_and_open_ones_live_through_every_change(reads: Listening) -> None:
    reads.register(reads.serving, "a", "b")
    reads.register(reads.warming, "a", "b", "c")
    described = reads.elbv2.describe_listeners(ListenerArns=[reads.listener])["Listeners"][0]
    shown = described["DefaultActions"][0]["ForwardConfig"]["TargetGroups"]
    assert [group["Weight"] for group in shown] == [999, 1]
    with reads.connect() as old, reads.connect() as older:
        letters = old.ask() + older.ask()
        for serving, warming, share in (
            (700, 300, 0.1),
            (400, 600, 0.2),
            (1, 999, 1 / 3),
            (900, 100, 1 / 30),
        ):
            reads.forward(serving, warming)
            reads.forward(serving, warming)  # the same again changes nothing
            answers = reads.who_answers(300)
            # Five standard deviations of a fair choice at most; HAProxy deals in turn and comes closer.
            assert answers["c"] / 300 == pytest.approx(share, abs=5 * (share * (1 - share) / 300) ** 0.5)
            assert abs(answers["a"] - answers["b"]) < 60
            assert old.ask() + older.ask() == letters
        with reads.connect_to("c") as warm:
            reads.forward(999, 1)
            assert warm.ask() == "c"
        reads.register(reads.serving, "c")
        assert reads.who_answers(90) == {"a": 30, "b": 30, "c": 30}
        assert old.ask() + older.ask() == letters


def test_weight_0_closes_the_connections_of_that_group_alone_after_a_while(reads: Listening) -> None:
    reads.register(reads.serving, "a")
    reads.register(reads.warming, "a", "c")
    reads.forward(1, 999)
    with reads.connect_to("c") as only_warming, reads.connect_to("a") as in_both:
        with in_real_time(reads):
            reads.forward(1, 0)
            assert only_warming.ask() == "c"  # not at once
        assert reads.who_answers(20) == {"a": 20}
        eventually(lambda: only_warming.ask() == "")
        assert in_both.ask() == "a"
    reads.forward(1, 1)
    assert reads.who_answers(40)["c"] == 10


def test_a_weight_given_back_in_time_keeps_the_connections(reads: Listening) -> None:
    reads.register(reads.serving, "a")
    reads.register(reads.warming, "c")
    reads.forward(1, 999)
    with reads.connect_to("c") as connection:
        with in_real_time(reads):
            reads.forward(1, 0)
            reads.forward(1, 1)
        reads.cloud.clock.sleep(90)  # longer than any closing takes
        assert connection.ask() == "c"


def test_an_empty_group_refuses_its_share(reads: Listening) -> None:
    reads.register(reads.serving, "a")
    reads.forward(1, 1)
    assert reads.who_answers(40) == {"a": 20, "": 20}
    reads.register(reads.warming, "c")
    assert reads.who_answers(40) == {"a": 20, "c": 20}


def test_an_all_unhealthy_group_fails_open_alone(reads: Listening) -> None:
    reads.register(reads.serving, "a", "b")
    reads.register(reads.warming, "c")
    reads.forward(1, 1)
    for letter in "bc":
        answer(reads, letter, 503)
    eventually(lambda: reads.state(reads.serving, "b") == reads.state(reads.warming, "c") == "unhealthy")
    assert reads.who_answers(40) == {"a": 20, "c": 20}


def test_draining_in_one_group_keeps_what_lives_in_the_other(reads: Listening) -> None:
    for key in ("deregistration_delay.connection_termination.enabled",):
        reads.attribute(reads.warming, key, "true")
    reads.attribute(reads.warming, "deregistration_delay.timeout_seconds", "30")
    reads.register(reads.serving, "a", "c")
    reads.register(reads.warming, "a", "c")
    with reads.connect_to("c") as connection:
        with in_real_time(reads):
            reads.deregister(reads.warming, "c")
            assert reads.state(reads.warming, "c") == "draining"
        assert reads.state(reads.serving, "c") == "healthy"
        eventually(lambda: reads.state(reads.warming, "c") == "unused")  # not registered any more
        assert connection.ask() == "c"
        assert reads.who_answers(100)["c"] > 40


@pytest.mark.parametrize("terminates", ["true", "false"])
def test_an_unhealthy_target_loses_its_connections_unless_its_groups_keep_them(
    reads: Listening, terminates: str
) -> None:
    key = "target_health_state.unhealthy.connection_termination.enabled"
    for group in (reads.serving, reads.warming):
        reads.attribute(group, key, terminates)
        reads.register(group, "a", "c")
    with reads.connect_to("c") as connection:
        answer(reads, "c", 503)
        for group in (reads.serving, reads.warming):
            eventually(lambda group=group: reads.state(group, "c") == "unhealthy")
        assert reads.who_answers(10) == {"a": 10}
        if terminates == "true":
            eventually(lambda: connection.ask() == "")
        else:
            assert connection.ask() == "c"


def test_a_forward_to_an_unknown_group_changes_nothing(reads: Listening) -> None:
    reads.register(reads.serving, "a")
    reads.register(reads.warming, "a")
    unknown = reads.serving.replace("serving", "unknown")
    with pytest.raises(reads.elbv2.exceptions.ClientError, match="unknown"):
        reads.elbv2.modify_listener(
            ListenerArn=reads.listener,
            DefaultActions=[{"Type": "forward", "TargetGroupArn": unknown}],
        )
    with pytest.raises(reads.elbv2.exceptions.ClientError, match="1000"):
        reads.forward(1000, 1)
    assert reads.who_answers(4) == {"a": 4}
