"""What an environment file may say, checked before anything is synthesized or deployed.

A bad file is refused as a whole, with one line per fault: file, path of the field, what is wrong and the
remedy. Sources for the limits: the EC2 and EBS service models (gp3: 3,000-80,000 IOPS, 125-2,000 MiB/s,
initialization rate 100-300 MiB/s), the NLB name limit of 32 characters, CloudWatch's period rule.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

ENVIRONMENTS_DIRECTORY = Path(__file__).resolve().parent
LOAD_BALANCER_NAME_LIMIT = 32
GP3_IOPS = range(3_000, 80_001)
GP3_MAX_MIB_PER_S = 2_000
GP3_MIB_PER_S_PER_IOPS = 0.25
ROUTE53_LONGEST_WATCH_MINUTES = 5

Port = Annotated[StrictInt, Field(ge=1, le=65535)]
SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-f]{8,17}$")]
SecurityGroupId = Annotated[str, Field(pattern=r"^sg-[0-9a-f]{8,17}$")]


class EnvironmentFileError(Exception):
    """The environment file cannot be used; the message has one line per fault, each with its remedy."""


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Volume(Settings):
    """A data volume; the order in the file is the order of attachment."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,15}$")
    device: str = Field(pattern=r"^/dev/sd[f-p]$")
    mount_point: str = Field(pattern=r"^/[A-Za-z0-9/_.-]+$")
    filesystem: Literal["xfs", "ext4"]
    volume_type: Literal["gp3", "io2"]
    iops: StrictInt = Field(ge=100, le=256_000)
    throughput_mib_per_s: StrictInt = Field(ge=125, le=4_000)

    @field_validator("iops")
    @classmethod
    def _suit_the_type(cls, iops: int, info: ValidationInfo) -> int:
        if info.data.get("volume_type") == "gp3" and iops not in GP3_IOPS:
            raise ValueError(f"must be {GP3_IOPS.start} to {GP3_IOPS.stop - 1} for gp3, got {iops}")
        return iops

    @field_validator("throughput_mib_per_s")
    @classmethod
    def _has_the_iops_it_needs(cls, throughput: int, info: ValidationInfo) -> int:
        iops = info.data.get("iops")
        if info.data.get("volume_type") != "gp3" or iops is None:
            return throughput
        most = min(GP3_MAX_MIB_PER_S, int(iops * GP3_MIB_PER_S_PER_IOPS))
        if throughput > most:
            raise ValueError(
                f"must be <= {most} for gp3 with {iops} IOPS (0.25 MiB/s each), got {throughput}"
            )
        return throughput


class NlbEndpoint(Settings):
    """An internal Network Load Balancer, which Peaker makes; clients connect to `listener_port`."""

    kind: Literal["nlb"]
    port: Port
    listener_port: Port
    health_port: Port
    source_serves_reads: StrictBool = False


class Route53Endpoint(Settings):
    """A DNS name in a hosted zone that exists; clients connect to the replicas' own `port`."""

    kind: Literal["route53"]
    port: Port
    health_port: Port
    source_serves_reads: StrictBool = False
    hosted_zone_id: str = Field(pattern=r"^Z[A-Z0-9]{1,31}$")
    record_name: str = Field(pattern=r"^([a-z0-9_][a-z0-9_-]{0,62}\.)+[a-z0-9-]{1,63}$", max_length=253)
    ttl_seconds: StrictInt = Field(ge=1, le=60)


ReadEndpoint = Annotated[NlbEndpoint | Route53Endpoint, Field(discriminator="kind")]
ENDPOINT_KINDS = ("nlb", "route53")


class LoadMetric(Settings):
    """The CloudWatch metric that says how much read load the cluster takes."""

    namespace: str = Field(min_length=1, max_length=255)
    name: str = Field(min_length=1, max_length=255)
    statistic: Literal["Average", "Sum", "Maximum", "Minimum", "SampleCount"]
    period_seconds: StrictInt = Field(ge=60, le=86400)
    dimensions: Mapping[str, str] = Field(max_length=30)

    @field_validator("period_seconds")
    @classmethod
    def _is_a_cloudwatch_period(cls, seconds: int) -> int:
        if seconds % 60:
            raise ValueError(f"must be a multiple of 60, got {seconds}")
        return seconds


class Forecast(Settings):
    """The quantile to serve, or the costs that it follows from: short / (short + spare). The quantile wins."""

    quantile: float | None = Field(default=None, gt=0.5, le=0.99)
    cost_short_usd_per_hour: float | None = Field(default=None, gt=0)
    cost_spare_usd_per_hour: float | None = Field(default=None, gt=0)
    schedule_minutes: StrictInt = Field(ge=1, le=1440)

    @field_validator("schedule_minutes")
    @classmethod
    def _comes_with_both_costs_or_none(cls, minutes: int, info: ValidationInfo) -> int:
        costs = [info.data.get(f"cost_{name}_usd_per_hour") for name in ("short", "spare")]
        if sum(cost is None for cost in costs) == 1:
            raise ValueError(
                "goes with cost_short_usd_per_hour and cost_spare_usd_per_hour: give both, or neither"
            )
        return minutes


class CalendarEvent(Settings):
    """A known event. Times without an offset are in `time_zone`; what is deployed is UTC.

    A time that a clock change repeats or skips is taken so that the event is longer, not shorter.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)

    time_zone: str = Field(default="UTC", exclude=True)
    from_: datetime = Field(alias="from")
    until: datetime
    reason: str = Field(min_length=1, max_length=80)
    min_replicas: StrictInt | None = Field(default=None, ge=1)
    load: float | None = Field(default=None, gt=0)
    factor: float | None = Field(default=None, ge=1.0, le=100)

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"must be an IANA zone such as Europe/London, got {name}") from None
        return name

    @field_validator("from_", "until")
    @classmethod
    def _becomes_utc(cls, moment: datetime, info: ValidationInfo) -> datetime:
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
        zone = ZoneInfo(info.data.get("time_zone", "UTC"))
        choices = [moment.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
        return min(choices) if info.field_name == "from_" else max(choices)

    @field_validator("reason")
    @classmethod
    def _comes_after_a_span(cls, reason: str, info: ValidationInfo) -> str:
        start, end = info.data.get("from_"), info.data.get("until")
        if start is not None and end is not None and end <= start:
            raise ValueError(f"the event must end after it starts, got {start} until {end}")
        return reason

    @model_validator(mode="after")
    def _asks_for_one_thing(self) -> Self:
        given = [name for name in ("min_replicas", "load", "factor") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"must have one of min_replicas, load and factor, got {' and '.join(given) or 'none'}"
            )
        return self


class Watch(LoadMetric):
    """A metric that shows trouble: any point above `above`. No point means no trouble."""

    kind: Literal["error_spike", "failover", "deploy"]
    above: float = Field(default=0.0, ge=0)


class Holds(Settings):
    """For so many minutes after trouble nothing is retired."""

    minutes: StrictInt = Field(default=30, ge=0, le=1440)
    watch: tuple[Watch, ...] = Field(default=(), max_length=5)


class Observation(Settings):
    """How long a new cluster is only observed; `accepted: true` ends it."""

    days: float = Field(default=7.0, ge=0, le=90)
    accepted: StrictBool = False


class Gates(Settings):
    """What a new replica must show before it is registered."""

    lag_seconds: float = Field(gt=0)
    lag_samples: StrictInt = Field(ge=1, le=100)
    storage_await_ratio: float = Field(gt=1)
    knee_seconds: StrictInt = Field(default=0, ge=0, le=1_800)


class Ramp(Settings):
    """How a new replica's share of new connections rises; worse than its peers by the margin, it goes back."""

    shares: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        default=(0.1, 0.3, 0.6, 1.0), min_length=1, max_length=10
    )
    step_seconds: StrictInt = Field(default=300, ge=1, le=3600)
    window_seconds: StrictInt = Field(default=30, ge=1, le=300)
    latency_margin: float = Field(default=1.5, ge=1)
    min_queries: StrictInt = Field(default=100, ge=1)
    attempts: StrictInt = Field(default=2, ge=1, le=10)
    holds: StrictInt = Field(default=12, ge=1, le=100)

    @field_validator("shares")
    @classmethod
    def _rise(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        if list(shares) != sorted(set(shares)):
            raise ValueError(f"must rise, got {list(shares)}")
        return shares


class Health(Settings):
    """When the health responder of a replica turns good and bad; its samples are a second apart.

    Below `floor_replicas` good ones lag ejects nobody; `watch_minutes` is how often replicas hear of their peers.
    """

    good_samples: StrictInt = Field(default=3, ge=1, le=60)
    bad_samples: StrictInt = Field(default=2, ge=1, le=60)
    floor_replicas: StrictInt = Field(default=1, ge=0)
    watch_minutes: StrictInt = Field(default=1, ge=1, le=1440)
    min_free_disk_percent: float = Field(default=5.0, ge=0, lt=100)


class Retirement(Settings):
    """How long a drained replica is watched, and whether it is parked (stopped, volumes kept) or deleted."""

    observation_seconds: StrictInt = Field(default=600, ge=0, le=86400)
    park: Literal["auto", "never", "always"] = "auto"


class Drain(Settings):
    limit_seconds: StrictInt = Field(ge=0, le=86400)
    allow_forced: StrictBool


class Prewarm(Settings):
    """When a replica may serve: once all used blocks are warm, or once the hot set is, the rest following."""

    serve_when: Literal["all", "hot"] = "all"
    background_rate_mib_per_s: StrictInt = Field(default=32, ge=1, le=4_000)


class Limits(Settings):
    max_hourly_cost_usd: float = Field(gt=0)
    minimum_lifetime_minutes: StrictInt = Field(ge=0)
    prewarm_deadline_minutes: StrictInt = Field(ge=1, le=2880)


class Cluster(Settings):
    """One MySQL cluster whose peak replicas Peaker makes and retires."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,19}$")
    engine: Literal["mysql", "mariadb"]
    mode: Literal["act", "observe"]
    min_replicas: StrictInt = Field(ge=1)
    max_replicas: StrictInt
    image_id: str = Field(pattern=r"^ami-[0-9a-f]{8,17}$")
    instance_type: str = Field(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$")
    security_group_ids: tuple[SecurityGroupId, ...] = Field(min_length=1, max_length=5)
    instance_profile: str | None = Field(default=None, pattern=r"^[\w+=,.@-]{1,128}$")
    subnets: Mapping[str, SubnetId] = Field(min_length=1)
    volumes: tuple[Volume, ...] = Field(min_length=1, max_length=11)
    initialization_rate_mib_per_s: StrictInt | None = Field(default=None, ge=100, le=300)
    read_endpoint: ReadEndpoint
    load_metric: LoadMetric
    capacity_per_replica: float = Field(gt=0)
    forecast: Forecast
    calendar: tuple[CalendarEvent, ...] = Field(default=(), max_length=12)
    holds: Holds = Holds()
    observation: Observation = Observation()
    prewarm: Prewarm = Prewarm()
    gates: Gates
    ramp: Ramp = Ramp()
    health: Health = Health()
    drain: Drain
    retirement: Retirement = Retirement()
    limits: Limits

    @field_validator("max_replicas")
    @classmethod
    def _leaves_room(cls, ceiling: int, info: ValidationInfo) -> int:
        floor = info.data.get("min_replicas")
        if floor is not None and ceiling < floor:
            raise ValueError(f"must be >= min_replicas ({floor}), got {ceiling}")
        return ceiling

    @field_validator("health")
    @classmethod
    def _is_watched_often_enough(cls, health: Health, info: ValidationInfo) -> Health:
        endpoint = info.data.get("read_endpoint")
        if isinstance(endpoint, Route53Endpoint) and health.watch_minutes > ROUTE53_LONGEST_WATCH_MINUTES:
            raise ValueError(
                f"watch_minutes must be <= {ROUTE53_LONGEST_WATCH_MINUTES} with a route53 read endpoint, which hears "
                f"of a bad replica only by the watch, two of its periods late; got {health.watch_minutes}"
            )
        return health

    @field_validator("volumes")
    @classmethod
    def _have_places_of_their_own(cls, volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
        for field in ("name", "device", "mount_point"):
            taken = [str(getattr(volume, field)) for volume in volumes]
            twice = sorted({value for value in taken if taken.count(value) > 1})
            if twice:
                raise ValueError(f"must each have their own {field}; {', '.join(twice)} is given twice")
        if "data" not in {volume.name for volume in volumes}:
            raise ValueError("must include the volume named data, which holds the datadir")
        return volumes


class Functions(Settings):
    """`host` = this machine's own Python and processor, for the local cloud."""

    python: Literal["3.13", "host"]
    architecture: Literal["arm64", "host"]


class Network(Settings):
    vpc_id: str = Field(pattern=r"^vpc-[0-9a-f]{8,17}$")
    subnet_ids: tuple[SubnetId, ...] | None = None


class Environment(Settings):
    """One deployment of Peaker: an account, a region, and the clusters that it looks after."""

    environment: str = Field(pattern=r"^[a-z][a-z0-9]{0,9}$")
    account: str = Field(pattern=r"^[0-9]{12}$")
    region: str = Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")
    retain_state: StrictBool
    functions: Functions
    network: Network
    alarm_email: str | None = Field(default=None, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")
    # Where people read the runbooks: a page is `<runbook_url>/<name>.md`. Without it alarms name the file here.
    runbook_url: str | None = Field(default=None, pattern=r"^https?://[^\s]+[^\s/]$", max_length=512)
    clusters: tuple[Cluster, ...] = Field(min_length=1, max_length=20)

    @field_validator("clusters")
    @classmethod
    def _fit_the_environment(cls, clusters: tuple[Cluster, ...], info: ValidationInfo) -> tuple[Cluster, ...]:
        names = [cluster.name for cluster in clusters]
        if len(set(names)) < len(names):
            raise ValueError(f"must each have their own name, got {', '.join(names)}")
        _check_dns_names(clusters)
        for index, cluster in enumerate(clusters):
            _check_cluster_place(index, cluster, info.data)
        return clusters

    @property
    def partition(self) -> str:
        """The ARN partition that the region lies in."""
        prefixes = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}
        return next((name for prefix, name in prefixes.items() if self.region.startswith(prefix)), "aws")

    @classmethod
    def parse(cls, document: object, source: str) -> Self:
        """Check a parsed file; raises EnvironmentFileError that names `source` and each faulty field."""
        if not isinstance(document, dict):
            raise EnvironmentFileError(
                f"{source}: must be a mapping of settings (environment, account, ...), got {_shown(document)}"
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            lines = [f"{source}: {line}" for line in _fault_lines(error, cls)]
            raise EnvironmentFileError("\n".join(lines)) from None


def available_environments(directory: Path = ENVIRONMENTS_DIRECTORY) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.yaml"))


def load_environment(name: str, directory: Path = ENVIRONMENTS_DIRECTORY) -> Environment:
    """Read `<directory>/<name>.yaml`.

    Raises EnvironmentFileError when there is no such file, when it is no YAML, when a setting is wrong, or
    when the file describes an environment of another name.
    """
    path = directory / f"{name}.yaml"
    source = f"{directory.name}/{path.name}"
    if not path.is_file():
        known = ", ".join(available_environments(directory)) or "none"
        raise EnvironmentFileError(f"{source}: does not exist; known environments: {known}")
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise EnvironmentFileError(f"{source}: is not YAML: {' '.join(str(error).split())}") from error
    environment = Environment.parse(document, source)
    if environment.environment != name:
        raise EnvironmentFileError(
            f"{source}: environment: must be {name}, the name of the file, got {environment.environment}"
        )
    return environment


def _check_cluster_place(index: int, cluster: Cluster, environment: Mapping[str, Any]) -> None:
    prefix = f"peaker-{environment.get('environment', '')}-"
    balanced = isinstance(cluster.read_endpoint, NlbEndpoint)
    if balanced and len(prefix + cluster.name) > LOAD_BALANCER_NAME_LIMIT:
        raise ValueError(
            f"{index}.name: must be at most {LOAD_BALANCER_NAME_LIMIT - len(prefix)} characters, because the "
            f"load balancer is called {prefix}<name> and AWS allows {LOAD_BALANCER_NAME_LIMIT}; "
            f"got {cluster.name}"
        )
    region = environment.get("region")
    foreign = [zone for zone in cluster.subnets if region and not zone.startswith(region)]
    if foreign:
        raise ValueError(f"{index}.subnets: must be zones of {region}, got {', '.join(foreign)}")


def _check_dns_names(clusters: Sequence[Cluster]) -> None:
    """Two clusters behind one name would get each other's reads."""
    endpoints = [cluster.read_endpoint for cluster in clusters]
    names = [
        (endpoint.hosted_zone_id, endpoint.record_name)
        for endpoint in endpoints
        if isinstance(endpoint, Route53Endpoint)
    ]
    twice = sorted({record for zone, record in names if names.count((zone, record)) > 1})
    if twice:
        raise ValueError(
            f"must each have their own read_endpoint.record_name; {', '.join(twice)} is given twice"
        )


def _fault_lines(error: ValidationError, model: type[BaseModel]) -> list[str]:
    faults = [dict(fault) for fault in error.errors(include_url=False)]
    return [_fault_line(fault, model) for fault in faults if not _follows_from_an_item(fault)]


def _follows_from_an_item(fault: Mapping[str, Any]) -> bool:
    # pydantic counts only the valid items of a list, so one bad item also makes the list "too short".
    return bool(fault["type"] == "too_short" and len(fault["input"]) >= fault["ctx"]["min_length"])


def _fault_line(fault: Mapping[str, Any], model: type[BaseModel]) -> str:
    path = _path_in_the_file(fault["loc"])
    given = fault["input"]
    context = fault.get("ctx") or {}
    match fault["type"]:
        case "missing":
            return f"{'.'.join(path)}: is required: add it"
        case "extra_forbidden":
            return f"{'.'.join(path)}: is not a setting{_nearest(fault['loc'], model)}"
        case "union_tag_not_found":
            return f"{'.'.join(path)}.kind: is required: add it"
        case "union_tag_invalid":
            kinds = str(context["expected_tags"]).replace(", ", " or ")
            return f"{'.'.join(path)}.kind: must be {kinds}, got {_shown(context['tag'])}"
        case "literal_error":
            return f"{'.'.join(path)}: must be {context['expected']}, got {_shown(given)}"
        case "string_pattern_mismatch":
            return f"{'.'.join(path)}: must match {context['pattern']}, got {_shown(given)}"
        case "string_type":
            return f"{'.'.join(path)}: must be text; write it in quotes, got {_shown(given)}"
        case "too_short":
            return f"{'.'.join(path)}: must have at least {context['min_length']}, got {_shown(given)}"
        case "value_error":
            message = str(context["error"])
            # A check over several items names the item itself: clusters + "0.name: must ...".
            return f"{'.'.join(path)}{'.' if message[:1].isdigit() else ': '}{message}"
        case _:
            message = str(fault["msg"]).replace("Input should be", "must be")
            return f"{'.'.join(path)}: {message[0].lower()}{message[1:]}, got {_shown(given)}"


def _path_in_the_file(location: Sequence[str | int]) -> list[str]:
    # pydantic puts the kind of endpoint that it took into the path, where the file has nothing.
    parts = [str(part) for part in location]
    return [
        part
        for before, part in zip(["", *parts], parts, strict=False)
        if before != "read_endpoint" or part not in ENDPOINT_KINDS
    ]


def _nearest(location: Sequence[str | int], model: type[BaseModel]) -> str:
    path = [str(part) for part in location]
    fields = list(_model_at(path[:-1], model).model_fields)
    near = difflib.get_close_matches(path[-1], fields, n=1)
    return f"; did you mean {near[0]}?" if near else f": remove it; the settings here are {', '.join(fields)}"


def _model_at(path: Sequence[str], model: type[BaseModel]) -> type[BaseModel]:
    choices = [model]
    for part in path:
        if part in model.model_fields:
            choices = _models_in(model.model_fields[part].annotation)
            model = choices[0]
        else:
            model = next((one for one in choices if part in _kinds_of(one)), model)
    return model


def _kinds_of(model: type[BaseModel]) -> tuple[str, ...]:
    field = model.model_fields.get("kind")
    return () if field is None else get_args(field.annotation)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if get_origin(annotation) is None:
        return [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
