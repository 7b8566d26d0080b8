"""What an environment file may say: one deployment of Peaker and the clusters that it looks after.

Here stands each setting with its form and bounds; `rules.py` has what settings must be to each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    StrictBool,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from environments import aws_names, rules
from environments.calendar_settings import CalendarEvent, in_time_zone
from environments.cluster_defaults import in_each_cluster, told_once
from environments.faults import EnvironmentFileError, Lines, faults_of
from environments.may_use import MayUse
from peaker_contract.cluster import ClusterBlock, KmsKeyArn
from peaker_contract.cluster_rules import broken
from peaker_contract.field_types import (
    DEFAULT_BOOTSTRAP_QUALIFIER,
    BootstrapQualifier,
    EnvironmentName,
    Fault,
    Location,
    RegionName,
    Settings,
    refuse,
    text,
)
from peaker_contract.load_settings import Calendar
from peaker_contract.names import LOCAL_ACCOUNT

VpcId = Annotated[str, text(r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$", "a VPC id such as vpc-0123456789abcdef0")]


# What the rules of a cluster read of its environment.
_PLACE = ("environment", "account", "region")


class Cluster(ClusterBlock):
    """One MySQL cluster whose peak replicas Peaker makes and retires."""

    RULES = rules.FILE_RULES

    calendar: Calendar[CalendarEvent] = ()
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

    @field_validator("calendar", mode="before")
    @classmethod
    def _has_the_readers_time_zone(cls, given: object, info: ValidationInfo) -> object:
        return in_time_zone(given, info.data.get("time_zone", "UTC"))


# Where services have the names that the permissions have: in others kms:ViaService and iam:PassedToService say them
# in another way, and not always in the same one (karpenter-provider-aws#6843).
PARTITIONS = ("aws", "aws-us-gov")


class Environment(Settings):
    """One deployment of Peaker: an account, a region, and the clusters that it looks after."""

    environment: EnvironmentName = Field(
        description="Name of the environment, and of its file. Once per account, in whatever region: roles and the "
        "boundary are named by it. `local` is that of the local cloud.",
        examples=["prod"],
    )
    account: Annotated[
        str, text(r"^[0-9]{12}$", 'the 12 digits of an AWS account, in quotes, such as "123456789012"')
    ] = Field(description="AWS account that it is deployed to, in quotes.", examples=["123456789012"])
    region: RegionName = Field(
        description="AWS region, in the partition `aws` or `aws-us-gov`.", examples=["us-east-1"]
    )
    retain_state: StrictBool = Field(
        default=True,
        description="Whether ledger, logs and load balancers outlive their stacks, which are protected from deletion.",
        examples=[False],
    )
    vpc_id: VpcId = Field(
        description="The VPC of the clusters. Fixed once a cluster behind `nlb` is deployed: its target groups cannot "
        "change it.",
        examples=["vpc-0b0d0000000000001"],
    )
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
    bootstrap_qualifier: BootstrapQualifier = Field(
        default=DEFAULT_BOOTSTRAP_QUALIFIER,
        description="The qualifier of CDK's bootstrap in the account and region, where it was given one: `cdk "
        "bootstrap --qualifier`. The deployment, the policies of people and `peaker doctor` take it from here, not "
        "from the CDK's context.",
        examples=["acme"],
    )
    bootstrap_key_arn: KmsKeyArn | None = Field(
        default=None,
        description="The customer-managed key of CDK's bootstrap bucket, where `cdk bootstrap` made or was given one. "
        "The functions that hand out the host package may decrypt with it.",
        examples=["arn:aws:kms:eu-west-1:111111111111:key/1234abcd-12ab-34cd-56ef-1234567890ab"],
    )
    data_key_arn: KmsKeyArn | None = Field(
        default=None,
        description="The customer-managed key of what the environment itself keeps: ledger, queues, topic, logs, run "
        "files; in the environment's region. `python -m stacks.data_key prod` prints what its policy must allow. "
        "Without it, AWS's own keys.",
        examples=["arn:aws:kms:us-east-1:111111111111:key/1234abcd-12ab-34cd-56ef-1234567890ab"],
    )
    permissions_boundary_arn: (
        Annotated[
            str,
            text(
                r"^arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[A-Za-z0-9_+=,.@/-]{1,512}$",
                "the ARN of a managed policy, such as arn:aws:iam::111111111111:policy/company-boundary",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="The permissions boundary that your company prescribes for all roles. Without it the stacks make "
        "one of their own, peaker-ENVIRONMENT-boundary (docs/permissions.md).",
        examples=["arn:aws:iam::111111111111:policy/company-boundary"],
    )
    may_use: MayUse | None = Field(
        default=None,
        description="What the functions may use for any cluster, also for those that are added later.",
    )
    defaults: Mapping[str, Any] = Field(
        default={},
        exclude=True,
        description="Settings of all clusters, each as in `clusters[]`; what a cluster says itself wins. Mappings are "
        "merged, lists are not.",
        examples=[{"instance_profile": "peaker-replica"}],
    )
    # Each is a stack of its own; an account has 2,000 stacks in a region (CloudFormation quotas).
    clusters: tuple[Cluster, ...] = Field(
        min_length=1,
        max_length=500,
        description="The clusters, each a stack of its own.",
    )

    @field_validator("region")
    @classmethod
    def _is_one_that_peaker_knows(cls, region: str) -> str:
        partition = aws_names.partition_of(region)
        if partition not in PARTITIONS:
            raise ValueError(
                f"must be a region of the partition {' or '.join(PARTITIONS)}, got {region} of {partition}: there the "
                "services have other names, which Peaker's permissions do not have"
            )
        if region not in aws_names.regions():
            raise ValueError(
                f"must be a region that this release knows, got {region!r} ({aws_names.NEWER})"
                f"{aws_names.nearest(region, aws_names.regions())}"
            )
        return region

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        found = list(broken(rules.ENVIRONMENT_RULES, dict(self)))
        for index, cluster in enumerate(self.clusters):
            placed = {**dict(cluster), **{name: getattr(self, name) for name in _PLACE}}
            found += [fault.below("clusters", index) for fault in broken(rules.PLACE_RULES, placed)]
            found += [fault.below("clusters", index) for fault in rules.parameter_faults(cluster)]
        refuse(found)
        return self

    @classmethod
    def parse(cls, document: object, source: str, lines: Lines | None = None) -> Self:
        """Check a parsed file; raises EnvironmentFileError that names `source`, line and path of each fault."""
        merged = in_each_cluster(document)
        try:
            return cls.model_validate(merged)
        except ValidationError as error:
            found = [*faults_of(error, cls), *_rules_that_are_broken_too(merged, error)]
            raise EnvironmentFileError.about(source, told_once(found, document), merged, lines) from None

    @property
    def is_local(self) -> bool:
        """Tells whether it is deployed to the local cloud, which runs functions by this machine's own Python."""
        return self.account == LOCAL_ACCOUNT

    @property
    def partition(self) -> str:
        """The ARN partition that the region lies in; a region that is not listed lies where its name begins like."""
        return aws_names.partition_of(self.region)


def _rules_that_are_broken_too(document: Any, error: ValidationError) -> Iterator[Fault]:
    """Yields further broken rules: pydantic judges the rules of a model only when every setting below it is good."""
    wrong = {fault["loc"] for fault in error.errors(include_url=False)}
    if not isinstance(document, dict) or not isinstance(document.get("clusters"), list):
        return
    place = _good_settings(
        Environment,
        document,
        (),
        wrong,
        only=("environment", "account", "region", "data_key_arn", "may_use", "clusters"),
    )
    if () not in wrong:
        yield from broken(rules.ENVIRONMENT_RULES, place)
    for index, block in enumerate(document["clusters"]):
        if not isinstance(block, dict):
            continue
        at = ("clusters", index)
        if ("clusters",) in wrong and (error_below := _error_of(Cluster, block)) is not None:
            yield from (fault.below(*at) for fault in faults_of(error_below, Cluster))
            wrong |= {(*at, *fault["loc"]) for fault in error_below.errors(include_url=False)}
        good = _good_settings(Cluster, block, at, wrong)
        own = () if at in wrong else Cluster.RULES
        placed = () if () in wrong else rules.PLACE_RULES
        if any(loc[:2] == at for loc in wrong):
            yield from (fault.below(*at) for fault in broken(own, good))
        of_place: dict[str, Any] = {name: place[name] for name in _PLACE if name in place}
        yield from (fault.below(*at) for fault in broken(placed, {**good, **of_place}))


def _error_of(model: type[Settings], block: Mapping[str, Any]) -> ValidationError | None:
    """Returns the error of one item: of a list that is too long pydantic reports only that."""
    try:
        model.model_validate(block)
    except ValidationError as error:
        return error
    return None


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
            # A key that is no text at all hides what else is wrong in its block: that is told once the key is gone.
            with suppress(ValidationError):
                good[name] = TypeAdapter[Any](field.annotation or Any).validate_python(block[name])
        elif not field.is_required():
            good[name] = field.get_default(call_default_factory=True)
    return good
