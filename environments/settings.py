"""What an environment file may say: one deployment of Peaker and the clusters that it looks after.

Here stands each setting with its form and bounds; `rules.py` has what settings must be to each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    StrictBool,
    StrictInt,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from environments import aws_names, rules
from environments.endpoint_settings import Drain, Health, Ramp, ReadEndpoint, Retirement
from environments.faults import EnvironmentFileError, Lines, faults_of
from environments.field_types import (
    Fault,
    ImageId,
    Location,
    Number,
    SecurityGroupId,
    Settings,
    SubnetId,
    VpcId,
    ZoneName,
    refuse,
    text,
)
from environments.load_settings import CalendarEvent, Forecast, Holds, LoadMetric, Observation
from environments.storage_settings import Gates, Prewarm, Snapshots, Volume

# Route 53 holds so many weighted records of one name and type (botocore, route53:ResourceRecordSet$Weight). It is far
# above what one source feeds, and so the bound of every kind of endpoint: a figure above it is a slip of the keyboard.
MOST_REPLICAS = 100


class Limits(Settings):
    """Ceilings that a run may not pass, and the time that a replica is kept at least."""

    max_hourly_cost_usd: Number | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="The budget: what all peak replicas together may cost, instances and volumes. With it, a plan "
        "whose price is not known is refused; without it, costs are told and nothing is refused for them.",
        examples=[10.0],
    )
    minimum_lifetime_minutes: StrictInt = Field(
        ge=0, le=10_080, description="A replica is kept so long at least; a week at most.", examples=[60]
    )
    prewarm_deadline_minutes: StrictInt = Field(
        ge=1,
        le=2_880,
        description="A prewarm that cannot end by then fails. 48 hours at most, as a command on a host may take.",
        examples=[2880],
    )


KmsKeyArn = Annotated[
    str,
    text(
        r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$",
        "the ARN of a KMS key (not of an alias), "
        "such as arn:aws:kms:eu-west-1:111111111111:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        256,
    ),
]


class Cluster(Settings):
    """One MySQL cluster whose peak replicas Peaker makes and retires."""

    name: Annotated[
        str,
        text(
            r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$",
            "small letters, digits and single hyphens between them, with a letter first, such as orders",
            20,
        ),
    ] = Field(description="Name of the cluster, in names of AWS resources and in tags.", examples=["orders"])
    engine: Literal["mysql", "mariadb"] = Field(description="Database server.", examples=["mysql"])
    mode: Literal["act", "observe"] = Field(
        description="`observe`: forecast and plan, but change nothing.", examples=["act"]
    )
    min_replicas: StrictInt = Field(
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
        description="Image that replicas boot from: SSM Agent, MySQL, no data.",
        examples=["ami-0b0d0000000000001"],
    )
    accept_unlisted_instance_type: StrictBool = Field(
        default=False,
        exclude=True,
        description="Whether a type may be used that is not among those known when Peaker was released.",
        examples=[True],
    )
    instance_type: Annotated[
        str, text(r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$", "an instance type such as r7g.4xlarge", 40)
    ] = Field(description="Instance type of peak replicas.", examples=["r7g.4xlarge"])
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
    instance_role_arn: (
        Annotated[
            str,
            text(
                r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,512}$",
                "the ARN of a role, such as arn:aws:iam::111111111111:role/mysql-hosts",
            ),
        ]
        | None
    ) = Field(
        default=None,
        exclude=True,
        description="Role in `instance_profile`. Without it the role is taken to have the profile's name. It is shown "
        "by `aws iam get-instance-profile --instance-profile-name NAME --query InstanceProfile.Roles[0].Arn`.",
        examples=["arn:aws:iam::111111111111:role/mysql-hosts"],
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
        description="Where replicas may be made: one subnet per zone, all of `region`.",
        examples=[{"us-east-1a": "subnet-0b0d000000000001a"}],
    )
    volumes: tuple[Volume, ...] = Field(
        min_length=1,
        max_length=11,
        description="Data volumes in the order of attachment; one is called `data`.",
    )
    initialization_rate_mib_per_s: StrictInt | None = Field(
        default=None,
        ge=100,
        le=300,
        description="Rate per volume at which EBS fetches a snapshot's blocks; billed per GiB. Without it: the default "
        "rate, which is free. Not in local and Wavelength zones.",
        examples=[300],
    )
    initialization_usd_per_gib: Number | None = Field(
        default=None,
        ge=0,
        le=1_000,
        description="What that rate costs you per GiB. The AWS Price List has no entry for it that is documented: "
        "without this it is known in us-east-1 only, by the EBS pricing page.",
        examples=[0.0036],
    )
    read_endpoint: ReadEndpoint = Field(description="Where readers find the replicas.")
    load_metric: LoadMetric = Field(description="The load.")
    capacity_per_replica: Number = Field(
        gt=0,
        le=1e15,
        description="Load that a replica serves well, in units of the load metric; measurement may only lower it.",
        examples=[6000.0],
    )
    forecast: Forecast = Field(description="Which part of the forecast is served.")
    calendar: tuple[CalendarEvent, ...] = Field(default=(), max_length=12, description="Known events.")
    holds: Holds = Field(default=Holds(), description="What keeps replicas after trouble.")
    observation: Observation = Field(
        default=Observation(), description="How long a new cluster is only observed."
    )
    prewarm: Prewarm = Field(default=Prewarm(), description="How volumes are warmed.")
    gates: Gates = Field(description="What a new replica must show.")
    ramp: Ramp = Field(default=Ramp(), description="How a new replica gets its readers.")
    health: Health = Field(default=Health(), description="When a replica is good.")
    drain: Drain = Field(description="How a replica loses its clients.")
    retirement: Retirement = Field(default=Retirement(), description="What becomes of a drained replica.")
    snapshots: Snapshots = Field(default=Snapshots(), description="What stays of a donor's snapshots.")
    limits: Limits = Field(description="Ceilings.")

    @field_validator("instance_type")
    @classmethod
    def _is_known(cls, instance_type: str, info: ValidationInfo) -> str:
        if info.data.get("accept_unlisted_instance_type") or instance_type in aws_names.instance_types():
            return instance_type
        raise ValueError(
            f"must be an instance type that this release knows, got {instance_type!r} "
            "(accept_unlisted_instance_type: true takes a newer one)"
            f"{aws_names.nearest_instance_type(instance_type)}"
        )

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        refuse(rules.broken(rules.CLUSTER_RULES, dict(self)))
        return self


class Functions(Settings):
    """What the Lambda functions run on. `host`: this machine's own Python and processor, for the local cloud."""

    python: Literal["3.13", "host"] = Field(description="Python of the functions.", examples=["3.13"])
    architecture: Literal["arm64", "host"] = Field(description="Their processor.", examples=["arm64"])


class Network(Settings):
    """The VPC that the clusters are in."""

    vpc_id: VpcId = Field(description="The VPC.", examples=["vpc-0b0d0000000000001"])
    subnet_ids: tuple[SubnetId, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        description="Subnets of the load balancers, where they are not those of the clusters.",
        examples=[["subnet-0b0d000000000001a"]],
    )

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        refuse(rules.given_twice("subnet_ids", self.subnet_ids or ()))
        return self


class Environment(Settings):
    """One deployment of Peaker: an account, a region, and the clusters that it looks after."""

    environment: Annotated[
        str,
        text(r"^[a-z][a-z0-9]{0,9}$", "1 to 10 small letters and digits with a letter first, such as prod"),
    ] = Field(description="Name of the environment, and of its file.", examples=["prod"])
    account: Annotated[
        str, text(r"^[0-9]{12}$", 'the 12 digits of an AWS account, in quotes, such as "123456789012"')
    ] = Field(description="AWS account that it is deployed to, in quotes.", examples=["123456789012"])
    accept_unlisted_region: StrictBool = Field(
        default=False,
        description="Whether a region may be used that is not among those known when Peaker was released.",
        examples=[True],
    )
    region: Annotated[str, text(r"^[a-z]{2,4}(-[a-z]+)+-[0-9]+$", "a region such as us-east-1", 30)] = Field(
        description="AWS region.", examples=["us-east-1"]
    )
    retain_state: StrictBool = Field(
        description="Whether ledger, logs and load balancers outlive their stacks, which are protected from deletion.",
        examples=[True],
    )
    functions: Functions = Field(description="What the functions run on.")
    network: Network = Field(description="The network.")
    alarm_email: (
        Annotated[
            str,
            text(
                r"^[^@\s,;<>]+@[^@\s,;<>]+\.[^@\s,;<>]+$", "one e-mail address such as dba@example.com", 254
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Gets every operator alarm once its owner has confirmed the subscription.",
        examples=["dba-on-call@example.com"],
    )
    runbook_url: (
        Annotated[
            str,
            text(
                r"^https?://[^\s]+[^\s/]$",
                "an http or https address without a / at its end, such as https://wiki.example.com/runbooks",
                512,
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Where people read your copy of docs/runbooks: a page is `<runbook_url>/<name>.md`, and each alarm "
        "carries its own. Without it alarms name the file in the repository.",
        examples=["https://wiki.example.com/peaker/runbooks"],
    )
    bootstrap_key_arn: KmsKeyArn | None = Field(
        default=None,
        description="The customer-managed key of CDK's bootstrap bucket, where `cdk bootstrap` made or was given one. "
        "The functions that hand out the host package may decrypt with it.",
        examples=["arn:aws:kms:eu-west-1:111111111111:key/1234abcd-12ab-34cd-56ef-1234567890ab"],
    )
    # The control plane's stack has 243 resources and 29 for each cluster; a CloudFormation stack holds 500.
    clusters: tuple[Cluster, ...] = Field(
        min_length=1,
        max_length=8,
        description="The clusters; CloudFormation's limit of resources allows eight. More go into another environment.",
    )

    @field_validator("region")
    @classmethod
    def _is_known(cls, region: str, info: ValidationInfo) -> str:
        if info.data.get("accept_unlisted_region") or region in aws_names.regions():
            return region
        raise ValueError(
            f"must be a region that this release knows, got {region!r} "
            f"(accept_unlisted_region: true takes a newer one){aws_names.nearest(region, aws_names.regions())}"
        )

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        found = list(rules.broken(rules.ENVIRONMENT_RULES, dict(self)))
        for index, cluster in enumerate(self.clusters):
            placed = {**dict(cluster), "environment": self.environment, "region": self.region}
            found += [fault.below("clusters", index) for fault in rules.broken(rules.PLACE_RULES, placed)]
            found += [fault.below("clusters", index) for fault in rules.parameter_faults(cluster)]
        refuse(found)
        return self

    @classmethod
    def parse(cls, document: object, source: str, lines: Lines | None = None) -> Self:
        """Check a parsed file; raises EnvironmentFileError that names `source`, line and path of each fault."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            found = [*faults_of(error, cls), *_rules_that_are_broken_too(document, error)]
            raise EnvironmentFileError.about(source, found, document, lines) from None

    @property
    def partition(self) -> str:
        """The ARN partition that the region lies in; a region that is not listed lies where its name begins like."""
        listed = aws_names.partitions().items()
        prefixes = {"cn-": "aws-cn", "us-gov-": "aws-us-gov", "eusc-": "aws-eusc"}
        begins = (name for prefix, name in prefixes.items() if self.region.startswith(prefix))
        return next((name for name, regions in listed if self.region in regions), next(begins, "aws"))


def _rules_that_are_broken_too(document: Any, error: ValidationError) -> Iterator[Fault]:
    """What pydantic leaves out: it judges the rules of a model only when every setting below it is good."""
    wrong = {fault["loc"] for fault in error.errors(include_url=False)}
    if not isinstance(document, dict) or not isinstance(document.get("clusters"), list):
        return
    place = _good_settings(Environment, document, (), wrong, only=("environment", "region", "clusters"))
    if () not in wrong:
        yield from rules.broken(rules.ENVIRONMENT_RULES, place)
    for index, block in enumerate(document["clusters"]):
        if not isinstance(block, dict):
            continue
        at = ("clusters", index)
        good = _good_settings(Cluster, block, at, wrong)
        own = () if at in wrong else rules.CLUSTER_RULES
        placed = () if () in wrong else rules.PLACE_RULES
        if any(loc[:2] == at for loc in wrong):
            yield from (fault.below(*at) for fault in rules.broken(own, good))
        of_place: dict[str, Any] = {name: place[name] for name in ("environment", "region") if name in place}
        yield from (fault.below(*at) for fault in rules.broken(placed, {**good, **of_place}))


def _good_settings(
    model: type[Settings],
    block: Mapping[str, Any],
    at: Location,
    wrong: Collection[Location],
    only: Collection[str] | None = None,
) -> dict[str, Any]:
    """The settings of a block without a fault at or below them, as their types; defaults where none is given."""
    good: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        place = (*at, name)
        if (only is not None and name not in only) or any(loc[: len(place)] == place for loc in wrong):
            continue
        if name in block:
            good[name] = TypeAdapter[Any](field.annotation or Any).validate_python(block[name])
        elif not field.is_required():
            good[name] = field.get_default(call_default_factory=True)
    return good
