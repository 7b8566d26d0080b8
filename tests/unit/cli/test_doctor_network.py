"""peaker doctor on the network: subnets, one VPC, who is let in and out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.reading import Unknown
from peaker_cli.doctor.finding import Finding, NotTold
from peaker_cli.doctor.network import NetworkFacts, look_at_network

from tests.support.builders import BASE, BY_NAME, orders

A, B = "subnet-0a77000000000001a", "subnet-0a77000000000001b"
GROUP, OTHER = "sg-0a770000000000001", "sg-0a770000000000002"
VPC = "vpc-1"


def rule(protocol: str, ports: tuple[int, int] | None, *ends: str) -> dict[str, Any]:
    """As EC2 describes it: of ranges, groups or prefix lists, by how they look."""
    kinds = {"sg-": ("UserIdGroupPairs", "GroupId"), "pl-": ("PrefixListIds", "PrefixListId")}
    found: dict[str, Any] = {"IpProtocol": protocol}
    if ports is not None:
        found |= {"FromPort": ports[0], "ToPort": ports[1]}
    for one in ends:
        address = ("Ipv6Ranges", "CidrIpv6") if ":" in one else ("IpRanges", "CidrIp")
        kind, key = kinds.get(one[:3], address)
        found.setdefault(kind, []).append({key: one})
    return found


def tcp(port: int, *sources: str) -> dict[str, Any]:
    return rule("tcp", (port, port), *sources)


def group(*ingress: dict[str, Any], name: str = GROUP) -> dict[str, Any]:
    out = [rule("-1", None, "0.0.0.0/0")]
    return {"GroupId": name, "VpcId": VPC, "IpPermissions": ingress, "IpPermissionsEgress": out}


def subnet(name: str, zone: str, cidr: str) -> dict[str, Any]:
    return {
        "SubnetId": name,
        "AvailabilityZone": zone,
        "VpcId": VPC,
        "CidrBlock": cidr,
        "AvailableIpAddressCount": 250,
    }


def balancers(*subnets: str, groups: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return [{"AvailabilityZones": [{"SubnetId": one} for one in subnets], "SecurityGroups": groups}]


OPEN = group(tcp(3306, "10.77.0.0/16"), tcp(9200, "10.77.0.0/16"))
SUBNETS = {A: subnet(A, "us-east-1a", "10.77.1.0/24"), B: subnet(B, "us-east-1b", "10.77.2.0/24")}
GOOD = NetworkFacts(
    subnets=SUBNETS,
    groups={GROUP: OPEN},
    base_groups={BASE: (GROUP,)},
    source_groups=(GROUP,),
    balancers=balancers(A, B),
    target_vpc=VPC,
)


def looked(room: int = 2, **facts: Any) -> dict[str, Finding]:
    return {one.check: one for one in look_at_network(orders(), replace(GOOD, **facts), room)}


def with_rules(*rules: dict[str, Any], **more: Any) -> dict[str, Finding]:
    return looked(groups={GROUP: group(*rules)}, **more)


def test_a_sound_network_passes_in_every_line() -> None:
    assert {one.verdict.value for one in looked().values()} == {"pass"}


@pytest.mark.parametrize(
    ("changes", "room", "verdict", "detail"),
    [
        ({"AvailabilityZone": "us-east-1f"}, 2, "refuse", "is in us-east-1f"),
        ({"AvailableIpAddressCount": 0}, 2, "refuse", "no replica can start there"),
        ({"AvailableIpAddressCount": 1}, 2, "warn", "1 free addresses"),
        ({"AvailableIpAddressCount": 0}, 0, "pass", "0 free"),
    ],
)
def test_a_subnet_is_where_it_should_be_and_has_room(
    changes: dict[str, Any], room: int, verdict: str, detail: str
) -> None:
    line = looked(room, subnets={**SUBNETS, A: SUBNETS[A] | changes})[f"subnet {A}"]
    assert (line.verdict.value, detail in line.detail) == (verdict, True), line


@pytest.mark.parametrize(("there", "stays"), [(balancers(A, B), True), (balancers(B), False), (None, False)])
def test_a_larger_subnet_leaves_the_load_balancer_where_it_is(there: Any, stays: bool) -> None:
    full = {**SUBNETS, A: SUBNETS[A] | {"AvailableIpAddressCount": 0}}
    line = looked(subnets=full, balancers=there)[f"subnet {A}"]
    assert (f"with us-east-1a: {A} in read_endpoint.subnets" in line.remedy) == stays


def test_a_subnet_and_a_group_that_are_not_there() -> None:
    assert looked(subnets={B: SUBNETS[B]})[f"subnet {A}"].verdict.value == "refuse"
    found = looked(groups={})
    assert found[f"security group {GROUP}"].verdict.value == "refuse"


@pytest.mark.parametrize(
    "facts",
    [
        {"subnets": {**SUBNETS, B: SUBNETS[B] | {"VpcId": "vpc-2"}}},
        {"groups": {GROUP: OPEN | {"VpcId": "vpc-2"}}},
        {"target_vpc": "vpc-2"},
    ],
)
def test_all_is_in_one_vpc(facts: dict[str, Any]) -> None:
    line = looked(**facts)["VPC"]
    assert line.verdict.value == "refuse"
    assert "vpc-2" in line.detail


class TestTheWayIn:
    def test_no_rule_for_a_port_is_refused_with_the_command_that_makes_one(self) -> None:
        found = with_rules(tcp(22, "0.0.0.0/0"))
        for port, what in ((3306, "server"), (9200, "health")):
            line = found[f"{what} port of peak replicas"]
            assert line.verdict.value == "refuse"
            assert (
                f"authorize-security-group-ingress --group-id {GROUP} --protocol tcp --port {port}"
                in line.remedy
            )

    @pytest.mark.parametrize(
        ("found", "verdict"),
        [
            (rule("-1", None, "10.0.0.0/8"), "pass"),
            (rule("tcp", (1024, 65535), "10.77.0.0/16"), "pass"),
            (rule("6", None, "0.0.0.0/0"), "pass"),
            (rule("udp", (9200, 9200), "10.0.0.0/8"), "refuse"),
            (rule("tcp", (9201, 9300), "10.0.0.0/8"), "refuse"),
            (tcp(9200, "pl-1"), "pass"),
            (tcp(9200, "::/0"), "refuse"),
        ],
    )
    def test_a_rule_lets_in_by_protocol_port_and_range(self, found: dict[str, Any], verdict: str) -> None:
        """What a prefix list holds is not doubted; IPv6 says nothing of IPv4."""
        assert with_rules(found)["health port of peak replicas"].verdict.value == verdict

    def test_a_load_balancer_without_groups_is_let_in_by_its_addresses_only(self) -> None:
        rules = (tcp(3306, "10.0.0.0/8"), tcp(9200, GROUP))
        line = with_rules(*rules)["health port of peak replicas"]
        assert line.verdict.value == "refuse"
        assert "it has no security group" in line.detail
        with_a_group = with_rules(*rules, balancers=balancers(A, B, groups=(GROUP,)))
        assert with_a_group["health port of peak replicas"].verdict.value == "pass"

    def test_every_subnet_of_the_load_balancer_counts(self) -> None:
        line = with_rules(tcp(3306, "10.0.0.0/8"), tcp(9200, "10.77.1.0/24"))["health port of peak replicas"]
        assert line.verdict.value == "refuse"
        assert "10.77.2.0/24" in line.detail
        assert "10.77.1.0/24" in line.detail

    def test_base_replicas_have_groups_of_their_own(self) -> None:
        groups = {GROUP: OPEN, OTHER: group(tcp(3306, "10.0.0.0/8"), name=OTHER)}
        line = looked(groups=groups, base_groups={BASE: (OTHER,)})[f"health port of {BASE}"]
        assert line.verdict.value == "refuse"
        assert OTHER in line.remedy

    def test_without_a_load_balancer_the_replicas_ask_each_other(self) -> None:
        groups = {GROUP: group(tcp(3306, "10.0.0.0/8"), tcp(9200, GROUP))}
        facts = replace(GOOD, groups=groups, balancers=None, target_vpc=None)
        found = {one.check: one for one in look_at_network(orders(read_endpoint=BY_NAME), facts, 2)}
        assert found["health port of peak replicas"].verdict.value == "pass"


class TestTheWayOut:
    def test_a_source_that_keeps_the_replicas_out(self) -> None:
        shut = group(tcp(3306, "10.77.1.0/24"), name=OTHER)
        line = looked(groups={GROUP: OPEN, OTHER: shut}, source_groups=(OTHER,))["source's port"]
        assert line.verdict.value == "warn"
        assert "10.77.2.0/24" in line.detail
        by_group = group(tcp(3306, GROUP), name=OTHER)
        found = looked(groups={GROUP: OPEN, OTHER: by_group}, source_groups=(OTHER,))
        assert found["source's port"].verdict.value == "pass"


@pytest.mark.parametrize(
    ("facts", "check"),
    [
        ({"subnets": NotTold("denied", "ec2:DescribeSubnets")}, "subnets"),
        ({"groups": NotTold("denied", "ec2:DescribeSecurityGroups")}, "security groups"),
        ({"balancers": Unknown("no answer")}, "health port of peak replicas"),
    ],
)
def test_what_is_not_told_is_unknown(facts: dict[str, Any], check: str) -> None:
    assert looked(**facts)[check].verdict.value == "unknown"
