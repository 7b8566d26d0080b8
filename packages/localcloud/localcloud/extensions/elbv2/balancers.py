"""Network load balancers that balance: listeners are real ports, target health is really probed.

moto keeps load balancers, listeners and target groups; which targets are in a group and how they fare is
kept here, and every change goes to the data plane's read endpoints. Probing is in real seconds; the
deregistration delay is in cloud seconds, as the workflows that wait for it are.

Each target group of a listener fares by itself: it has its own probes, drains its own targets and fails open
alone (`elbv2_routing`). A group whose weight becomes 0, or that the listener forwards to no more, gets no new
connections at once and loses its open ones a short while later. A target whose probes fail loses its open
connections, unless the group's target_health_state.unhealthy.connection_termination.enabled is false.
DescribeTargetHealth tells what the probes found a little later than the load balancer acts on it.

What the API has accepted takes effect late (`elbv2_lateness`): a target that registers gets neither probes nor
connections for minutes, one that drains goes on getting new ones, and new weights are acted on later. A target that
drains is still probed meanwhile, and loses its new connections at once when it is unhealthy.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from moto.elbv2.exceptions import ELBClientError
from moto.elbv2.models import FakeHealthStatus, elbv2_backends

from localcloud.dataplane import DataPlane, DataPlaneError, ReadEndpointSpec
from localcloud.extensions.elbv2.lateness import WeightsInEffect
from localcloud.extensions.elbv2.routing import ForwardedGroup, GroupMember, Standing, route
from localcloud.extensions.elbv2.targets import (
    CHECKING,
    DRAINING,
    HEALTHY,
    NOT_ENABLED,
    NOT_IN_USE,
    REGISTERING,
    STOPPED,
    Member,
    Verdict,
    attribute,
    forward_weights,
    matches,
    not_registered,
)

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

SHORTEST_PROBE_INTERVAL_SECONDS = 0.5  # real
TICK_SECONDS = 0.2  # real: how often a target's watcher looks at the clock
# How long connections outlive their group's weight, in cloud time. AWS says "a short time" and no number.
SILENCED_SECONDS = (20.0, 60.0)
TERMINATE_UNHEALTHY = "target_health_state.unhealthy.connection_termination.enabled"
TERMINATE_DRAINED = "deregistration_delay.connection_termination.enabled"


class Balancers:
    """The network load balancers of one cloud."""

    def __init__(self, cloud: OpenCloud, dataplane: DataPlane) -> None:
        self.cloud = cloud
        self.dataplane = dataplane
        settings = cloud.settings
        self.backend = elbv2_backends[settings.account_id][settings.region]
        self._members: dict[tuple[str, str], Member] = {}
        self._applied: dict[str, ReadEndpointSpec] = {}
        self._weights: dict[str, dict[str, int]] = {}  # last seen, by listener and group
        self._silenced: dict[tuple[str, str], float] = {}  # (listener, group): cloud time of the closing
        self._random = random.Random(settings.seed)
        self._lateness = settings.balancer_lateness
        self._weights_in_effect = WeightsInEffect(self._lateness, self._random)
        self._lock = threading.RLock()
        self._applying = threading.Lock()

    # -- membership ----------------------------------------------------------------------------------------

    def register(self, group: Any, targets: Sequence[Mapping[str, Any]]) -> None:
        """Raises InvalidTarget for an instance that is unknown or not running."""
        for target in targets:
            self._check_registrable(group, target)
        for target in targets:
            target_id = str(target["Id"])
            port = int(target.get("Port") or group.port)
            with self._lock:
                member = self._members.get((group.arn, target_id))
                if member is not None and not member.leaving:
                    member.port = port
                    continue
                if member is not None:
                    member.gone = True  # its watcher ends; a new one starts from `initial`
                late = self._random.uniform(*self._lateness.registration_seconds)
                enters_at = self.cloud.clock.epoch() + late
                fresh = Member(group.arn, target_id, port, enters_at_epoch=enters_at, entered=not late)
                self._members[(group.arn, target_id)] = fresh
                group.targets[target_id] = {"Id": target_id, "Port": port}
            self.cloud.background(f"target-{target_id}", partial(self._watch, fresh))
        self.apply_for_caller()

    def _check_registrable(self, group: Any, target: Mapping[str, Any]) -> None:
        target_id, port = str(target["Id"]), int(target.get("Port") or group.port)
        with self._lock:
            others = [m for m in self._members.values() if m.target_id == target_id and not m.leaving]
        if any(m.port != port and m.group_arn != group.arn for m in others):
            raise ELBClientError(
                "InvalidConfigurationRequest",
                f"The local cloud knows one port per target: '{target_id}' is in another group with another.",
            )
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
                if member is None or member.leaving:
                    continue
                late = self._random.uniform(*self._lateness.deregistration_seconds)
                now = self.cloud.clock.epoch()
                if late:
                    member.taking, member.taking_until_epoch = self._standing(group, member), now + late
                member.drained_at_epoch = now + max(delay, late)
                member.failures = 0
                member.verdict, member.told = DRAINING, [(0.0, DRAINING)]
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
                else not_registered(group, t)
                for t in targets
            ]
        return [self._status(group, member) for member in members.values()]

    def _status(self, group: Any, member: Member) -> FakeHealthStatus:
        with self._lock:
            verdict = member.shown(time.monotonic())
        if not member.leaving:
            verdict = self._unused(group, member) or verdict
        port = str(group.health_check_port)
        return FakeHealthStatus(
            member.target_id,
            str(member.port),
            str(member.port) if port == "traffic-port" else port,
            verdict.state,
            verdict.reason,
            verdict.description,
        )

    def _unused(self, group: Any, member: Member) -> Verdict | None:
        """Why the target gets neither probes nor connections, or None."""
        before = [listener for listener, weights in self._listeners() if group.arn in weights]
        if not before:
            return NOT_IN_USE
        instance = self._instance(group, member)
        if instance is not None and not any(self._is_enabled(instance, listener) for listener in before):
            return NOT_ENABLED
        return STOPPED if self._is_stopped(group, member) else None

    def _is_enabled(self, instance: Any, listener: Any) -> bool:
        """Whether the load balancer is in the instance's zone: balancing over zones reaches no other one."""
        balancer = self.backend.load_balancers.get(listener.load_balancer_arn)
        zones = {subnet.availability_zone for subnet in balancer.subnets} if balancer else set()
        return instance.placement.zone in zones

    def _is_stopped(self, group: Any, member: Member) -> bool:
        instance = self._instance(group, member)
        return instance is not None and instance.state in ("stopped", "terminated")

    def _told_at(self) -> float:
        """When (monotonic) Describe knows what a probe found now: a short delay, the same in every run."""
        delay = self.cloud.settings.describe_delay_seconds * self._random.uniform(0.3, 1.0)
        return time.monotonic() + delay

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
            return self._look_after_draining(group, member, member.drained_at_epoch, next_probe)
        elif not member.entered:
            self._enter(member)
        elif (unused := self._unused(group, member)) is not None:
            self._rest(member, unused)
        elif member.verdict.state == "unused" or time.monotonic() >= next_probe:
            self._probe(group, member)
            return time.monotonic() + self._probe_interval(group)
        return next_probe

    def _enter(self, member: Member) -> None:
        if self.cloud.clock.epoch() >= member.enters_at_epoch:
            member.entered = True
            self.apply_all()

    def _look_after_draining(self, group: Any, member: Member, drained_at: float, next_probe: float) -> float:
        now = self.cloud.clock.epoch()
        if member.taking != "leaving" and (
            now >= member.taking_until_epoch or self._fails(group, member, next_probe)
        ):
            member.taking = "leaving"
            self.apply_all()
        if now >= drained_at:
            self._drained(group, member)
        if member.taking == "leaving" or time.monotonic() < next_probe:
            return next_probe
        return time.monotonic() + self._probe_interval(group)

    def _fails(self, group: Any, member: Member, next_probe: float) -> bool:
        """Probe a target that drains and is still given connections; whether it has failed often enough."""
        if time.monotonic() >= next_probe:
            passed = self._passes(group, self._probed(group, member))
            member.failures = 0 if passed else member.failures + 1
        return member.failures >= int(group.unhealthy_threshold_count)

    def _rest(self, member: Member, unused: Verdict) -> None:
        """A target out of use starts from `initial` when it is in use again."""
        with self._lock:
            if member.leaving or member.verdict == unused:
                return
            member.passes = member.failures = 0
            member.judge(unused, time.monotonic())
        self.apply_all()

    def _probe_interval(self, group: Any) -> float:
        scaled = self.cloud.clock.real_seconds(float(group.health_check_interval_seconds))
        return max(SHORTEST_PROBE_INTERVAL_SECONDS, scaled)

    def _probed(self, group: Any, member: Member) -> int | None:
        """The status that the target's health port answers; None without an answer."""
        address = self._address(group, member)
        port = member.port if str(group.health_check_port) == "traffic-port" else int(group.health_check_port)
        timeout = float(group.health_check_timeout_seconds)
        path = group.health_check_path or "/"
        return self.dataplane.endpoints.probe(address, port, path, timeout) if address else None

    def _passes(self, group: Any, status: int | None) -> bool:
        codes = (getattr(group, "matcher", None) or {}).get("HttpCode", "200-399")
        return status is not None and matches(str(codes), status)

    def _probe(self, group: Any, member: Member) -> None:
        status = self._probed(group, member)
        with self._lock:
            before = member.verdict
            if member.leaving:
                return
            self._judge(group, member, status)
            after = member.verdict
        if after.state == before.state:
            return
        self.apply_all()
        if after.state == "unhealthy" and attribute(group, TERMINATE_UNHEALTHY, "true"):
            self._close_to(member, unless=self._is_used_by_another)

    def _judge(self, group: Any, member: Member, status: int | None) -> None:
        if member.verdict.state == "unused" or member.verdict == REGISTERING:
            member.judge(CHECKING, time.monotonic())
        state = member.verdict.state
        if self._passes(group, status):
            member.passes, member.failures = member.passes + 1, 0
            needed = 1 if state == "initial" else int(group.healthy_threshold_count)
            if state != "healthy" and member.passes >= needed:
                member.judge(HEALTHY, self._told_at())
            return
        member.passes, member.failures = 0, member.failures + 1
        if state != "unhealthy" and member.failures >= int(group.unhealthy_threshold_count):
            said = "" if status is None else f" with these codes: [{status}]"
            failed = Verdict("unhealthy", "Target.FailedHealthChecks", f"Health checks failed{said}")
            member.judge(failed, self._told_at())

    def _address(self, group: Any, member: Member) -> str | None:
        if group.target_type != "instance":
            return member.target_id
        instance = self._instance(group, member)
        return str(instance.private_ip) if instance is not None and instance.private_ip else None

    def _drained(self, group: Any, member: Member) -> None:
        """The deregistration delay is over: out of the group, connections cut only if the group says so."""
        if attribute(group, TERMINATE_DRAINED, "false"):
            self._close_to(member, unless=self._is_kept_by_another)
        member.gone = True

    def _let_go(self, member: Member) -> None:
        """A drained target stays at the endpoint, closed to new connections, while old ones are open."""
        if self._open_connections(member):
            return
        with self._lock:
            if self._is_current(member):
                del self._members[(member.group_arn, member.target_id)]
        self.apply_all()

    def _close_to(self, member: Member, unless: Callable[[str, Member], bool]) -> None:
        """Close a target's connections at the endpoints, except for listeners where `unless` says so."""
        with self._lock:
            names = [
                name
                for name, listener_arn in self._endpoints_of(member.group_arn)
                if not unless(listener_arn, member)
            ]
        for name in names:
            self.dataplane.endpoints.close_connections(name, member.target_id)

    def _is_used_by_another(self, listener_arn: str, member: Member) -> bool:
        """The endpoint still sends the target connections (its group fails open, or another finds it
        healthy), or another group lets it drain."""
        endpoints = {arn: name for name, arn in self._endpoints_of(member.group_arn)}
        targets = self._applied[endpoints[listener_arn]].targets
        taking = any(t.instance_id == member.target_id and t.up and t.weight > 0 for t in targets)
        return taking or any(other.leaving for other in self._others(listener_arn, member))

    def _is_kept_by_another(self, listener_arn: str, member: Member) -> bool:
        """Another group that the listener gives connections to has the target too, be it draining there."""
        return any(self._others(listener_arn, member))

    def _others(self, listener_arn: str, member: Member) -> list[Member]:
        """The target as the listener's other groups with a weight have it."""
        found = [
            self._members.get((arn, member.target_id))
            for arn, weight in self._weights.get(listener_arn, {}).items()
            if weight > 0 and arn != member.group_arn
        ]
        return [other for other in found if other is not None and not other.gone]

    def _is_current(self, member: Member) -> bool:
        return self._members.get((member.group_arn, member.target_id)) is member

    def _open_connections(self, member: Member) -> int:
        """Open connections that are not another group's as well."""
        with self._lock:
            names = [
                name
                for name, listener_arn in self._endpoints_of(member.group_arn)
                if not self._is_kept_by_another(listener_arn, member)
            ]
        return sum(
            stat.open_connections
            for name in names
            for stat in self.dataplane.endpoints.stats(name)
            if stat.instance_id == member.target_id
        )

    # -- what the endpoints are told -----------------------------------------------------------------------

    def apply_all(self) -> None:
        """Bring every endpoint in line with listeners, members and their health. Raises DataPlaneError."""
        with self._applying:
            with self._lock:
                listeners = self._listeners()
                self._note_weights(listeners)
                specs = {spec.name: spec for spec in (self._spec(*entry) for entry in listeners)}
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
        """Listeners of network load balancers with the weight in effect of each target group they forward to."""
        now = self.cloud.clock.epoch()
        listeners = self._known_listeners()
        with self._lock:
            for arn, listener in listeners.items():
                due = self._weights_in_effect.ask(arn, forward_weights(listener.default_actions), now)
                if due is not None:
                    self.cloud.background(f"weights-{arn[-8:]}", partial(self._apply_at, due))
            self._weights_in_effect.keep(listeners)
            return [(listener, self._weights_in_effect.at(arn, now)) for arn, listener in listeners.items()]

    def _known_listeners(self) -> dict[str, Any]:
        return {
            str(listener.arn): listener
            for balancer in list(self.backend.load_balancers.values())
            if balancer.type == "network"
            for listener in list(balancer.listeners.values())
        }

    def _apply_at(self, due: float) -> None:
        if self.cloud.clock.wait_until(due, self.cloud.closing.is_set):
            self.apply_all()

    def _note_weights(self, listeners: Sequence[tuple[Any, dict[str, int]]]) -> None:
        """Set the closing of a group's connections when its weight has become 0 or it is forwarded to no more."""
        for listener, weights in listeners:
            for arn, weight in self._weights.get(listener.arn, {}).items():
                if weight > 0 and not weights.get(arn):
                    self._silence(listener, arn)
            for arn in [arn for arn, weight in weights.items() if weight > 0]:
                self._silenced.pop((listener.arn, arn), None)
        self._weights = {listener.arn: dict(weights) for listener, weights in listeners}
        for key in [key for key in self._silenced if key[0] not in self._weights]:
            del self._silenced[key]

    def _silence(self, listener: Any, group_arn: str) -> None:
        key = (listener.arn, group_arn)
        due = self._silenced[key] = self.cloud.clock.epoch() + self._random.uniform(*SILENCED_SECONDS)
        self.cloud.background(f"silenced-{group_arn[-8:]}", partial(self._close_silenced, listener, key, due))

    def _close_silenced(self, listener: Any, key: tuple[str, str], due: float) -> None:
        """Wait, then close what the group still has, unless it got a weight again in the meantime."""

        def is_over() -> bool:
            return self.cloud.closing.is_set() or self._silenced.get(key) != due

        if not self.cloud.clock.wait_until(due, is_over):
            return
        listener_arn, group_arn = key
        name = self._endpoint_name(listener)
        with self._lock:
            members = [
                member
                for member in self._group_members(group_arn)
                if not self._is_kept_by_another(listener_arn, member)
            ]
            applied = self._applied.get(name)
        known = {target.instance_id for target in applied.targets} if applied else set()
        for target_id in known & {member.target_id for member in members}:
            self.dataplane.endpoints.close_connections(name, target_id)
        with self._lock:
            self._silenced.pop(key, None)
        self.apply_all()

    def _spec(self, listener: Any, weights: Mapping[str, int]) -> ReadEndpointSpec:
        """A group that is not forwarded to any more stays, without weight, until its connections are closed."""
        fading = [arn for listener_arn, arn in self._silenced if listener_arn == listener.arn]
        groups = {**dict.fromkeys(fading, 0), **weights}
        routing = route(
            [
                ForwardedGroup(weight, self._standings(arn, is_fading=arn not in weights))
                for arn, weight in groups.items()
                if arn in self.backend.target_groups
            ]
        )
        name = self._endpoint_name(listener)
        return ReadEndpointSpec(name, int(listener.port), routing.targets, routing.refused_weight)

    def _standings(self, group_arn: str, is_fading: bool) -> tuple[GroupMember, ...]:
        group = self.backend.target_groups[group_arn]
        return tuple(
            GroupMember(
                member.target_id,
                address,
                member.port,
                "leaving" if is_fading else self._standing(group, member),
            )
            for member in self._group_members(group_arn)
            if (address := self._address(group, member)) is not None
        )

    def _standing(self, group: Any, member: Member) -> Standing:
        if member.gone:
            return "leaving"
        if member.drained_at_epoch is not None:
            return member.taking
        if not member.entered:
            return "registering"
        if self._is_stopped(group, member):
            return "stopped"
        return "healthy" if member.verdict == HEALTHY else "waiting"

    def _group_members(self, group_arn: str) -> list[Member]:
        return [member for member in self._members.values() if member.group_arn == group_arn]

    def _endpoints_of(self, group_arn: str) -> list[tuple[str, str]]:
        """(endpoint's name, listener's ARN) of the listeners that the group has, or may have, connections of."""
        found = [
            (self._endpoint_name(listener), str(listener.arn))
            for listener, weights in self._listeners()
            if group_arn in weights or (listener.arn, group_arn) in self._silenced
        ]
        return [(name, arn) for name, arn in found if name in self._applied]

    def _endpoint_name(self, listener: Any) -> str:
        """`<load balancer>-<listener id>`: stays the same when the port changes."""
        return f"{listener.load_balancer_arn.split('/')[-2]}-{listener.arn.rsplit('/', 1)[-1]}"
