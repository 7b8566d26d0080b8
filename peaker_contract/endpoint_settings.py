"""Endpoint settings say how readers find the replicas, and how a replica joins, stays and leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, field_validator, model_validator

from peaker_contract.field_types import (
    MOST_REPLICAS,
    Fault,
    Number,
    Port,
    Settings,
    SubnetId,
    ZoneName,
    refuse,
    text,
)

# Longer waits than this outlast the retries of DrainReplica and ConfirmIdle: 1000 of them, at most 30 s apart.
LONGEST_WAIT_SECONDS = 28_800
# A network load balancer acts on a registration, a deregistration and new weights 3 to 5 minutes later (AWS Support in
# aws-load-balancer-controller#1834).
NLB_PROPAGATION_SECONDS = 300
# Changes reach all of Route 53's name servers within this, in general (botocore, route53:ChangeResourceRecordSets).
ROUTE53_PROPAGATION_SECONDS = 60
# A DNS name hears of a bad replica only by the check, two of its periods late.
ROUTE53_LONGEST_CHECK_MINUTES = 5

_KIND = "Kind of read endpoint. Without it: `route53` with a zone or record, else `nlb`."
_PORT = "Port that MySQL answers on at every replica."
_FIXED_ONCE_DEPLOYED = (
    "Fixed once deployed, because AWS changes no target group's port: remove the cluster and deploy it anew, or "
    "deploy another one under a new name."
)
# Ports of a database host that its other services listen at.
_TAKEN_PORTS = {
    3306: "MySQL", 4444: "Galera", 4567: "Galera", 4568: "Galera", 9100: "the node exporter of Prometheus",
    9104: "the MySQL exporter of Prometheus", 10050: "the Zabbix agent",
    33060: "MySQL's X protocol", 33062: "MySQL's administrators",
}  # fmt: skip
FIRST_FREE_PORT = 1024


class _Endpoint(Settings):
    """What endpoints of all kinds have.

    `late_because` says why a client may act for some time on the endpoint's former state. `longest_check_minutes` is
    the rarest check by which a bad replica is noticed in time; None where the endpoint looks for itself.
    """

    late_because: ClassVar[str]
    longest_check_minutes: ClassVar[int | None] = None

    kind: str
    port: Port = Field(default=3306, description=_PORT)
    health_port: Port = Field(
        default=9200,
        description="Port of the replicas' health responder (HTTP); another than `port`. A change is asked for as soon "
        "as it is deployed: run `peaker prepare-base` on each base replica then, and retire peak replicas before, "
        "which answer at the old one.",
    )
    source_serves_reads: StrictBool = Field(
        default=False, description="Whether the health responder of a source answers good."
    )

    @model_validator(mode="after")
    def _has_ports_of_its_own(self) -> Self:
        refuse(self._shared_ports())
        return self

    def _shared_ports(self) -> Iterator[Fault]:
        if self.health_port == self.port:
            yield Fault(
                ("health_port",),
                f"must be another port than port, where MySQL answers ({self.port}): the health responder needs its "
                "own, such as 9200",
            )
        elif self.health_port < FIRST_FREE_PORT or self.health_port in _TAKEN_PORTS:
            owner = _TAKEN_PORTS.get(self.health_port, "a service of the system")
            yield Fault(
                ("health_port",),
                f"must be a port that nothing else on the host has, {FIRST_FREE_PORT} or above, such as 9200; "
                f"{self.health_port} is that of {owner}",
            )


def _the_replicas_port(valid: dict[str, Any]) -> Any:
    """Returns the replicas' port, which the load balancer listens at where nothing else is said."""
    return valid.get("port")


class NlbEndpoint(_Endpoint):
    """An internal Network Load Balancer, which Peaker makes; clients connect to `listener_port`."""

    late_because = "the load balancer acts minutes late"

    kind: Literal["nlb"] = Field(default="nlb", description=_KIND)
    port: Port = Field(default=3306, description=f"{_PORT} {_FIXED_ONCE_DEPLOYED}")
    listener_port: Port = Field(
        default_factory=_the_replicas_port,
        description="Port of the load balancer that clients connect to. Without it: `port`.",
        examples=[3306],
    )
    subnets: Mapping[ZoneName, SubnetId] | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        exclude=True,
        description="Where the load balancer is, one subnet per zone. Without it: the cluster's `subnets`; "
        "then a change of those is one of the load balancer's. A zone that it leaves ends the "
        "connections of all replicas there, base replicas too; another subnet of a zone is refused by AWS, and with it "
        "the deployment.",
        examples=[{"us-east-1a": "subnet-0b0d000000000001a"}],
    )

    def _shared_ports(self) -> Iterator[Fault]:
        yield from super()._shared_ports()
        if self.listener_port == self.health_port:
            message = (
                f"must be another port than health_port ({self.health_port}): clients of MySQL connect to it"
            )
            yield Fault(("listener_port",), message)

    @property
    def clients_follow_within_seconds(self) -> int:
        """Returns the seconds for which a client may act on the endpoint's former state: until the balancer
        acts on a change.
        """
        return NLB_PROPAGATION_SECONDS

    def expected_ratio(self, share: float, peers: int, newcomers: int = 1) -> float:
        """A newcomer's new connections over those of one of its `peers`, at this share of the warming group.

        The warming group has the newcomers of a batch and the peers, the serving group the peers alone.
        """
        fair = share / (peers + newcomers)
        return fair / ((1 - share) / peers + fair)


class NlbEndpointSettings(NlbEndpoint):
    """The same once deployed.

    `target_group_arn` holds the proven replicas; `warming_target_group_arn` those and the newcomers, and the
    listener's weights say how much goes through it.
    """

    target_group_arn: str | None = None
    warming_target_group_arn: str | None = None
    listener_arn: str | None = None


class Route53EndpointSettings(_Endpoint):
    """A DNS name in a hosted zone that exists; clients connect to the replicas' own `port`."""

    late_because = "its address may be cached (TTL and propagation)"
    longest_check_minutes = ROUTE53_LONGEST_CHECK_MINUTES

    kind: Literal["route53"] = Field(default="route53", description=_KIND)
    hosted_zone_id: Annotated[
        str, text(r"^Z[A-Z0-9]{1,31}$", "a hosted zone id such as Z0123456789ABCDEFGHIJ")
    ] = Field(description="Hosted zone of yours, private or public.", examples=["Z0123456789ABCDEFGHIJ"])
    record_name: Annotated[
        str,
        text(
            r"^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            "a DNS name in small letters, without a dot at its end, such as reads.orders.internal",
            253,
        ),
    ] = Field(
        description="Name whose A records Peaker makes; one per cluster.", examples=["reads.orders.internal"]
    )
    ttl_seconds: StrictInt = Field(default=30, ge=1, le=60, description="How long clients keep an answer.")

    @property
    def clients_follow_within_seconds(self) -> int:
        """Returns the seconds for which a client may act on the endpoint's former state: propagation, then
        the TTL.
        """
        return ROUTE53_PROPAGATION_SECONDS + self.ttl_seconds

    def expected_ratio(self, share: float, peers: int, newcomers: int = 1) -> float:
        """A newcomer's new connections over those of one of its `peers`: the weights of their records."""
        return share


AnyEndpoint = NlbEndpoint | Route53EndpointSettings
AnyDeployedEndpoint = NlbEndpointSettings | Route53EndpointSettings


def _with_its_kind(given: object) -> object:
    """Adds the kind that follows from the settings: only a DNS name has a zone and a record."""
    if not isinstance(given, dict) or "kind" in given:
        return given
    return {"kind": "route53" if {"hosted_zone_id", "record_name"} & given.keys() else "nlb", **given}


ReadEndpoint = Annotated[AnyEndpoint, Field(discriminator="kind"), BeforeValidator(_with_its_kind)]
DeployedReadEndpoint = Annotated[AnyDeployedEndpoint, Field(discriminator="kind")]
ENDPOINT_KINDS: tuple[str, ...] = tuple(
    get_args(one.model_fields["kind"].annotation)[0] for one in get_args(AnyEndpoint)
)


class RampSettings(Settings):
    """How a new replica's share of new connections rises; worse than its peers by the margin, it goes back."""

    shares: tuple[Annotated[Number, Field(gt=0, le=1)], ...] = Field(
        default=(0.1, 0.3, 0.6, 1.0),
        min_length=1,
        max_length=10,
        description="Shares of its fair part, one after the other; they rise.",
        examples=[[0.3, 1.0]],
    )
    step_seconds: StrictInt = Field(
        default=300, ge=1, le=3_600, description="How long a share stands before the replica is compared."
    )
    window_seconds: StrictInt = Field(
        default=30,
        ge=1,
        le=300,
        description="How long the statements are then counted. So many queries must come that they prove something: "
        "10 in 3 s, 20 at least.",
    )
    latency_margin: Number = Field(
        default=1.5, ge=1, le=100, description="How many times its peers' mean latency it may take."
    )

    @property
    def least_queries(self) -> int:
        """Returns the fewest queries of a window whose mean latency can be compared: 100 in 30 s, 20 at least."""
        return max(20, 10 * self.window_seconds // 3)

    @field_validator("shares")
    @classmethod
    def _rise(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        if list(shares) != sorted(set(shares)):
            raise ValueError(f"must rise from one to the next, got {list(shares)}")
        return shares


class HealthSettings(Settings):
    """The health settings bound how late a bad replica is noticed, and how many may be ejected for lag."""

    floor_replicas: StrictInt = Field(
        default=1,
        ge=0,
        le=MOST_REPLICAS,
        description="Below so many good replicas lag ejects nobody. At most `max_replicas`.",
    )
    check_minutes: StrictInt = Field(
        default=1,
        ge=1,
        le=1_440,
        description="How often replicas hear of their peers and say how they stand. At most 5 with `route53`.",
    )


class DrainSettings(Settings):
    """How long the connections of a replica may take to end, and whether they are cut then."""

    limit_seconds: StrictInt = Field(
        default=900,
        ge=0,
        le=LONGEST_WAIT_SECONDS,
        description="How long connections may take to end. 28800 (8 hours) at most: the workflow waits no longer.",
    )
    allow_forced: StrictBool = Field(
        default=False,
        description="Whether connections that are left then are cut; otherwise the replica goes back into service.",
    )


class RetirementSettings(Settings):
    """How long a drained replica must stay unused, and whether it is parked (stopped, volumes kept) or deleted."""

    idle_seconds: StrictInt = Field(
        default=600,
        ge=0,
        le=LONGEST_WAIT_SECONDS,
        description="How long it must stay unused. 28800 (8 hours) at most: the workflow waits no longer.",
    )
    park: Literal["auto", "never", "always"] = Field(
        default="auto",
        description="Whether it is parked. `auto`: while that is quicker to return and cheaper than rebuilding.",
    )
