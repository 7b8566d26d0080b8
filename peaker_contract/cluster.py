"""The settings of one cluster: what an environment file says of it, and what is deployed of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StrictBool, StrictInt, model_validator

from peaker_contract.cluster_rules import CLUSTER_RULES, Rule, broken
from peaker_contract.endpoint_settings import (
    DeployedReadEndpoint,
    DrainSettings,
    HealthSettings,
    NlbEndpoint,
    RampSettings,
    ReadEndpoint,
    RetirementSettings,
)
from peaker_contract.field_types import (
    DEFAULT_BOOTSTRAP_QUALIFIER,
    MOST_REPLICAS,
    BootstrapQualifier,
    ClusterName,
    EnvironmentName,
    ImageId,
    InstanceTypeName,
    Number,
    RegionName,
    SecurityGroupId,
    Settings,
    SubnetId,
    TimeZoneName,
    ZoneName,
    refuse,
    text,
)
from peaker_contract.load_settings import (
    Calendar,
    CalendarEvent,
    ForecastSettings,
    HoldSettings,
    LimitSettings,
    LoadMetricSettings,
)
from peaker_contract.metrics import CLUSTER_DIMENSION, SERVICE, SERVICE_DIMENSION, Metric, namespace
from peaker_contract.storage_settings import GateSettings, PrewarmSettings, VolumeSettings

# The least period in which CloudWatch keeps the points for as long as the forecast learns from them.
MEASURED_PERIOD_SECONDS = 300
# EBS refuses a provisioned initialization rate outside 100 to 300 MiB/s (botocore, ec2:CreateVolume).
InitializationRate = Annotated[StrictInt, Field(ge=100, le=300)]
KmsKeyArn = Annotated[
    str,
    text(
        r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$",
        "the ARN of a KMS key (not of an alias), "
        "such as arn:aws:kms:eu-west-1:111111111111:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        256,
    ),
]

ReservationGroupArn = Annotated[
    str,
    text(
        r"^arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:[0-9]{12}:group/[A-Za-z0-9_.-]{1,300}(/[a-z0-9]{26})?$",
        "the ARN of a resource group, such as arn:aws:resource-groups:us-east-1:111111111111:group/orders-peak",
        400,
    ),
]


class ClusterBlock(Settings):
    """One MySQL cluster whose peak replicas Peaker makes and retires.

    Loads are in load-metric units, rates in MiB/s, times in the unit that the name says.
    """

    name: ClusterName = Field(
        description="Name of the cluster, in names of AWS resources and in tags.", examples=["orders"]
    )
    engine: Literal["mysql", "mariadb"] = Field(
        default="mysql", description="Database server.", examples=["mariadb"]
    )
    mode: Literal["act", "observe"] = Field(
        default="observe", description="`observe`: forecast and plan, but change nothing.", examples=["act"]
    )
    min_replicas: StrictInt = Field(
        default=1,
        ge=1,
        le=MOST_REPLICAS,
        description="Replicas in service never fall below it; base replicas count.",
        examples=[2],
    )
    max_replicas: StrictInt = Field(
        ge=1,
        le=MOST_REPLICAS,
        description="Replicas never rise above it; base replicas count. At least `min_replicas`; 100 at most, as Route "
        "53 holds under one name.",
        examples=[6],
    )
    image_id: ImageId = Field(
        description="Image that replicas boot from: SSM agent, `engine` with its systemd unit, no data "
        "([base-replica.md](base-replica.md#the-image-of-the-peak-replicas)).",
        examples=["ami-0b0d0000000000001"],
    )
    instance_type: InstanceTypeName = Field(
        description="Instance type of peak replicas.", examples=["r7g.4xlarge"]
    )
    fallback_instance_types: tuple[InstanceTypeName, ...] = Field(
        default=(),
        max_length=10,
        description="Types to take, in this order, where no zone has room for `instance_type`: of the same processor "
        "architecture, and with at least its memory. One that the budget does not pay for is left out.",
        examples=[["r6g.4xlarge", "x2gd.4xlarge"]],
    )
    capacity_reservation_group_arn: ReservationGroupArn | None = Field(
        default=None,
        description="Resource group of targeted capacity reservations that you made, for an event or for good: every "
        "launch and every start of a parked replica names it, and goes on without it where it has no room "
        "([operating.md](operating.md#room-for-known-events)).",
        examples=["arn:aws:resource-groups:us-east-1:111111111111:group/orders-peak"],
    )
    instance_hourly_usd: Number | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="What an hour of `instance_type` costs you (a discount, a savings plan). Without it: the AWS Price "
        "List's on-demand price of the region.",
        examples=[0.8568],
    )
    security_group_ids: tuple[SecurityGroupId, ...] = Field(
        min_length=1,
        max_length=5,
        description="Security groups of peak replicas, each once.",
        examples=[["sg-0b0d0000000000001"]],
    )
    instance_profile: (
        Annotated[
            str,
            text(
                r"^[A-Za-z0-9_+=,.@-]{1,64}$",
                "the name (not the ARN) of an instance profile and its role: 1 to 64 letters, digits and _+=,.@-",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Instance profile of peak replicas; its role has AmazonSSMManagedInstanceCore.",
        examples=["peaker-replica"],
    )
    kms_key_arns: tuple[KmsKeyArn, ...] = Field(
        default=(),
        max_length=10,
        description="Customer-managed KMS keys of the replicas' volumes and snapshots and of `image_id`. AWS's own key "
        "`aws/ebs` is not named.",
        examples=[["arn:aws:kms:us-east-1:111111111111:key/1234abcd-12ab-34cd-56ef-1234567890ab"]],
    )
    subnets: Mapping[ZoneName, SubnetId] = Field(
        min_length=1,
        max_length=20,
        description="Where replicas may be made: one subnet per zone, all of `region`. Behind `nlb` no local or "
        "Wavelength zone.",
        examples=[{"us-east-1a": "subnet-0b0d000000000001a"}],
    )
    volumes: tuple[VolumeSettings, ...] = Field(
        min_length=1,
        max_length=11,
        description="Data volumes in the order of attachment; one is called `data`.",
    )
    initialization_rate_mib_per_s: InitializationRate | None = Field(
        default=None,
        description="Rate per volume at which EBS fetches a snapshot's blocks; billed per GiB. Without it: the default "
        "rate, which is free. Not in local and Wavelength zones.",
        examples=[300],
    )
    initialization_usd_per_gib: Number | None = Field(
        default=None,
        ge=0,
        le=1,
        description="What that rate costs you per GiB. The AWS Price List has no entry for it that is documented: "
        "without this it is known in us-east-1 only, by the EBS pricing page.",
        examples=[0.0036],
    )
    read_endpoint: ReadEndpoint = Field(default=NlbEndpoint(), description="Where readers find the replicas.")
    load_metric: LoadMetricSettings | None = Field(
        default=None,
        description="The load. Without it Peaker measures its replicas' client statements a second.",
    )
    capacity_per_replica: Number = Field(
        gt=0,
        le=1e15,
        description="Load that a replica serves well, in units of the load metric; measurement may only lower it.",
        examples=[6000.0],
    )
    time_zone: TimeZoneName = Field(
        default="UTC",
        description="IANA zone of the readers: the daily and weekly rhythm of the load is of its hours, also after a "
        "change of the clock.",
        examples=["Europe/Berlin"],
    )
    forecast: ForecastSettings = Field(
        default=ForecastSettings(), description="Which part of the forecast is served."
    )
    calendar: Calendar[CalendarEvent] = ()
    holds: HoldSettings = Field(
        default=HoldSettings(), description="How long replicas are kept after a failover or a deploy."
    )
    observation_days: Number = Field(
        default=7.0,
        ge=0,
        le=90,
        description="How long a new cluster is only observed. 0 ends it: you accept what the forecast shows.",
        examples=[0],
    )
    prewarm: PrewarmSettings = Field(default=PrewarmSettings(), description="How volumes are warmed.")
    gates: GateSettings = Field(default=GateSettings(), description="What a new replica must show.")
    ramp: RampSettings = Field(default=RampSettings(), description="How a new replica gets its readers.")
    health: HealthSettings = Field(default=HealthSettings(), description="When a replica is good.")
    drain: DrainSettings = Field(default=DrainSettings(), description="How a replica loses its clients.")
    retirement: RetirementSettings = Field(
        default=RetirementSettings(), description="What becomes of a drained replica."
    )
    keep_snapshots: StrictBool = Field(
        default=True,
        description="Whether each donor's newest completed set is kept until the next one is complete: the next "
        "snapshots copy only what changed since. In mode `act` a first set of a healthy replica is taken while the "
        "cluster is observed. Costs the snapshot storage of the used blocks. `false`: each run copies all, unless "
        "backups of your own snapshot the donor's volumes.",
        examples=[False],
    )
    limits: LimitSettings = Field(default=LimitSettings(), description="Ceilings.")

    RULES: ClassVar[tuple[Rule, ...]] = CLUSTER_RULES

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        refuse(broken(self.RULES, dict(self)))
        return self

    @property
    def ramp_step_seconds(self) -> int:
        """How long a newcomer stays at a share before it is compared: clients must have followed it by then."""
        return max(self.ramp.step_seconds, self.read_endpoint.clients_follow_within_seconds)

    @property
    def instance_types(self) -> tuple[str, ...]:
        """The types that replicas may have, in the order in which capacity is asked for."""
        return (self.instance_type, *self.fallback_instance_types)

    @property
    def host_parameters(self) -> dict[str, str]:
        """What a document tells a host of its cluster, whatever else it does there."""
        return {"Engine": self.engine, "HealthPort": str(self.read_endpoint.health_port)}

    def volume(self, name: str) -> VolumeSettings:
        """The volume of that name; KeyError when the cluster has none."""
        return {volume.name: volume for volume in self.volumes}[name]


class ClusterSettings(ClusterBlock):
    """A deployed cluster, as its parameter holds it."""

    read_endpoint: DeployedReadEndpoint
    load_metric: LoadMetricSettings
    environment: EnvironmentName
    region: RegionName
    bootstrap_qualifier: BootstrapQualifier = DEFAULT_BOOTSTRAP_QUALIFIER

    @property
    def measures_load(self) -> bool:
        """Whether the load is the one that Peaker measures itself."""
        return self.load_metric == measured_load(self, self.environment)


def measured_load(block: ClusterBlock, environment: str) -> LoadMetricSettings:
    """The metric that check_replicas publishes: the sum over all registered replicas."""
    return LoadMetricSettings(
        namespace=namespace(environment),
        name=Metric.READ_QUERIES_PER_SECOND.value,
        statistic="Average",
        period_seconds=max(MEASURED_PERIOD_SECONDS, 60 * block.health.check_minutes),
        dimensions={CLUSTER_DIMENSION: block.name, SERVICE_DIMENSION: SERVICE},
    )


def deployed_document(
    block: ClusterBlock,
    *,
    environment: str,
    region: str,
    endpoint: Mapping[str, str],
    bootstrap_qualifier: str = DEFAULT_BOOTSTRAP_QUALIFIER,
) -> dict[str, Any]:
    """What a deployment writes for the functions; ClusterSettings reads it. `endpoint` are the ARNs of the read
    endpoint, by their fields; empty where its kind has none."""
    document = block.model_dump(mode="json", exclude_none=True, include=set(ClusterBlock.model_fields))
    document["read_endpoint"] |= endpoint
    if block.load_metric is None:
        document["load_metric"] = measured_load(block, environment).model_dump(mode="json")
    if bootstrap_qualifier != DEFAULT_BOOTSTRAP_QUALIFIER:
        document["bootstrap_qualifier"] = bootstrap_qualifier
    return {**document, "environment": environment, "region": region}
