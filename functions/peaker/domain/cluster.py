"""The settings of one cluster, as deployed; environments/schema.py carries the same fields."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

# EBS refuses a provisioned initialization rate outside 100 to 300 MiB/s (botocore, ec2:CreateVolume).
InitializationRate = Annotated[int, Field(ge=100, le=300)]


class Settings(BaseModel):
    """Base of all settings: immutable, and an unknown field or an infinite number is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class VolumeSettings(Settings):
    """One data volume of a replica; the order in the cluster is the order of attachment."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,15}$")
    device: str = Field(pattern=r"^/dev/sd[f-p]$")
    mount_point: str = Field(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$")
    filesystem: Literal["xfs", "ext4"]
    volume_type: Literal["gp3", "io2"]
    iops: int = Field(ge=100, le=256_000)
    # Of io2 it follows from the IOPS: 0.256 MiB/s each, so 25 with the fewest.
    throughput_mib_per_s: int = Field(ge=25, le=4_000)


Port = Annotated[int, Field(ge=1, le=65_535)]
# Changes reach all of Route 53's name servers within this, in general (botocore, route53:ChangeResourceRecordSets).
ROUTE53_PROPAGATION_SECONDS = 60
# A network load balancer acts on a registration, a deregistration and new weights 3 to 5 minutes later (AWS Support in
# aws-load-balancer-controller#1834).
NLB_PROPAGATION_SECONDS = 300


class NlbEndpointSettings(Settings):
    """Where clients read: a network load balancer with two target groups.

    `target_group_arn` holds the proven replicas; `warming_target_group_arn` those and the newcomers, and the
    listener's weights say how much goes through it.
    """

    kind: Literal["nlb"]
    port: Port
    listener_port: Port
    health_port: Port
    source_serves_reads: bool = False
    target_group_arn: str | None = None
    warming_target_group_arn: str | None = None
    listener_arn: str | None = None

    @property
    def clients_follow_within_seconds(self) -> int:
        """How long a client may still act on what the endpoint said before a change: until the balancer acts on it."""
        return NLB_PROPAGATION_SECONDS

    @property
    def late_because(self) -> str:
        """Why clients act on the old state for so long."""
        return "the load balancer acts minutes late"

    def expected_ratio(self, share: float, peers: int) -> float:
        """A newcomer's new connections over those of one of its `peers`, at this share of the warming group.

        The warming group has the newcomer and the peers, the serving group the peers alone.
        """
        fair = share / (peers + 1)
        return fair / ((1 - share) / peers + fair)


class Route53EndpointSettings(Settings):
    """Where clients read: a DNS name with a weighted A record per replica. They connect to `port` themselves."""

    kind: Literal["route53"]
    port: Port
    health_port: Port
    source_serves_reads: bool = False
    hosted_zone_id: str = Field(pattern=r"^[A-Z0-9]{1,32}$")
    record_name: str = Field(min_length=1, max_length=253)
    ttl_seconds: int = Field(ge=1, le=60)

    @property
    def clients_follow_within_seconds(self) -> int:
        """How long a client may still act on what the endpoint said before a change: propagation, then the TTL."""
        return ROUTE53_PROPAGATION_SECONDS + self.ttl_seconds

    @property
    def late_because(self) -> str:
        """Why clients act on the old state for so long."""
        return "its address may be cached (TTL and propagation)"

    def expected_ratio(self, share: float, peers: int) -> float:
        """A newcomer's new connections over those of one of its `peers`: the weights of their records."""
        return share


ReadEndpointSettings = Annotated[NlbEndpointSettings | Route53EndpointSettings, Field(discriminator="kind")]


class LoadMetricSettings(Settings):
    """The CloudWatch metric that is the cluster's read load."""

    namespace: str = Field(min_length=1)
    name: str = Field(min_length=1)
    statistic: Literal["Average", "Sum", "Maximum", "Minimum", "SampleCount"]
    period_seconds: int = Field(ge=60)
    dimensions: dict[str, str]


class ForecastSettings(Settings):
    """Which quantile of the forecast must be served, and how often it is made.

    The quantile is given, or follows from what an hour short and a spare hour cost (both, or neither).
    """

    quantile: float | None = Field(default=None, gt=0.5, le=0.99)
    cost_short_usd_per_hour: float | None = Field(default=None, gt=0)
    cost_spare_usd_per_hour: float | None = Field(default=None, gt=0)
    schedule_minutes: int = Field(ge=1)

    @model_validator(mode="after")
    def _costs_come_together(self) -> ForecastSettings:
        if (self.cost_short_usd_per_hour is None) != (self.cost_spare_usd_per_hour is None):
            raise ValueError("cost_short_usd_per_hour and cost_spare_usd_per_hour: give both, or neither")
        return self


class CalendarEvent(Settings):
    """A known event: replicas, a load, or a multiple of the forecast that it takes from its start to its end."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    from_: AwareDatetime = Field(alias="from")
    until: AwareDatetime
    reason: str = Field(min_length=1, max_length=80)
    min_replicas: int | None = Field(default=None, ge=1)
    load: float | None = Field(default=None, gt=0)
    factor: float | None = Field(default=None, ge=1.0, le=100)


class WatchSettings(LoadMetricSettings):
    """A metric whose points above `above` mean trouble of that kind."""

    kind: Literal["error_spike", "failover", "deploy"]
    above: float = Field(default=0.0, ge=0)


class HoldSettings(Settings):
    """How long after trouble a low load proves nothing, and which metrics show trouble."""

    minutes: int = Field(default=30, ge=0, le=1_440)
    watch: tuple[WatchSettings, ...] = Field(default=(), max_length=5)


class ObservationSettings(Settings):
    """A new cluster is only observed: for so many days, or until somebody accepts what the forecast shows."""

    days: float = Field(default=7.0, ge=0, le=90)
    accepted: bool = False


class GateSettings(Settings):
    """What a replica must show before it serves (I5).

    `knee_seconds` is the time given to the search for the volumes' knee, which delays the replica by as much; it
    passes no judgement. 0 leaves it out.
    """

    lag_seconds: float = Field(ge=0)
    lag_samples: int = Field(ge=1)
    storage_await_ratio: float = Field(ge=1.0)
    knee_seconds: int = Field(default=0, ge=0, le=1_800)


class PrewarmSettings(Settings):
    """When a replica may serve: once all used blocks are warm, or once the hot set is.

    With `hot` the rest follows beside the database, at the background rate per volume.
    """

    serve_when: Literal["all", "hot"] = "all"
    background_rate_mib_per_s: int = Field(default=32, ge=1, le=4_000)


Share = Annotated[float, Field(gt=0, le=1)]


class RampSettings(Settings):
    """How a newcomer's share of new connections rises, and when it is worse than its peers.

    `shares` are shares of its fair part. Latency above `latency_margin` times the peers' sends it back.
    """

    shares: tuple[Share, ...] = Field(default=(0.1, 0.3, 0.6, 1.0), min_length=1, max_length=10)
    step_seconds: int = Field(default=300, ge=1, le=3_600)
    window_seconds: int = Field(default=30, ge=1, le=300)
    latency_margin: float = Field(default=1.5, ge=1.0)
    min_queries: int = Field(default=100, ge=1)
    attempts: int = Field(default=2, ge=1, le=10)
    holds: int = Field(default=12, ge=1, le=100)

    @model_validator(mode="after")
    def _shares_rise(self) -> RampSettings:
        if list(self.shares) != sorted(set(self.shares)):
            raise ValueError(f"shares must rise, got {list(self.shares)}")
        return self


class HealthSettings(Settings):
    """When the health responder of a replica turns good and bad. Samples are a second apart.

    The lag that it allows is gates.lag_seconds. Below `floor_replicas` good ones lag ejects nobody; `watch_minutes` is
    how often replicas hear of their peers.
    """

    good_samples: int = Field(default=3, ge=1, le=60)
    bad_samples: int = Field(default=2, ge=1, le=60)
    floor_replicas: int = Field(default=1, ge=0)
    watch_minutes: int = Field(default=1, ge=1, le=1_440)
    min_free_disk_percent: float = Field(default=5.0, ge=0, lt=100)


class RetirementSettings(Settings):
    """How long a drained replica is watched, and whether it is parked (stopped, its volumes kept) or deleted.

    With `auto` it is parked while that is both quicker to return and cheaper than rebuilding.
    """

    observation_seconds: int = Field(default=600, ge=0, le=86_400)
    park: Literal["auto", "never", "always"] = "auto"


class SnapshotSettings(Settings):
    """Whether the newest completed snapshot set of each donor is kept, so that the next one is incremental.

    `during_observation`: whether a first one is taken while the cluster is only observed.
    """

    keep: bool = True
    during_observation: bool = True


class DrainSettings(Settings):
    """How long connections may take to end, and whether they may be cut after that."""

    limit_seconds: int = Field(ge=0)
    allow_forced: bool


class LimitSettings(Settings):
    """Ceilings that a run may not pass (I12), and the time a replica is kept at least. No budget: none is checked."""

    max_hourly_cost_usd: float | None = Field(default=None, gt=0)
    minimum_lifetime_minutes: int = Field(ge=0)
    prewarm_deadline_minutes: int = Field(ge=1)


class ClusterSettings(Settings):
    """One cluster. Loads are in load-metric units, rates in MiB/s, times in the unit that the name says."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,23}$")
    engine: Literal["mysql", "mariadb"]
    mode: Literal["act", "observe"]
    min_replicas: int = Field(ge=1)
    max_replicas: int = Field(ge=1, le=100)
    image_id: str = Field(pattern=r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$")
    instance_type: str = Field(min_length=1)
    instance_hourly_usd: float | None = Field(default=None, gt=0)
    security_group_ids: tuple[str, ...] = Field(min_length=1)
    instance_profile: str | None = None
    kms_key_arns: tuple[str, ...] = ()
    subnets: dict[str, str] = Field(min_length=1)
    volumes: tuple[VolumeSettings, ...] = Field(min_length=1)
    initialization_rate_mib_per_s: InitializationRate | None = None
    initialization_usd_per_gib: float | None = Field(default=None, ge=0)
    read_endpoint: ReadEndpointSettings
    load_metric: LoadMetricSettings
    capacity_per_replica: float = Field(gt=0)
    forecast: ForecastSettings
    calendar: tuple[CalendarEvent, ...] = Field(default=(), max_length=12)
    holds: HoldSettings = HoldSettings()
    observation: ObservationSettings = ObservationSettings()
    prewarm: PrewarmSettings = PrewarmSettings()
    gates: GateSettings
    ramp: RampSettings = RampSettings()
    health: HealthSettings = HealthSettings()
    drain: DrainSettings
    retirement: RetirementSettings = RetirementSettings()
    snapshots: SnapshotSettings = SnapshotSettings()
    limits: LimitSettings
    environment: str = Field(min_length=1)
    region: str = Field(min_length=1)

    @model_validator(mode="after")
    def _limits_agree(self) -> ClusterSettings:
        if self.max_replicas < self.min_replicas:
            raise ValueError(f"max_replicas {self.max_replicas} is below min_replicas {self.min_replicas}")
        names = [volume.name for volume in self.volumes]
        devices = [volume.device for volume in self.volumes]
        if len(set(names)) < len(names) or len(set(devices)) < len(devices):
            raise ValueError("volumes: names and devices must be unique")
        return self

    @model_validator(mode="after")
    def _each_has_a_place(self) -> ClusterSettings:
        mounts = sorted(f"{volume.mount_point}/" for volume in self.volumes)
        if any(inner.startswith(outer) for outer, inner in pairwise(mounts)):
            raise ValueError(f"volumes: mount points must be apart, got {' '.join(mounts)}")
        endpoint = self.read_endpoint
        listener = endpoint.listener_port if isinstance(endpoint, NlbEndpointSettings) else None
        if endpoint.health_port in (endpoint.port, listener):
            raise ValueError(f"read_endpoint.health_port {endpoint.health_port} is taken by MySQL")
        return self

    @model_validator(mode="after")
    def _events_stay_within_the_ceiling(self) -> ClusterSettings:
        above = [event.reason for event in self.calendar if (event.min_replicas or 0) > self.max_replicas]
        if above:
            raise ValueError(
                f"calendar: {', '.join(above)} asks for more than max_replicas {self.max_replicas}"
            )
        return self

    @property
    def ramp_step_seconds(self) -> int:
        """How long a newcomer stays at a share before it is compared: clients must have followed it by then."""
        return max(self.ramp.step_seconds, self.read_endpoint.clients_follow_within_seconds)

    def volume(self, name: str) -> VolumeSettings:
        """The volume of that name; KeyError when the cluster has none."""
        return {volume.name: volume for volume in self.volumes}[name]
