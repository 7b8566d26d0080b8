"""The donor is the snapshotted replica: never the source (I2), healthy, the least behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peaker.domain.reading import Known, Unknown, describe
from peaker.domain.replicas.data_volumes import DataVolume, data_volumes
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker_contract.cluster import ClusterSettings


@dataclass(frozen=True)
class Verdict:
    """The decision about one candidate, and its reason."""

    instance_id: str
    eligible: bool
    reason: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DonorChoice:
    """The donor, or None, and a verdict for every candidate, the best one first."""

    donor: Replica | None
    verdicts: tuple[Verdict, ...]

    def reason(self, instance_id: str) -> str:
        """Returns the decision about that candidate."""
        found = (one.reason for one in self.verdicts if one.instance_id == instance_id)
        return next(found, "it is no replica of the cluster any more")

    @property
    def text(self) -> str:
        if not self.verdicts:
            return (
                "the cluster has no replica (instances tagged peaker:role=replica); the source is never used"
            )
        return "; ".join(f"{verdict.instance_id}: {verdict.reason}" for verdict in self.verdicts)


@dataclass(frozen=True)
class DonorTerms:
    """A donor must have these volumes, and no more lag than the gate allows, in seconds.

    `planned` is the donor of the run's plan, which is taken while it may be; `planned_gib` are the sizes of the
    volumes that will be made, by name, and empty while nothing is planned.
    """

    volumes: Sequence[DataVolume]
    lag_gate_seconds: float
    planned: str | None = None
    planned_gib: Mapping[str, int] = field(default_factory=dict)


def choose_donor(
    fleet: FleetState,
    settings: ClusterSettings,
    planned: str | None = None,
) -> DonorChoice:
    """Chooses the donor of a plan by these settings; `planned` is that of the snapshots that the run has already."""
    return donor_by(fleet, DonorTerms(settings.volumes, settings.gates.lag_seconds, planned))


def donor_by(fleet: FleetState, terms: DonorTerms) -> DonorChoice:
    """Chooses the planned donor while it is eligible; else the healthy replica with the least lag, unknown lag last.

    Lag is measured again by PrepareDonor right before the snapshot; here it only ranks.
    """
    source_id = None if isinstance(fleet.source, Unknown) else fleet.source.instance_id
    judged = [(replica, _judge(replica, source_id, terms)) for replica in fleet.replicas]
    judged.sort(
        key=lambda pair: (not pair[1].eligible, pair[0].instance_id != terms.planned, *_rank(pair[0]))
    )
    donor = next((replica for replica, verdict in judged if verdict.eligible), None)
    return DonorChoice(donor, tuple(verdict for _, verdict in judged))


def _rank(replica: Replica) -> tuple[bool, float, str]:
    """An unknown lag is not within the gate (I4), so that it goes last."""
    lag = replica.lag_seconds
    return isinstance(lag, Unknown), lag.value if isinstance(lag, Known) else 0.0, replica.instance_id


def _judge(replica: Replica, source_id: str | None, terms: DonorTerms) -> Verdict:
    def no(reason: str) -> Verdict:
        return Verdict(replica.instance_id, False, reason)

    if replica.instance_id == source_id:
        return no("is the source, which is never snapshotted (I2)")
    if replica.is_parked:
        return no("is parked")
    if replica.instance.state != "running":
        return no(f"instance is {replica.instance.state}")
    if not replica.is_serving:
        return no(f"read endpoint says {replica.health_text}")
    volumes = data_volumes(replica, terms.volumes)
    missing = [volume.name for volume in terms.volumes if volume.name not in volumes]
    if missing:
        return no(f"has no volume {', '.join(missing)} (tag peaker:volume or its device)")
    larger = [
        f"{name} has {volumes[name].size_gib} GiB, the plan {planned}"
        for name, planned in terms.planned_gib.items()
        if volumes[name].size_gib > planned
    ]
    if larger:
        return no(f"{', '.join(larger)}: its snapshot does not fit")
    lag = replica.lag_seconds
    if isinstance(lag, Known) and lag.value > terms.lag_gate_seconds:
        return no(f"lags {lag.value:g} s, gate {terms.lag_gate_seconds:g} s")
    return Verdict(replica.instance_id, True, f"healthy, lag {describe(lag, 's')}")
