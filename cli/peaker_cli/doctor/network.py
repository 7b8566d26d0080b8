"""These checks tell whether the network lets the first run through: subnets, one VPC, security group rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from peaker.domain.reading import Unknown

from peaker_cli.doctor.finding import Area, Finding
from peaker_contract.cluster import ClusterSettings

NETWORK = Area("network")
HTTPS = 443


@dataclass(frozen=True)
class Subnet:
    """`free` is how many addresses are left."""

    subnet_id: str
    zone: str
    vpc_id: str
    cidr: str
    free: int


@dataclass(frozen=True)
class Rule:
    """A rule of a security group, from EC2's IpPermission. `ports` is None for all.

    `sources` are ranges, ids of security groups and of prefix lists; of an outgoing rule, destinations.
    """

    protocol: str
    ports: tuple[int, int] | None
    sources: tuple[str, ...]

    def lets(self, port: int) -> bool:
        """Tells whether TCP to this port is within the rule."""
        if self.protocol == "-1":
            return True
        return self.protocol in ("tcp", "6") and (
            self.ports is None or self.ports[0] <= port <= self.ports[1]
        )


@dataclass(frozen=True)
class Group:
    """A security group."""

    group_id: str
    vpc_id: str
    ingress: tuple[Rule, ...]
    egress: tuple[Rule, ...]


@dataclass(frozen=True)
class NetworkFacts:
    """These answers are subnets and groups by id, those that EC2 does not know left out.

    `base_groups` are those of the base replicas by instance id, `source_groups` those of the source. The load
    balancer's nodes are in `balancer_subnets` and ask from `balancer_groups` (none: from their addresses only); both
    None without a load balancer. `target_vpc` is its target groups'.
    """

    subnets: Mapping[str, Subnet] | Unknown
    groups: Mapping[str, Group] | Unknown
    base_groups: Mapping[str, Sequence[str]]
    source_groups: Sequence[str]
    balancer_subnets: Sequence[str] | Unknown | None = None
    balancer_groups: Sequence[str] | Unknown | None = None
    target_vpc: str | Unknown | None = None


def look_at_network(settings: ClusterSettings, facts: NetworkFacts, room: int) -> list[Finding]:
    """`room` is how many replicas may still be built."""
    found: list[Finding] = []
    if isinstance(facts.subnets, Unknown):
        found.append(NETWORK.unknown("subnets", facts.subnets))
    else:
        known = facts.subnets
        found += [
            _subnet(zone, name, known.get(name), room, facts)
            for zone, name in sorted(settings.subnets.items())
        ]
    if isinstance(facts.groups, Unknown):
        return [*found, NETWORK.unknown("security groups", facts.groups)]
    return [
        *found,
        *_existing(settings, facts.groups),
        _one_vpc(settings, facts, facts.groups),
        *_ingress(settings, facts, facts.groups),
        *_egress(settings, facts.groups),
        *_to_source(settings, facts, facts.groups),
    ]


def _subnet(zone: str, name: str, subnet: Subnet | None, room: int, facts: NetworkFacts) -> Finding:
    check, wrong = f"subnet {name}", "set subnets to the zone's own subnet, and deploy"
    if subnet is None:
        return NETWORK.refuses(check, f"there is no {name}", wrong)
    if subnet.zone != zone:
        return NETWORK.refuses(check, f"{name} is in {subnet.zone}, the settings say {zone}", wrong)
    detail = f"{zone}, {subnet.free} free addresses of {subnet.cidr}"
    remedy = "free addresses, or name a larger subnet of that zone"
    if isinstance(facts.balancer_subnets, Sequence) and name in facts.balancer_subnets:
        # Else the deployment would give the load balancer another subnet of a zone that it is in, which AWS refuses.
        remedy += f", with {zone}: {name} in read_endpoint.subnets, where the load balancer stays"
    numbers = {"free": subnet.free, "wanted": room}
    if not subnet.free and room:
        return NETWORK.refuses(check, f"{detail}: no replica can start there", remedy, **numbers)
    if subnet.free < room:
        return NETWORK.warns(check, f"{detail}, {room} replicas may be wanted", remedy, **numbers)
    return NETWORK.passes(check, detail, **numbers)


def _existing(settings: ClusterSettings, groups: Mapping[str, Group]) -> Iterable[Finding]:
    for name in settings.security_group_ids:
        if name not in groups:
            yield NETWORK.refuses(
                f"security group {name}",
                f"there is no {name}",
                "set security_group_ids to groups that exist, and deploy",
            )


def _one_vpc(settings: ClusterSettings, facts: NetworkFacts, groups: Mapping[str, Group]) -> Finding:
    places: dict[str, list[str]] = {}
    subnets = {} if isinstance(facts.subnets, Unknown) else facts.subnets
    for subnet_id in settings.subnets.values():
        if subnet_id in subnets:
            places.setdefault(subnets[subnet_id].vpc_id, []).append(subnet_id)
    for group_id in settings.security_group_ids:
        if group_id in groups:
            places.setdefault(groups[group_id].vpc_id, []).append(group_id)
    if isinstance(facts.target_vpc, str):
        places.setdefault(facts.target_vpc, []).append("the target groups")
    if len(places) > 1:
        shown = "; ".join(f"{vpc}: {', '.join(names)}" for vpc, names in sorted(places.items()))
        remedy = "name subnets, security groups and vpc_id of one VPC, and deploy"
        return NETWORK.refuses("VPC", f"not all is in one VPC: {shown}", remedy)
    return NETWORK.passes("VPC", f"all is in {', '.join(places) or 'no VPC that is known'}")


def _ingress(
    settings: ClusterSettings, facts: NetworkFacts, groups: Mapping[str, Group]
) -> Iterable[Finding]:
    """Checks the rules of peak replicas by the settings, and of each base replica by its own groups."""
    endpoint = settings.read_endpoint
    hosts = {"peak replicas": settings.security_group_ids, **facts.base_groups}
    for who, named in hosts.items():
        rules = [rule for name in named if name in groups for rule in groups[name].ingress]
        yield _open(who, named, rules, "server port", endpoint.port, "the clients")
        health = _open(
            who, named, rules, "health port", endpoint.health_port, "the load balancer and the replicas"
        )
        if health.remedy or facts.balancer_subnets is None:
            yield health
        else:
            yield _balancer_reaches(who, named, rules, endpoint.health_port, facts)


def _open(who: str, named: Sequence[str], rules: Sequence[Rule], what: str, port: int, whom: str) -> Finding:
    check = f"{what} of {who}"
    sources = sorted({source for rule in rules if rule.lets(port) for source in rule.sources})
    if not sources:
        return NETWORK.refuses(
            check,
            f"no rule of {', '.join(named) or 'no group'} lets TCP {port} in",
            f"let {whom} in: {_authorize(named, port)}",
            port=port,
        )
    return NETWORK.passes(check, f"TCP {port} from {', '.join(sources)}", port=port)


def _balancer_reaches(
    who: str, named: Sequence[str], rules: Sequence[Rule], port: int, facts: NetworkFacts
) -> Finding:
    """A load balancer without groups of its own is let in by the addresses of its subnets only."""
    check = f"health port of {who}"
    for told in (facts.balancer_subnets, facts.balancer_groups, facts.subnets):
        if isinstance(told, Unknown):
            return NETWORK.unknown(check, told)
    subnets = facts.subnets if isinstance(facts.subnets, Mapping) else {}
    own = facts.balancer_groups if isinstance(facts.balancer_groups, Sequence) else ()
    asked = facts.balancer_subnets if isinstance(facts.balancer_subnets, Sequence) else ()
    sources = sorted({source for rule in rules if rule.lets(port) for source in rule.sources})
    ranges = [subnets[name].cidr for name in asked if name in subnets]
    outside = [one for one in ranges if not _let_in(one, own, sources)]
    if outside:
        return NETWORK.refuses(
            check,
            f"TCP {port} is open to {', '.join(sources)}, and the load balancer asks from {', '.join(outside)}"
            + ("" if own else " (it has no security group: a rule must name its addresses)"),
            f"let the load balancer in: {_authorize(named, port, outside[0])}",
            port=port,
        )
    return NETWORK.passes(
        check, f"TCP {port} from {', '.join(sources)}, the load balancer's subnets too", port=port
    )


def _let_in(cidr: str, groups: Sequence[str], sources: Sequence[str]) -> bool:
    """Tells whether the rule lets the source in. A prefix list counts as letting in; its content is not read."""
    return any(source in groups or source.startswith("pl-") or _covers(source, cidr) for source in sources)


def _covers(source: str, cidr: str) -> bool:
    if "/" not in source:
        return False
    outer, inner = ip_network(source, strict=False), ip_network(cidr, strict=False)
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _egress(settings: ClusterSettings, groups: Mapping[str, Group]) -> Iterable[Finding]:
    named = settings.security_group_ids
    rules = [rule for name in named if name in groups for rule in groups[name].egress]
    for port, whom in ((HTTPS, "Systems Manager and S3"), (settings.read_endpoint.port, "the source")):
        check = f"way out to {whom}"
        reached = sorted({source for rule in rules if rule.lets(port) for source in rule.sources})
        if reached:
            yield NETWORK.passes(check, f"TCP {port} to {', '.join(reached)}", port=port)
        else:
            yield NETWORK.refuses(
                check,
                f"no rule of {', '.join(named)} lets TCP {port} out",
                _authorize(named, port, direction="egress"),
                port=port,
            )


def _to_source(
    settings: ClusterSettings, facts: NetworkFacts, groups: Mapping[str, Group]
) -> Iterable[Finding]:
    """The source's port is taken to be that of the replicas."""
    if not facts.source_groups:
        return
    port, check = settings.read_endpoint.port, "source's port"
    rules = [rule for name in facts.source_groups if name in groups for rule in groups[name].ingress]
    sources = sorted({source for rule in rules if rule.lets(port) for source in rule.sources})
    subnets = {} if isinstance(facts.subnets, Unknown) else facts.subnets
    ranges = [subnets[name].cidr for name in settings.subnets.values() if name in subnets]
    outside = [one for one in ranges if not _let_in(one, settings.security_group_ids, sources)]
    if outside:
        detail = f"no rule of {', '.join(facts.source_groups)} lets TCP {port} in from {', '.join(outside)}"
        remedy = f"let the replicas in: {_authorize(facts.source_groups, port, outside[0])}"
        yield NETWORK.warns(check, detail, f"{remedy}; unless the source listens at another port", port=port)
    else:
        yield NETWORK.passes(check, f"TCP {port} from {', '.join(sources)}", port=port)


def _authorize(named: Sequence[str], port: int, cidr: str = "RANGE", direction: str = "ingress") -> str:
    group = named[0] if named else "GROUP"
    command = f"aws ec2 authorize-security-group-{direction} --group-id {group}"
    return f"{command} --protocol tcp --port {port} --cidr {cidr}"
