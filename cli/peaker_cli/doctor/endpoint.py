"""These checks compare the read endpoint with the settings and look for a base replica that serves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import TargetHealth, TargetState

from peaker_cli.doctor.finding import Area, Finding, Raw
from peaker_contract.cluster import ClusterSettings
from peaker_contract.endpoint_settings import NlbEndpointSettings, Route53EndpointSettings

ENDPOINT = Area("read endpoint")
# What the responder on the hosts answers at (peaker_host/health/server.py).
HEALTH_PATH = "/health"
NOT_IN_USE = "Target.NotInUse"
_OTHER_ZONE = (
    "name a subnet of the replica's zone in read_endpoint.subnets, and deploy: the load balancer is in others"
)
_UNHEALTHY = "docs/runbooks/empty-read-endpoint.md; systemctl status peaker-health on the host"
_FIXED = (
    "AWS changes no target group's port: set read_endpoint.port to {port} and deploy, or remove the cluster and deploy "
    "it anew"
)
_DEPLOY = "deploy the stack again: npx cdk deploy -c env={environment} '**'"


@dataclass(frozen=True)
class EndpointFacts:
    """Answers about the endpoint; None is AWS's `there is none`. `health` is of the serving group, by instance id."""

    health: Mapping[str, TargetHealth] | Unknown
    groups: Mapping[str, Raw] | Unknown | None = None
    listener: Raw | Unknown | None = None
    zone: str | Unknown | None = None
    record_ttls: Sequence[int] | Unknown = ()


def look_at_endpoint(settings: ClusterSettings, facts: EndpointFacts, base: Sequence[str]) -> list[Finding]:
    """`base` are the ids of the running base replicas."""
    match settings.read_endpoint:
        case NlbEndpointSettings() as endpoint:
            own = [*_target_groups(settings, endpoint, facts), _listener(settings, endpoint, facts)]
        case Route53EndpointSettings() as endpoint:
            own = [_zone(endpoint, facts), *_ttl(settings, endpoint, facts)]
        case other:
            assert_never(other)
    return [*own, *_serving(settings, facts, base)]


def _target_groups(
    settings: ClusterSettings, endpoint: NlbEndpointSettings, facts: EndpointFacts
) -> Iterable[Finding]:
    deploy = _DEPLOY.format(environment=settings.environment)
    for field in ("target_group_arn", "warming_target_group_arn"):
        arn, check = getattr(endpoint, field), field.removesuffix("_arn").replace("_", " ")
        if isinstance(facts.groups, Unknown):
            yield ENDPOINT.unknown(check, facts.groups)
            continue
        group = (facts.groups or {}).get(arn or "")
        if group is None:
            yield ENDPOINT.refuses(
                check, f"there is no target group {arn or '(the settings name none)'}", deploy
            )
            continue
        wrong = list(_differences(endpoint, group))
        if wrong:
            port = group.get("Port")
            remedy = deploy if port == endpoint.port else _FIXED.format(port=port)
            yield ENDPOINT.refuses(check, "; ".join(wrong), remedy)
        else:
            asked = f"HTTP {group['HealthCheckPort']}{group['HealthCheckPath']}"
            yield ENDPOINT.passes(check, f"targets at port {group['Port']}, health asked at {asked}")


def _differences(endpoint: NlbEndpointSettings, group: Raw) -> Iterable[str]:
    port, health_port = group.get("Port"), str(group.get("HealthCheckPort", ""))
    protocol, path = group.get("HealthCheckProtocol", ""), group.get("HealthCheckPath", "")
    if port != endpoint.port:
        yield f"its targets are at port {port}, the settings say {endpoint.port}"
    if (str(port) if health_port == "traffic-port" else health_port) != str(endpoint.health_port):
        yield f"it asks for health at port {health_port}, the settings say {endpoint.health_port}"
    if protocol != "HTTP":
        yield f"it asks for health by {protocol}, the responder speaks HTTP"
    elif path != HEALTH_PATH:
        yield f"it asks for health at {path}, the responder answers at {HEALTH_PATH}"
    if not group.get("LoadBalancerArns"):
        yield "no load balancer forwards to it"


def _listener(settings: ClusterSettings, endpoint: NlbEndpointSettings, facts: EndpointFacts) -> Finding:
    listener, deploy = facts.listener, _DEPLOY.format(environment=settings.environment)
    if isinstance(listener, Unknown):
        return ENDPOINT.unknown("listener", listener)
    if listener is None:
        return ENDPOINT.refuses("listener", f"there is no listener {endpoint.listener_arn}", deploy)
    port = listener["Port"]
    if port != endpoint.listener_port:
        detail = f"it listens at port {port}, the settings say {endpoint.listener_port}"
        return ENDPOINT.refuses("listener", detail, deploy)
    actions = listener.get("DefaultActions", [])
    targets = [group for one in actions for group in one.get("ForwardConfig", {}).get("TargetGroups", [])]
    forwarded = {one.get("TargetGroupArn") for one in (*actions, *targets)}
    if missing := sorted(
        str(arn)
        for arn in (endpoint.target_group_arn, endpoint.warming_target_group_arn)
        if arn not in forwarded
    ):
        return ENDPOINT.refuses("listener", f"it does not forward to {', '.join(missing)}", deploy)
    return ENDPOINT.passes("listener", f"port {port} forwards to both target groups")


def _zone(endpoint: Route53EndpointSettings, facts: EndpointFacts) -> Finding:
    zone, name = facts.zone, endpoint.record_name.rstrip(".").lower()
    if isinstance(zone, Unknown):
        return ENDPOINT.unknown("hosted zone", zone)
    remedy = "set hosted_zone_id and record_name of one zone, and deploy"
    if zone is None:
        return ENDPOINT.refuses("hosted zone", f"there is no hosted zone {endpoint.hosted_zone_id}", remedy)
    if name != zone and not name.endswith(f".{zone}"):
        detail = f"{name} is not in {zone} ({endpoint.hosted_zone_id})"
        return ENDPOINT.refuses("hosted zone", detail, remedy)
    return ENDPOINT.passes("hosted zone", f"{name} is in {zone}")


def _ttl(
    settings: ClusterSettings, endpoint: Route53EndpointSettings, facts: EndpointFacts
) -> Iterable[Finding]:
    if isinstance(facts.record_ttls, Unknown):
        yield ENDPOINT.unknown("record", facts.record_ttls)
        return
    other = sorted({ttl for ttl in facts.record_ttls if ttl != endpoint.ttl_seconds})
    if other:
        said = f"the settings say {endpoint.ttl_seconds} s"
        detail = f"records of {endpoint.record_name} have a TTL of {other[0]} s, {said}"
        line = f"peaker register-base {settings.name} INSTANCE --env {settings.environment}"
        remedy = f"register each base replica again: {line}"
        yield ENDPOINT.warns("record", detail, remedy)


def _serving(settings: ClusterSettings, facts: EndpointFacts, base: Sequence[str]) -> Iterable[Finding]:
    """A donor must be healthy at the endpoint; the others serve nobody."""
    if isinstance(facts.health, Unknown):
        yield ENDPOINT.unknown("base replicas", facts.health)
        return
    states = {name: facts.health.get(name, TargetHealth(TargetState.ABSENT)) for name in base}
    healthy = [name for name, one in states.items() if one.state is TargetState.HEALTHY]
    for name, one in sorted(states.items()):
        if name in healthy:
            yield ENDPOINT.passes(name, "healthy at the read endpoint")
            continue
        if one.state is TargetState.ABSENT:
            register = f"peaker register-base {settings.name} {name} --env {settings.environment}"
            told = ("is not behind the read endpoint", register)
        else:
            why = f"{one.state.value} at the read endpoint {one.reason}".rstrip()
            told = (why, _OTHER_ZONE if one.reason.startswith(NOT_IN_USE) else _UNHEALTHY)
        if healthy:
            yield ENDPOINT.warns(name, *told)
        else:
            yield ENDPOINT.refuses(
                name, f"{told[0]}, and no other replica is healthy: there is no donor", told[1]
            )
