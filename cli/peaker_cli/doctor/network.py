"""Checks of the network that the first run needs: subnets, one VPC, security group rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from peaker.domain.reading import Unknown

from peaker_cli.doctor.finding import Area, Finding, Raw
from peaker_contract.cluster import ClusterSettings

NETWORK = Area("network")
HTTPS = 443
# Where a rule of EC2 has the ranges, groups and prefix lists that it is about.
_ENDS = (
    ("IpRanges", "CidrIp"),
    ("Ipv6Ranges", "CidrIpv6"),
    ("UserIdGroupPairs", "GroupId"),
    ("PrefixListIds", "PrefixListId"),
)


@dataclass(frozen=True)
class NetworkFacts:
    """EC2's descriptions of subnets and groups by id, those that it does not know left out.

    `base_groups` are those of the base replicas by instance id, `source_groups` those of the source. `balancers` are
    those before the target groups, whose VPC is `target_vpc`; None without a load balancer.
    """

    subnets: Mapping[str, Raw] | Unknown
    groups: Mapping[str, Raw] | Unknown
    base_groups: Mapping[str, Sequence[str]]
    source_groups: Sequence[str]
    balancers: Sequence[Raw] | Unknown | None = None
    target_vpc: str | Unknown | None = None

    @property
    def balancer_subnets(self) -> list[str]:
        found = () if self.balancers is None or isinstance(self.balancers, Unknown) else self.balancers
        return [zone["SubnetId"] for one in found for zone in one["AvailabilityZones"]]


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


def _subnet(zone: str, name: str, subnet: Raw | None, room: int, facts: NetworkFacts) -> Finding:
    check, wrong = f"subnet {name}", "set subnets to the zone's own subnet, and deploy"
    if subnet is None:
        return NETWORK.refuses(check, f"there is no {name}", wrong)
    if subnet["AvailabilityZone"] != zone:
        detail = f"{name} is in {subnet['AvailabilityZone']}, the settings say {zone}"
        return NETWORK.refuses(check, detail, wrong)
    free = int(subnet["AvailableIpAddressCount"])
    detail = f"{zone}, {free} free addresses of {subnet['CidrBlock']}"
    remedy = "free addresses, or name a larger subnet of that zone"
    if name in facts.balancer_subnets:
        # Else the deployment would give the load balancer another subnet of a zone that it is in, which AWS refuses.
        remedy += f", with {zone}: {name} in read_endpoint.subnets, where the load balancer stays"
    numbers = {"free": free, "wanted": room}
    if not free and room:
        return NETWORK.refuses(check, f"{detail}: no replica can start there", remedy, **numbers)
    if free < room:
        return NETWORK.warns(check, f"{detail}, {room} replicas may be wanted", remedy, **numbers)
    return NETWORK.passes(check, detail, **numbers)


def _existing(settings: ClusterSettings, groups: Mapping[str, Raw]) -> Iterable[Finding]:
    for name in settings.security_group_ids:
        if name not in groups:
            remedy = "set security_group_ids to groups that exist, and deploy"
            yield NETWORK.refuses(f"security group {name}", f"there is no {name}", remedy)


def _one_vpc(settings: ClusterSettings, facts: NetworkFacts, groups: Mapping[str, Raw]) -> Finding:
    places: dict[str, list[str]] = {}
    known = {**({} if isinstance(facts.subnets, Unknown) else facts.subnets), **groups}
    for name in (*settings.subnets.values(), *settings.security_group_ids):
        if name in known:
            places.setdefault(known[name].get("VpcId", ""), []).append(name)
    if isinstance(facts.target_vpc, str):
        places.setdefault(facts.target_vpc, []).append("the target groups")
    if len(places) > 1:
        shown = "; ".join(f"{vpc}: {', '.join(names)}" for vpc, names in sorted(places.items()))
        remedy = "name subnets, security groups and vpc_id of one VPC, and deploy"
        return NETWORK.refuses("VPC", f"not all is in one VPC: {shown}", remedy)
    return NETWORK.passes("VPC", f"all is in {', '.join(places) or 'no VPC that is known'}")


def _ingress(settings: ClusterSettings, facts: NetworkFacts, groups: Mapping[str, Raw]) -> Iterable[Finding]:
    """Checks the rules of peak replicas by the settings, and of each base replica by its own groups."""
    endpoint = settings.read_endpoint
    hosts = {"peak replicas": settings.security_group_ids, **facts.base_groups}
    for who, named in hosts.items():
        clients = _let_in_by(groups, named, endpoint.port)
        yield _open(f"server port of {who}", named, clients, endpoint.port, "the clients")
        check, sources = f"health port of {who}", _let_in_by(groups, named, endpoint.health_port)
        if not sources or facts.balancers is None:
            whom = "the load balancer and the replicas"
            yield _open(check, named, sources, endpoint.health_port, whom)
        else:
            yield _balancer_reaches(check, named, sources, endpoint.health_port, facts)


def _open(check: str, named: Sequence[str], sources: Sequence[str], port: int, whom: str) -> Finding:
    if not sources:
        detail = f"no rule of {', '.join(named) or 'no group'} lets TCP {port} in"
        return NETWORK.refuses(check, detail, f"let {whom} in: {_authorize(named, port)}", port=port)
    return NETWORK.passes(check, f"TCP {port} from {', '.join(sources)}", port=port)


def _balancer_reaches(
    check: str, named: Sequence[str], sources: Sequence[str], port: int, facts: NetworkFacts
) -> Finding:
    """A load balancer without groups of its own is let in by the addresses of its subnets only."""
    if isinstance(facts.balancers, Unknown):
        return NETWORK.unknown(check, facts.balancers)
    if isinstance(facts.subnets, Unknown):
        return NETWORK.unknown(check, facts.subnets)
    own = [group for one in facts.balancers or () for group in one.get("SecurityGroups", ())]
    outside = _shut_out(facts.balancer_subnets, facts.subnets, own, sources)
    if outside:
        detail = (
            f"TCP {port} is open to {', '.join(sources)}, and the load balancer asks from {', '.join(outside)}"
            + ("" if own else " (it has no security group: a rule must name its addresses)")
        )
        remedy = f"let the load balancer in: {_authorize(named, port, outside[0])}"
        return NETWORK.refuses(check, detail, remedy, port=port)
    detail = f"TCP {port} from {', '.join(sources)}, the load balancer's subnets too"
    return NETWORK.passes(check, detail, port=port)


def _egress(settings: ClusterSettings, groups: Mapping[str, Raw]) -> Iterable[Finding]:
    named = settings.security_group_ids
    for port, whom in ((HTTPS, "Systems Manager and S3"), (settings.read_endpoint.port, "the source")):
        check = f"way out to {whom}"
        if reached := _let_in_by(groups, named, port, "IpPermissionsEgress"):
            yield NETWORK.passes(check, f"TCP {port} to {', '.join(reached)}", port=port)
        else:
            detail = f"no rule of {', '.join(named)} lets TCP {port} out"
            yield NETWORK.refuses(check, detail, _authorize(named, port, direction="egress"), port=port)


def _to_source(
    settings: ClusterSettings, facts: NetworkFacts, groups: Mapping[str, Raw]
) -> Iterable[Finding]:
    """The source's port is taken to be that of the replicas."""
    if not facts.source_groups:
        return
    port, check = settings.read_endpoint.port, "source's port"
    sources = _let_in_by(groups, facts.source_groups, port)
    subnets = {} if isinstance(facts.subnets, Unknown) else facts.subnets
    outside = _shut_out(settings.subnets.values(), subnets, settings.security_group_ids, sources)
    if outside:
        detail = f"no rule of {', '.join(facts.source_groups)} lets TCP {port} in from {', '.join(outside)}"
        remedy = f"let the replicas in: {_authorize(facts.source_groups, port, outside[0])}"
        yield NETWORK.warns(check, detail, f"{remedy}; unless the source listens at another port", port=port)
    else:
        yield NETWORK.passes(check, f"TCP {port} from {', '.join(sources)}", port=port)


def _let_in_by(
    groups: Mapping[str, Raw], named: Sequence[str], port: int, rules: str = "IpPermissions"
) -> list[str]:
    """Returns the ranges, groups and prefix lists that the named groups' rules let through to the port by TCP."""
    letting = [
        rule for name in named if name in groups for rule in groups[name].get(rules, ()) if _lets(rule, port)
    ]
    ends = (one.get(key) for rule in letting for kind, key in _ENDS for one in rule.get(kind, ()))
    return sorted({str(one) for one in ends if one})


def _lets(rule: Raw, port: int) -> bool:
    """Tells whether TCP to this port is within the rule; a rule without ports, or with -1, is of all of them."""
    if rule["IpProtocol"] not in ("-1", "tcp", "6"):
        return False
    first, last = rule.get("FromPort", -1), rule.get("ToPort", -1)
    return rule["IpProtocol"] == "-1" or -1 in (first, last) or first <= port <= last


def _shut_out(
    names: Iterable[str], subnets: Mapping[str, Raw], groups: Sequence[str], sources: Sequence[str]
) -> list[str]:
    """Returns the ranges of these subnets that the sources do not cover, for hosts of these groups.

    A prefix list counts as letting in; its content is not read.
    """
    ranges = [subnets[name]["CidrBlock"] for name in names if name in subnets]
    if any(source in groups or source.startswith("pl-") for source in sources):
        return []
    return [one for one in ranges if not any(_covers(source, one) for source in sources)]


def _covers(source: str, cidr: str) -> bool:
    if "/" not in source:
        return False
    outer, inner = ip_network(source, strict=False), ip_network(cidr, strict=False)
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _authorize(named: Sequence[str], port: int, cidr: str = "RANGE", direction: str = "ingress") -> str:
    group = named[0] if named else "GROUP"
    command = f"aws ec2 authorize-security-group-{direction} --group-id {group}"
    return f"{command} --protocol tcp --port {port} --cidr {cidr}"
