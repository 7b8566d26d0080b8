"""The plan of a scale-out, as it is shown and kept, and the checks in it; `plan_decision` makes it. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from peaker.domain.decoding import Frozen
from peaker.domain.replicas.data_volumes import PlannedVolume
from peaker.domain.runs.ledger import Placement, RunPart, RunRow
from peaker_contract.cluster import ClusterSettings
from peaker_contract.load_settings import HOURS_PER_MONTH
from peaker_contract.storage_settings import ServeWhen

Verdict = Literal["pass", "warn", "refuse", "unknown"]
Number = float | int | None


class Check(Frozen):
    """One check. `remedy` is empty where nothing has to be done."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""
    numbers: dict[str, Number] = Field(default_factory=dict)

    @property
    def refuses(self) -> bool:
        """A run that began all the same would fail or do harm."""
        return self.verdict == "refuse"


RefusalCode = Literal[
    "ceiling",
    "batch",
    "no_donor",
    "source_unknown",
    "budget",
    "price_unknown",
    "operation_running",
    "layout",
    "key",
    "image",
    "check",
]


class Refusal(Frozen):
    """A rule that the run would break, with its numbers."""

    code: RefusalCode
    reason: str


class PlannedPrewarm(Frozen):
    """A planned prewarm says what is read before the replica serves.

    With `serve_when` hot the rest of what is used follows behind the database at `background_rate_mib_per_s`; 0 is as
    fast as it goes.
    """

    serve_when: ServeWhen
    background_rate_mib_per_s: int


class PlannedBuild(Frozen):
    """How the replica is built: where its instance stands, how it is warmed, for how long its knee is sought, and where
    its server and those of its peers listen."""

    subnets: dict[str, str]
    security_group_ids: tuple[str, ...]
    instance_profile: str | None
    prewarm: PlannedPrewarm
    database_port: int = 3306
    knee_seconds: int
    capacity_reservation_group_arn: str | None = None


class Price(Frozen):
    """USD; None where a price is not known, and `unknown` says which and why.

    `hourly` is one replica's. `snapshots_hourly` is the cluster's: the price of its kept snapshot sets after the run.
    """

    hourly: float | None
    instance_hourly: float | None
    volumes_hourly: float | None
    once: float | None
    per_month_if_kept: float | None
    source: str
    unknown: tuple[str, ...] = ()
    snapshots_hourly: float | None = 0.0
    snapshots_gib: float = 0.0

    def with_instance(self, instance_hourly: float | None, instance_type: str) -> Price:
        """The same volumes with an instance of another price."""
        known = instance_hourly is not None and self.volumes_hourly is not None
        hourly = round((instance_hourly or 0.0) + (self.volumes_hourly or 0.0), 4) if known else None
        why = () if instance_hourly is not None else (f"an hour of {instance_type} has no price",)
        return self.model_copy(
            update={
                "hourly": hourly,
                "instance_hourly": instance_hourly,
                "per_month_if_kept": None if hourly is None else round(hourly * HOURS_PER_MONTH, 2),
                "unknown": (*self.unknown, *why),
            }
        )


class LeadTimeEstimate(Frozen):
    """Seconds from the decision to serving: the median and the p90, and those of its parts by name.

    A part whose spread is not known on its own is not in `p90_parts`.
    """

    seconds: float
    parts: dict[str, float]
    p90_seconds: float | None = None
    p90_parts: dict[str, float] = Field(default_factory=dict)


class Method(Frozen):
    """How the next replica comes into service, and why: built anew, or the parked `replica` returned.

    `rejected` says by id why other parked replicas cannot come back.
    """

    action: Literal["build", "return"]
    reason: str
    replica: str | None = None
    rejected: dict[str, str] = Field(default_factory=dict)


class Option(Frozen):
    """One way in which a replica could come into service now; seconds from the decision to serving, USD until then.

    A return names its `replica`. A build has the initialization rate of each volume, None for EBS's default rate.
    `usd` is None where a price is not known. `why_not` is the reason against it.
    """

    action: Literal["build", "return"]
    p50_seconds: float
    p90_seconds: float
    usd: float | None
    replica: str | None = None
    rate_mib_per_s: int | None = None
    why_not: str | None = None


class Choice(Frozen):
    """The options of one replica, at most three, and which of them is taken, by its index.

    `in_time` is None without a deadline.
    """

    options: tuple[Option, ...]
    index: int
    reason: str
    ready_by: datetime | None = None
    in_time: bool | None = None

    @property
    def taken(self) -> Option:
        return self.options[self.index]


class PlannedMember(Frozen):
    """One replica of a batch: built in the first of `zones` that has room, or a parked one that returns.

    `choice` has its options; None where no donor shows how large its volumes are.
    """

    number: int
    method: Method | None
    zones: tuple[str, ...]
    volumes: tuple[PlannedVolume, ...]
    lead_time: LeadTimeEstimate | None
    ready_at: datetime | None
    price: Price
    choice: Choice | None = None

    @property
    def returns(self) -> str | None:
        """The parked replica that comes back instead of a new one."""
        return None if self.method is None else self.method.replica


class BatchPrice(Frozen):
    """USD of all that the batch brings into service together; None where a price is not known."""

    hourly: float | None
    once: float | None
    per_month_if_kept: float | None


class PlannedType(Frozen):
    """An instance type that capacity is asked for, at its price in USD; `why_not` is None, or why it is left out."""

    instance_type: str
    instance_hourly: float | None
    why_not: str | None = None


class PlannedCall(Frozen):
    """A call by IAM's name, the states that make it, and how often all of them together.

    `times` is None where that depends on what is found: on how often a host is asked, how far a ramp is, what older
    snapshots there are. `undone_by` is the call that takes it back; None where nothing needs to be.
    """

    action: str
    states: tuple[str, ...]
    times: int | None
    undone_by: str | None


class Way(Frozen):
    """How one more replica of a batch comes into service, why so, and in what time.

    `lead_time` is None when there is nothing to estimate from. `rate_mib_per_s` is the initialization rate of each
    volume, None for EBS's default rate.
    """

    method: Method | None = None
    lead_time: LeadTimeEstimate | None = None
    choice: Choice | None = None
    rate_mib_per_s: int | None = None

    @property
    def returns(self) -> str | None:
        """The parked replica that comes back instead of a new one."""
        return None if self.method is None else self.method.replica


class ScaleOutPlan(RunPart):
    """A batch of `count` replicas. Fields of one replica are the first member's; `notes` refuse nothing.

    `members` are all of them, in the order of their numbers.

    Steps build by this document and not by the settings of their time. Plans are read for as long as their
    replicas live, which may be parked for weeks: a new field has a default. `build` is None where it was not planned.
    `choice` has the first member's options; `calls` are all that change anything on AWS. `replicas_after` are those
    that `max_replicas` counts once the batch serves, `peak_hourly_usd` is the sum that the budget counts then; None
    where a price is not known. `lifted` are the limits that it passes by a person's start, with the given reason.
    """

    ledger_name = "plan"

    cluster: str
    planned_at: datetime
    count: int
    serving: int
    building: int
    max_replicas: int
    donor: str | None
    donor_reasons: tuple[str, ...]
    zones: tuple[str, ...]
    zone_reason: str
    instance_type: str
    image_id: str
    volumes: tuple[PlannedVolume, ...]
    lead_time: LeadTimeEstimate | None
    ready_at: datetime | None
    price: Price
    refusals: tuple[Refusal, ...]
    method: Method | None = None
    notes: tuple[str, ...] = ()
    build: PlannedBuild | None = None
    choice: Choice | None = None
    checks: tuple[Check, ...] = ()
    members: tuple[PlannedMember, ...] = ()
    batch_price: BatchPrice | None = None
    types: tuple[PlannedType, ...] = ()
    calls: tuple[PlannedCall, ...] = ()
    replicas_after: int | None = None
    peak_hourly_usd: float | None = None
    lifted: tuple[str, ...] = ()

    def of_member(self, number: int) -> ScaleOutPlan:
        """Returns the plan by which one member is built or returned."""
        own = dict(self.members[number - 1])
        del own["number"]
        return self.model_copy(update={**own, "count": 1, "members": (), "batch_price": None})

    @property
    def all_ready_at(self) -> datetime | None:
        """When the last member will serve; None where that of one is unknown."""
        times = [one.ready_at for one in self.members] or [self.ready_at]
        known = [one for one in times if one is not None]
        return max(known) if len(known) == len(times) else None

    @property
    def launch_order(self) -> tuple[str, ...]:
        """The instance types to ask for: the next where no zone has room for the one before."""
        return tuple(one.instance_type for one in self.types if one.why_not is None) or (self.instance_type,)

    def price_with(self, instance_type: str) -> Price:
        """Returns the price of the replica if it was launched with that type of the plan."""
        found = next((one for one in self.types if one.instance_type == instance_type), None)
        if found is None or instance_type == self.instance_type:
            return self.price
        return self.price.with_instance(found.instance_hourly, instance_type)

    @property
    def builds(self) -> int:
        """How many members are built anew, with an instance and volumes of their own."""
        return sum(one.returns is None for one in self.members)

    @property
    def returned(self) -> tuple[str, ...]:
        """The parked replicas that come back instead of new ones."""
        return tuple(one.returns for one in self.members if one.returns is not None)

    @property
    def returns(self) -> str | None:
        """The parked replica that comes back as the first member."""
        return None if self.method is None else self.method.replica

    @property
    def refusal_text(self) -> str:
        return "; ".join(f"{refusal.code}: {refusal.reason}" for refusal in self.refusals)


def planned_build(settings: ClusterSettings) -> PlannedBuild:
    prewarm = settings.prewarm
    return PlannedBuild(
        subnets=settings.subnets,
        security_group_ids=settings.security_group_ids,
        instance_profile=settings.instance_profile,
        prewarm=PlannedPrewarm(
            serve_when=prewarm.serve_when,
            background_rate_mib_per_s=prewarm.background_rate_mib_per_s if prewarm.serve_when == "hot" else 0,
        ),
        knee_seconds=settings.gates.knee_seconds,
        database_port=settings.read_endpoint.port,
        capacity_reservation_group_arn=settings.capacity_reservation_group_arn,
    )


def as_document(plan: ScaleOutPlan) -> dict[str, Any]:
    return plan.model_dump(mode="json")


def price_of_build(run: RunRow) -> Price | None:
    """Returns the price of the run's replica, with the type that had room. None for a run without a plan."""
    plan, placement = run.part(ScaleOutPlan), run.part(Placement)
    if plan is None or placement is None or placement.instance_type is None:
        return None if plan is None else plan.price
    return plan.price_with(placement.instance_type)
