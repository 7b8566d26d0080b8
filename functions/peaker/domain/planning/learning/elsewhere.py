"""What runs of other clusters of the environment took: what a cluster is planned by before its own runs teach. Pure.

Each cluster tells its medians in figures that mean something elsewhere: seconds, rates of one volume, shares. How far
clusters lie apart is the spread, so that own runs outweigh a wide figure soon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from statistics import median
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Distance from the median to the 90th percentile of a normal distribution, in standard deviations.
_P90 = 1.2816
# How far clusters lie apart before several have told, in logarithms (the p90 is twice the median), and as how many
# clusters' deviations that counts: assumptions.
_APART, _APART_COUNTS = 0.55, 2.0

Amount = Annotated[float, Field(ge=0, lt=1e15, allow_inf_nan=False)]


class ClusterFigures(BaseModel):
    """One cluster's runs in medians. None, and parts that are not there: not measured.

    `seconds`: of builds by part of the lead time, the registration at an `endpoint` of this kind. Rates are MiB/s: of
    one volume while it was copied, of one that was read at the default rate, of the buffer pool. `hot_over_pool`: bytes
    read before a database could start over those in the donor's buffer pool. `changed_a_day`: of the volumes' sizes,
    what a snapshot copies a day after another one.
    """

    model_config = ConfigDict(frozen=True)

    as_of: date
    endpoint: str
    seconds: Mapping[str, Amount] = Field(default_factory=dict)
    snapshot_mib_per_s: Amount | None = None
    default_mib_per_s: Amount | None = None
    pool_mib_per_s: Amount | None = None
    apply_speed: Amount | None = None
    hot_over_pool: Amount | None = None
    changed_a_day: Amount | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing was measured: it would teach nobody."""
        return self == ClusterFigures(as_of=self.as_of, endpoint=self.endpoint)


@dataclass(frozen=True)
class Usual:
    """A figure as clusters have it: the median over them, the relative distance to the p90, and how many told it."""

    value: float
    spread: float
    clusters: int

    @property
    def basis(self) -> str:
        return f"{self.clusters} other cluster{'s' if self.clusters > 1 else ''} of the environment"


@dataclass(frozen=True)
class Elsewhere:
    """The figures of all other clusters."""

    clusters: Sequence[ClusterFigures] = field(default_factory=tuple)

    def seconds(self, part: str) -> Usual | None:
        """Of a part of a build."""
        return usual([one.seconds[part] for one in self.clusters if part in one.seconds])

    def at_endpoint(self, part: str, endpoint: str) -> Usual | None:
        """Of a part whose time is that of the read endpoint: of clusters that have one of this kind."""
        same = [one for one in self.clusters if one.endpoint == endpoint]
        return usual([one.seconds[part] for one in same if part in one.seconds])

    def figure(self, name: str) -> Usual | None:
        """Of a field of ClusterFigures."""
        found = [getattr(one, name) for one in self.clusters]
        return usual([one for one in found if one is not None])


def usual(values: Sequence[float]) -> Usual | None:
    """What clusters have as a rule; None where none has told."""
    known = [one for one in values if math.isfinite(one) and one > 0]
    if not known:
        return None
    middle = median(known)
    apart = sum(math.log(one / middle) ** 2 for one in known)
    deviation = math.sqrt((_APART_COUNTS * _APART**2 + apart) / (_APART_COUNTS + len(known) - 1))
    return Usual(middle, math.exp(_P90 * deviation) - 1, len(known))
