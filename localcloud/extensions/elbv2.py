"""Network load balancers that balance: listeners are real ports, target health is really probed.

moto keeps load balancers, listeners and target groups; which targets are in a group and how they fare is
kept here, and every change goes to the data plane's read endpoints. Probing is in real seconds; the
deregistration delay is in cloud seconds, as the workflows that wait for it are.

A listener fails open: when none of its targets is healthy, all that are not draining get connections.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from moto.elbv2.exceptions import ELBClientError
from moto.elbv2.models import ELBv2Backend, FakeHealthStatus, FakeTargetGroup, elbv2_backends

from localcloud.dataplane import DataPlane, DataPlaneError, ReadEndpointSpec, Target

if TYPE_CHECKING:
    from localcloud.server import LocalCloud

log = logging.getLogger(__name__)

SHORTEST_PROBE_INTERVAL_SECONDS = 0.5  # real
TICK_SECONDS = 0.2  # real: how often a target's watcher looks at the clock
HEAVIEST = 100  # HAProxy knows weights up to 256
WEIGHT_RANGE = (0, 999)
MATCHER = re.compile(r"(\d{3})(?:-(\d{3}))?")


@dataclass
class Member:
    """A target of a group. state is one of ELBv2's: initial, healthy, unhealthy, draining (and unused)."""

    group_arn: str
    target_id: str
    port: int
    state: str = "initial"
    reason: str | None = "Elb.RegistrationInProgress"
    description: str | None = "Target registration is in progress"
    passes: int = 0
    failures: int = 0
    drained_at_epoch: float | None = None  # cloud time; set while draining
    gone: bool = False  # out of the group; kept while the endpoint still has connections to it


class Balancers:
    """The network load balancers of one cloud."""

    def __init__(self, cloud: LocalCloud, dataplane: DataPlane) -> None:
        self.cloud = cloud
        self.dataplane = dataplane
        settings = cloud.settings
        self.backend = elbv2_backends[settings.account_id][settings.region]
        self._members: dict[tuple[str, str], Member] = {}
        self._applied: dict[str, ReadEndpointSpec] = {}
        self._lock = threading.RLock()
        self._applying = threading.Lock()

    # -- membership ----------------------------------------------------------------------------------------

    def register(self, group: Any, targets: Sequence[Mapping[str, Any]]) -> None:
        """Raises InvalidTarget for an instance that is unknown or not running."""
        for target in targets:
            self._check_registrable(group, str(target["Id"]))
        for target in targets:
            target_id = str(target["Id"])
            port = int(target.get("Port") or group.port)
            with self._lock:
                member = self._members.get((group.arn, target_id))
                if member is not None and member.drained_at_epoch is None and not member.gone:
                    member.port = port
                    continue
                if member is not None:
                    member.gone = True  # its watcher ends; a new one starts from `initial`
                fresh = Member(group.arn, target_id, port)
                self._members[(group.arn, target_id)] = fresh
                group.targets[target_id] = {"Id": target_id, "Port": port}
            self.cloud.background(f"target-{target_id}", partial(self._watch, fresh))
        self.apply_for_caller()

    def _check_registrable(self, group: Any, target_id: str) -> None:
        if group.target_type != "instance":
            return
        instance = group.ec2_backend.get_instance_by_id(target_id)
        if instance is None or instance.state == "terminated":
            raise ELBClientError("InvalidTarget", f"The following targets are not valid: '{target_id}'")
        if instance.state != "running":
            raise ELBClientError(
                "InvalidTarget",
                f"The following targets are not in a running state and cannot be registered: '{target_id}'",
            )

    def deregister(self, group: Any, targets: Sequence[Mapping[str, Any]]) -> None:
        """Start draining. A target that is not in the group is no error."""
        delay = float(group.attributes.get("deregistration_delay.timeout_seconds", 300))
        for target in targets:
            with self._lock:
                group.targets.pop(str(target["Id"]), None)
                member = self._members.get((group.arn, str(target["Id"])))
                if member is None or member.gone or member.drained_at_epoch is not None:
                    continue
                member.drained_at_epoch = self.cloud.clock.epoch() + delay
                member.state, member.reason = "draining", "Target.DeregistrationInProgress"
                member.description = "Target deregistration is in progress"
        self.apply_for_caller()

    # -- health --------------------------------------------------------------------------------------------

    def health(self, group: Any, targets: Sequence[Mapping[str, Any]]) -> list[FakeHealthStatus]:
        """As DescribeTargetHealth shows it: the named targets, or all that are in the group or draining."""
        with self._lock:
            members = {m.target_id: m for m in self._group_members(group.arn) if not m.gone}
        if targets:
            return [
                self._status(group, members[str(t["Id"])])
                if str(t["Id"]) in members
                else _not_registered(group, t)
                for t in targets
            ]
        return [self._status(group, member) for member in members.values()]

    def _status(self, group: Any, member: Member) -> FakeHealthStatus:
        state, reason, description = member.state, member.reason, member.description
        unused = self._unused_reason(group, member)
        if state != "draining" and unused is not None:
            state, (reason, description) = "unused", unused
        port = str(group.health_check_port)
        return FakeHealthStatus(
            member.target_id,
            str(member.port),
            str(member.port) if port == "traffic-port" else port,
            state,
            reason,
            description,
        )

    def _unused_reason(self, group: Any, member: Member) -> tuple[str, str] | None:
        if not any(arn == group.arn for _, weights in self._listeners() for arn in weights):
            return (
                "Target.NotInUse",
                "Target group is not configured to receive traffic from the load balancer",
            )
        instance = self._instance(group, member)
        if instance is not None and instance.state == "stopped":
            return "Target.InvalidState", "Target is in the stopped state"
        return None

    def _instance(self, group: Any, member: Member) -> Any:
        if group.target_type != "instance":
            return None
        return group.ec2_backend.get_instance_by_id(member.target_id)

    # -- one target's life, in a thread of its own ---------------------------------------------------------

    def _watch(self, member: Member) -> None:
        next_probe = 0.0
        while self._is_current(member) and not self.cloud.closing.wait(TICK_SECONDS):
            try:
                next_probe = self._look_after(member, next_probe)
            except DataPlaneError:
                log.exception("target %s of %s", member.target_id, member.group_arn)

    def _look_after(self, member: Member, next_probe: float) -> float:
        """One step of a target's life; returns when (monotonic) the next probe is due."""
        group = self.backend.target_groups.get(member.group_arn)
        if group is None:
            member.gone = True
        if member.gone:
            self._let_go(member)
        elif member.drained_at_epoch is not None:
            if self.cloud.clock.epoch() >= member.drained_at_epoch:
                self._drained(group, member)
        elif time.monotonic() >= next_probe and self._unused_reason(group, member) is None:
            self._probe(group, member)
            return time.monotonic() + self._probe_interval(group)
        return next_probe

    def _probe_interval(self, group: Any) -> float:
        scaled = self.cloud.clock.real_seconds(float(group.health_check_interval_seconds))
        return max(SHORTEST_PROBE_INTERVAL_SECONDS, scaled)

    def _probe(self, group: Any, member: Member) -> None:
        address = self._address(group, member)
        port = member.port if str(group.health_check_port) == "traffic-port" else int(group.health_check_port)
        timeout = float(group.health_check_timeout_seconds)
        path = group.health_check_path or "/"
        status = self.dataplane.endpoints.probe(address, port, path, timeout) if address else None
        with self._lock:
            before = member.state
            if member.drained_at_epoch is not None:
                return
            self._judge(group, member, status)
            changed = member.state != before
        if changed:
            self.apply_all()

    def _judge(self, group: Any, member: Member, status: int | None) -> None:
        if member.reason == "Elb.RegistrationInProgress":
            member.reason = "Elb.InitialHealthChecking"
            member.description = "Initial health checks in progress"
        codes = (getattr(group, "matcher", None) or {}).get("HttpCode", "200-399")
        if status is not None and _matches(str(codes), status):
            member.passes, member.failures = member.passes + 1, 0
            needed = 1 if member.state == "initial" else int(group.healthy_threshold_count)
            if member.state != "healthy" and member.passes >= needed:
                member.state, member.reason, member.description = "healthy", None, None
            return
        member.passes, member.failures = 0, member.failures + 1
        if member.state != "unhealthy" and member.failures >= int(group.unhealthy_threshold_count):
            member.state, member.reason = "unhealthy", "Target.FailedHealthChecks"
            member.description = (
                "Health checks failed"
                if status is None
                else f"Health checks failed with these codes: [{status}]"
            )

    def _address(self, group: Any, member: Member) -> str | None:
        if group.target_type != "instance":
            return member.target_id
        instance = self._instance(group, member)
        return str(instance.private_ip) if instance is not None and instance.private_ip else None

    def _drained(self, group: Any, member: Member) -> None:
        """The deregistration delay is over: out of the group, connections cut only if the group says so."""
        if str(group.attributes.get("deregistration_delay.connection_termination.enabled")).lower() == "true":
            for name in self._endpoints_of(member.group_arn):
                self.dataplane.endpoints.close_connections(name, member.target_id)
        member.gone = True

    def _let_go(self, member: Member) -> None:
        """A drained target stays at the endpoint, closed to new connections, while old ones are open."""
        if self._open_connections(member):
            return
        with self._lock:
            if self._is_current(member):
                del self._members[(member.group_arn, member.target_id)]
        self.apply_all()

    def _is_current(self, member: Member) -> bool:
        return self._members.get((member.group_arn, member.target_id)) is member

    def _open_connections(self, member: Member) -> int:
        return sum(
            stat.open_connections
            for name in self._endpoints_of(member.group_arn)
            for stat in self.dataplane.endpoints.stats(name)
            if stat.instance_id == member.target_id
        )

    # -- what the endpoints are told -----------------------------------------------------------------------

    def apply_all(self) -> None:
        """Bring every endpoint in line with listeners, members and their health. Raises DataPlaneError."""
        with self._applying:
            with self._lock:
                specs = {spec.name: spec for spec in map(self._spec, self._listeners())}
            for name in set(self._applied) - set(specs):
                self.dataplane.endpoints.remove(name)
                del self._applied[name]
            for name, spec in specs.items():
                if self._applied.get(name) != spec:
                    self.dataplane.endpoints.apply(spec)
                    self._applied[name] = spec

    def apply_for_caller(self) -> None:
        try:
            self.apply_all()
        except DataPlaneError as error:
            raise ELBClientError("InvalidConfigurationRequest", str(error)) from error

    def _listeners(self) -> list[tuple[Any, dict[str, int]]]:
        """Listeners of network load balancers with the weight of each target group they forward to."""
        return [
            (listener, _forward_weights(listener.default_actions))
            for balancer in list(self.backend.load_balancers.values())
            if balancer.type == "network"
            for listener in list(balancer.listeners.values())
        ]

    def _spec(self, listener_and_weights: tuple[Any, dict[str, int]]) -> ReadEndpointSpec:
        listener, weights = listener_and_weights
        members = {arn: self._group_members(arn) for arn in weights}
        receiving = [
            m for group in members.values() for m in group if m.drained_at_epoch is None and not m.gone
        ]
        fails_open = not any(member.state == "healthy" for member in receiving)
        shares = _shares({arn: sum(m in receiving for m in group) for arn, group in members.items()}, weights)
        targets = []
        for arn, group_members in members.items():
            group = self.backend.target_groups[arn]
            for member in group_members:
                address = self._address(group, member)
                if address is None:
                    continue
                draining = member not in receiving
                up = draining or member.state == "healthy" or fails_open
                targets.append(
                    Target(member.target_id, address, member.port, shares[arn], draining=draining, up=up)
                )
        return ReadEndpointSpec(self._endpoint_name(listener), int(listener.port), tuple(targets))

    def _group_members(self, group_arn: str) -> list[Member]:
        return [member for member in self._members.values() if member.group_arn == group_arn]

    def _endpoints_of(self, group_arn: str) -> list[str]:
        names = [
            self._endpoint_name(listener) for listener, weights in self._listeners() if group_arn in weights
        ]
        return [name for name in names if name in self._applied]

    def _endpoint_name(self, listener: Any) -> str:
        """`<load balancer>-<listener id>`: stays the same when the port changes."""
        return f"{listener.load_balancer_arn.split('/')[-2]}-{listener.arn.rsplit('/', 1)[-1]}"


def _forward_weights(actions: Iterable[Any]) -> dict[str, int]:
    for action in actions:
        config = action.data.get("ForwardConfig")
        if config and config.get("TargetGroups"):
            return {g["TargetGroupArn"]: int(g.get("Weight", 1)) for g in config["TargetGroups"]}
        if action.data.get("TargetGroupArn"):
            return {action.data["TargetGroupArn"]: 1}
    return {}


def _shares(counts: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, int]:
    """Weight of each target of a group, so that the groups share new connections by their weights."""
    per_target = {arn: weights[arn] / max(1, counts[arn]) for arn in counts}
    heaviest = max(per_target.values(), default=0.0)
    if heaviest == 0:
        return dict.fromkeys(per_target, 0)
    return {
        arn: max(1, round(HEAVIEST * share / heaviest)) if share else 0 for arn, share in per_target.items()
    }


def _matches(codes: str, status: int) -> bool:
    """True when a status fits a matcher such as 200, 200-399 or 200,404."""
    for match in MATCHER.finditer(codes):
        low = int(match[1])
        if low <= status <= int(match[2] or low):
            return True
    return False


def _not_registered(group: Any, target: Mapping[str, Any]) -> FakeHealthStatus:
    return FakeHealthStatus(
        str(target["Id"]),
        str(target.get("Port") or group.port),
        None,
        "unused",
        "Target.NotRegistered",
        "Target is not registered to the target group",
    )


def _check_weights(actions: Iterable[Mapping[str, Any]] | None) -> None:
    low, high = WEIGHT_RANGE
    for action in actions or []:
        for group in (action.get("ForwardConfig") or {}).get("TargetGroups", []):
            weight = group.get("Weight")
            if weight is not None and not low <= int(weight) <= high:
                raise ELBClientError(
                    "ValidationError", f"The weight '{weight}' must be between {low} and {high}, inclusive"
                )


# -- hooks ---------------------------------------------------------------------------------------------------


def _install_group_hooks(cloud: LocalCloud, balancers: Balancers) -> None:
    def mine(group: Any) -> bool:
        return group.arn in balancers.backend.target_groups

    def register(self: Any, targets: list[dict[str, Any]]) -> None:
        (balancers.register if mine(self) else original_register)(self, targets)

    def deregister(self: Any, targets: list[dict[str, Any]]) -> None:
        (balancers.deregister if mine(self) else original_deregister)(self, targets)

    def deregister_terminated_instances(self: Any, instance_ids: list[str]) -> None:
        targets = [{"Id": target_id} for target_id in list(self.targets) if target_id in instance_ids]
        if targets:
            deregister(self, targets)

    original_register = cloud.patch(FakeTargetGroup, "register", register)
    original_deregister = cloud.patch(FakeTargetGroup, "deregister", deregister)
    cloud.patch(FakeTargetGroup, "deregister_terminated_instances", deregister_terminated_instances)


def _install_backend_hooks(cloud: LocalCloud, balancers: Balancers) -> None:
    def describe_target_health(self: Any, target_group_arn: str, targets: Any) -> Any:
        group = self.target_groups.get(target_group_arn)
        if self is not balancers.backend or group is None:
            return original_health(self, target_group_arn, targets)
        return balancers.health(group, targets or [])

    def create_target_group(self: Any, name: str, **kwargs: Any) -> Any:
        network = kwargs.get("protocol") in ("TCP", "TLS")
        if self is balancers.backend and network and kwargs.get("healthcheck_protocol") not in ("HTTP",):
            raise ELBClientError(
                "InvalidConfigurationRequest",
                "The local cloud probes health over HTTP only: set HealthCheckProtocol to HTTP and "
                "HealthCheckPort to the port of the health responder.",
            )
        return original_create_group(self, name, **kwargs)

    def create_listener(
        self: Any, load_balancer_arn: str, protocol: str, port: Any, *args: Any, **kwargs: Any
    ) -> Any:
        actions = kwargs.get("actions") or next((a for a in args if isinstance(a, list)), None)
        _check_weights(actions)
        balancer = self.load_balancers.get(load_balancer_arn)
        if balancer and any(str(x.port) == str(port) for x in balancer.listeners.values()):
            raise ELBClientError("DuplicateListener", "A listener with the specified port already exists.")
        listener = original_create_listener(self, load_balancer_arn, protocol, port, *args, **kwargs)
        if self is balancers.backend:
            try:
                balancers.apply_for_caller()
            except ELBClientError:
                self.delete_listener(listener.arn)
                raise
        return listener

    def modify_listener(self: Any, *args: Any, **kwargs: Any) -> Any:
        _check_weights(kwargs.get("actions") or (args[5] if len(args) > 5 else None))
        return original_modify_listener(self, *args, **kwargs)

    original_health = cloud.patch(ELBv2Backend, "describe_target_health", describe_target_health)
    original_create_group = cloud.patch(ELBv2Backend, "create_target_group", create_target_group)
    original_create_listener = cloud.patch(ELBv2Backend, "create_listener", create_listener)
    original_modify_listener = cloud.patch(ELBv2Backend, "modify_listener", modify_listener)
    for name in ("modify_listener", "delete_listener", "delete_load_balancer", "modify_target_group"):
        _apply_after(cloud, balancers, name)


def _apply_after(cloud: LocalCloud, balancers: Balancers, name: str) -> None:
    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if self is balancers.backend:
            balancers.apply_for_caller()
        return result

    original: Callable[..., Any] = cloud.patch(ELBv2Backend, name, changed)


def install(cloud: LocalCloud) -> None:
    """Make network load balancers real. Without a data plane moto's records stay in charge."""
    if cloud.dataplane is None:
        return
    balancers = Balancers(cloud, cloud.dataplane)
    _install_group_hooks(cloud, balancers)
    _install_backend_hooks(cloud, balancers)
