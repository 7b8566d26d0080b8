"""What is known of a cluster when a method is chosen, and what is said of each method. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, field_serializer

from peaker.domain.instants import seconds_between
from peaker.domain.limits.account_limits import DEFAULT_REGION_RATE
from peaker.domain.planning.methods.timing import LeadTimeFrame
from peaker.domain.planning.prices import US_EAST_1, PriceTable
from peaker.domain.reading import Known, Reading, Unknown

GIB = 1024.0**3
MIB = 1024.0**2


class MethodName(StrEnum):
    """How the data gets onto the new replica's volumes."""

    FULL_READ = "full_read"
    USED_BLOCKS = "used_blocks"
    HOT_FIRST = "hot_first"
    PROVISIONED_RATE = "provisioned_rate"
    RETURN = "return_parked"


# What a run can carry out. The other is computed for comparison alone.
CARRIED_OUT = frozenset(
    {MethodName.USED_BLOCKS, MethodName.HOT_FIRST, MethodName.PROVISIONED_RATE, MethodName.RETURN}
)


@dataclass(frozen=True)
class DataVolume:
    """One data volume of the donor. Sizes in bytes, throughput in MiB/s as the new volume will have it.

    `snapshot_bytes` is what its snapshot holds, `used_bytes` what the filesystem has allocated of that, `hot_bytes`
    what the donor's page list covers, None where no prewarm has told.
    """

    name: str
    size_gib: int
    snapshot_bytes: float
    used_bytes: float
    throughput_mib_per_s: float
    hot_bytes: float | None = None


@dataclass(frozen=True)
class ParkedReplica:
    """A parked replica that is up for a return. `return_p50_seconds` from the decision to serving."""

    instance_id: str
    return_p50_seconds: float
    return_p90_seconds: float
    usd: Reading


@dataclass(frozen=True)
class ReadingRate:
    """How a prewarm's reading compares with its first principles: by past runs, or as AWS promises.

    `factor` on the time, `spread` from the median to the p90 as a share of the median. `measured`: past prewarms read
    through the same instance type, whose bandwidth is in the factor already.
    """

    factor: float
    spread: float
    measured: bool = False


@dataclass(frozen=True)
class Situation:
    """All that the choice depends on. Rates in MiB/s, sizes in bytes, times in seconds.

    `serve_when` is the settings' prewarm.serve_when. `rate_ceiling_mib_per_s` is their initialization rate: None pays
    for none. `rate_quota_mib_per_s` is its part of the region's quota. `instance_mib_per_s` is the baseline of
    the instance type to all its volumes, `instance_burst_mib_per_s` what it gives for half an hour a day.
    `local_zones`: the zone is no regular one of the region.
    """

    frame: LeadTimeFrame
    volumes: tuple[DataVolume, ...]
    hourly_usd: Reading
    prices: PriceTable = US_EAST_1
    now: datetime | None = None
    ready_by: datetime | None = None
    serve_when: str = "all"
    default_rate: ReadingRate = ReadingRate(1.0, 0.5)
    provisioned_rate: ReadingRate = ReadingRate(1.0, 0.06)
    rate_ceiling_mib_per_s: int | None = None
    rate_quota_mib_per_s: float = DEFAULT_REGION_RATE.mib_per_s
    instance_mib_per_s: Reading = field(default_factory=lambda: Unknown("EC2 was not asked"))
    instance_burst_mib_per_s: Reading = field(default_factory=lambda: Unknown("EC2 was not asked"))
    local_zones: bool = False
    parked: tuple[ParkedReplica, ...] = ()
    why_none_parked: str = "no replica is parked"

    @property
    def seconds_left(self) -> float | None:
        """Until the replica is to serve; None where nobody said."""
        if self.now is None or self.ready_by is None:
            return None
        return seconds_between(self.now, self.ready_by)

    def awaited_bytes(self, volume: DataVolume) -> float:
        """What a build waits for by the settings."""
        if self.serve_when == "hot" and volume.hot_bytes is not None:
            return volume.hot_bytes
        return volume.used_bytes


class MethodEstimate(BaseModel):
    """What one method would take now, as the plan carries it. Times from the decision to serving, in seconds.

    `warm_seconds` is the median of the part in which the volumes become warm, `warm_p90_seconds` its p90. `why_not`
    names what forbids it; None where it is possible. `carried_out` is False of a method that no run can take: it is
    shown for comparison. `usd` is what is paid until it serves, None where a price is not known.
    """

    model_config = ConfigDict(frozen=True)

    name: MethodName
    carried_out: bool
    why_not: str | None = None
    p50_seconds: float | None = None
    p90_seconds: float | None = None
    warm_seconds: float | None = None
    warm_p90_seconds: float | None = None
    usd: float | None = None
    usd_unknown: str | None = None
    replica: str | None = None
    rates_mib_per_s: dict[str, int | None] = {}
    basis: str = ""
    on_donor: str = ""
    on_source: str = ""

    @field_serializer("p50_seconds", "p90_seconds", "warm_seconds", "warm_p90_seconds", "usd")
    def _rounded(self, value: float | None) -> float | None:
        """In documents alone: what is compared is not rounded."""
        return None if value is None else round(value, 4)

    @property
    def possible(self) -> bool:
        """Nothing that is known forbids it, and its time is known."""
        return self.why_not is None and self.p90_seconds is not None


def estimate(
    name: MethodName,
    *,
    why_not: str | None = None,
    p50: float | None = None,
    p90: float | None = None,
    warm: float | None = None,
    warm_p90: float | None = None,
    usd: Reading | None = None,
    basis: str = "",
    on_donor: str = "",
    on_source: str = "",
    rates: dict[str, int | None] | None = None,
    replica: str | None = None,
) -> MethodEstimate:
    """An estimate; a price that is unknown keeps its reason."""
    return MethodEstimate(
        name=name,
        carried_out=name in CARRIED_OUT,
        why_not=why_not,
        p50_seconds=p50,
        p90_seconds=p90,
        warm_seconds=warm,
        warm_p90_seconds=warm_p90,
        usd=usd.value if isinstance(usd, Known) else None,
        usd_unknown=usd.why if isinstance(usd, Unknown) else None,
        replica=replica,
        rates_mib_per_s=rates or {},
        basis=basis,
        on_donor=on_donor,
        on_source=on_source,
    )
