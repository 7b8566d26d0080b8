"""What the methods take that copy: a direct fill and a clone, which a run may take, and others, for comparison. Pure.

By AWS's documented limits; a direct fill and a clone also by what past ones took.

Sources: EBS user guide (fast snapshot restore and its volume creation credits, volume clones, direct APIs, quotas),
EBS pricing page, MySQL 8.4 manual (the clone plugin). Each figure with its page is in docs/plan.md.
"""

from __future__ import annotations

from peaker.domain.planning.learning.drawing import Times, draw
from peaker.domain.planning.learning.reading import scaled_readings
from peaker.domain.planning.methods.rates import running
from peaker.domain.planning.methods.situation import GIB, MIB, MethodEstimate, MethodName, Situation, estimate
from peaker.domain.planning.prices import total
from peaker.domain.reading import Known, Reading, Unknown

# Fast snapshot restore: an hour for each started TiB until it is optimized; 16 TiB at most; one credit an hour for
# 1 TiB, ten at most. USD per snapshot and zone and hour, an hour at least.
FAST_RESTORE_GIB_PER_HOUR = 1024.0
FAST_RESTORE_LARGEST_GIB = 16 * 1024
FAST_RESTORE_USD_HOUR = 0.75
# Volume clones: until it is initialized, 125 MiB/s; up to six hours for the first TiB and 1.2 for each further one.
COPY_MIB_PER_S = 125.0
COPY_FIRST_TIB_SECONDS, COPY_TIB_SECONDS = 6 * 3600.0, 1.2 * 3600.0
COPY_USD_PER_GIB = 0.0008
# GetSnapshotBlock: 1,000 requests a second and snapshot, 5,000 an account and region, 512 KiB each. A host leaves a
# tenth of the first to others.
DIRECT_REQUESTS_PER_SECOND = 900.0
DIRECT_MIB_PER_S, DIRECT_ACCOUNT_MIB_PER_S = DIRECT_REQUESTS_PER_SECOND / 2, 2500.0
DIRECT_BLOCK_BYTES = 512 * 1024
DIRECT_USD_PER_GET, DIRECT_BLOCKS_PER_LIST, DIRECT_USD_PER_LIST = 0.003 / 1000, 10_000, 0.0006 / 1000
# Between availability zones of a region, $0.01 a GB to the zone and as much from it (EC2 on-demand pricing, "Data
# transfer within the same AWS Region").
CROSS_ZONE_USD_PER_GIB = 0.02
DIRECT_SPREAD, CLONE_SPREAD, FAST_RESTORE_SPREAD = 0.3, 0.5, 0.5


def fast_restore(situation: Situation) -> MethodEstimate:
    """The snapshots are made fast first: no hydration after that, a paid hour for each snapshot at least."""
    name = MethodName.FAST_RESTORE
    largest = max((one.size_gib for one in situation.volumes), default=0)
    if largest > FAST_RESTORE_LARGEST_GIB:
        return estimate(
            name, why_not=f"a volume of {largest} GiB: {FAST_RESTORE_LARGEST_GIB} GiB are the most"
        )
    if len(situation.volumes) > situation.fast_restores_free:
        return estimate(
            name,
            why_not=f"{len(situation.volumes)} snapshots, the region's quota has {situation.fast_restores_free:g} left",
        )
    if not situation.volumes:
        return _no_volumes(name)
    # The bucket of a new snapshot is empty; the first credit comes after 1 / MIN(10, 1024 / GiB) hours.
    credit = max(3600 / min(10.0, 1024 / one.size_gib) for one in situation.volumes)
    optimized = largest / FAST_RESTORE_GIB_PER_HOUR * 3600
    p50 = optimized + credit
    hours = max(1.0, p50 / 3600)
    paid = Known(FAST_RESTORE_USD_HOUR * hours * len(situation.volumes))
    return _estimated(
        situation,
        name,
        p50,
        p50 * (1 + FAST_RESTORE_SPREAD),
        paid,
        basis=f"{optimized / 60:.0f} min to optimize {largest} GiB and {credit / 60:.0f} min to the first credit",
        on_donor="one snapshot of its volumes",
    )


def copy_volumes(situation: Situation) -> MethodEstimate:
    """A clone of the donor's volume in its own zone, without a snapshot."""
    name, count = MethodName.COPY_VOLUMES, len(situation.volumes)
    if count > 1:
        return estimate(
            name, why_not=f"{count} data volumes: each copy has an instant of its own, together they are torn"
        )
    if situation.copies_free < 1:
        return estimate(name, why_not="the region's quota of copies at one time is used up")
    if situation.zone != situation.donor_zone:
        return estimate(
            name, why_not=f"the donor is in {situation.donor_zone}, the replica would be in {situation.zone}"
        )
    if not situation.volumes:
        return _no_volumes(name)
    volume = situation.volumes[0]
    tib = volume.size_gib / 1024
    p50 = situation.awaited_bytes(volume) / MIB / min(COPY_MIB_PER_S, volume.throughput_mib_per_s)
    at_most = COPY_FIRST_TIB_SECONDS + COPY_TIB_SECONDS * max(0.0, tib - 1)
    return _estimated(
        situation,
        name,
        p50,
        max(p50, at_most),
        Known(COPY_USD_PER_GIB * volume.snapshot_bytes / GIB),
        basis=f"read at {COPY_MIB_PER_S:g} MiB/s; EBS promises it within {at_most / 3600:.1f} h",
        on_donor="none that EBS names; no further copy of that volume meanwhile",
        without_snapshot=True,
    )


def direct_fill(situation: Situation) -> MethodEstimate:
    """Empty volumes, written with what GetSnapshotBlock gives.

    All that the snapshots hold is waited for, also where a run serves on its hot set: what is not there yet reads as
    zeros.
    """
    name = MethodName.DIRECT_FILL
    if not situation.volumes:
        return _no_volumes(name)
    taken = _filled(situation)
    blocks = sum(one.snapshot_bytes for one in situation.volumes) / DIRECT_BLOCK_BYTES
    paid = blocks * DIRECT_USD_PER_GET + blocks / DIRECT_BLOCKS_PER_LIST * DIRECT_USD_PER_LIST
    learned = f", by {taken.runs} past fills" if taken.runs else ""
    found = _estimated(
        situation,
        name,
        taken.p50,
        taken.p90,
        Known(paid),
        basis=f"{blocks:,.0f} requests for ${paid:.4f}, {_a_snapshot(situation):g} MiB/s a snapshot at most{learned}",
        on_donor="one snapshot of its volumes",
    )
    rates: dict[str, int | None] = dict.fromkeys(one.name for one in situation.volumes)
    return found.model_copy(update={"why_not": situation.why_no_fill, "rates_mib_per_s": rates})


def _filled(situation: Situation) -> Times:
    """Seconds until all that the snapshots hold is written and flushed."""
    awaited = [one.snapshot_bytes for one in situation.volumes]
    each = [
        amount / MIB / min(_a_snapshot(situation), one.throughput_mib_per_s)
        for amount, one in zip(awaited, situation.volumes, strict=True)
    ]
    bound = min(DIRECT_ACCOUNT_MIB_PER_S / situation.fills_at_once, _baseline(situation))
    p50 = max(*each, sum(awaited) / MIB / bound)
    predicted = Times(p50, p50 * (1 + DIRECT_SPREAD))
    return draw(predicted, scaled_readings(situation.past_fills, sum(awaited), None))


def _a_snapshot(situation: Situation) -> float:
    """MiB/s that one replica gets of a snapshot: all members of a batch are filled from the same ones."""
    return DIRECT_MIB_PER_S / situation.fills_at_once


def clone(situation: Situation) -> MethodEstimate:
    """MySQL's clone plugin, from the donor over the network onto empty volumes."""
    name = MethodName.CLONE
    if situation.engine != "mysql":
        return estimate(name, why_not=f"{situation.engine} has no clone plugin")
    if not situation.volumes:
        return _no_volumes(name)
    amount = sum(one.used_bytes for one in situation.volumes)
    throughput = sum(one.throughput_mib_per_s for one in situation.volumes)
    speed = min(throughput, _baseline(situation), situation.clone_mib_per_s)
    first = amount / MIB / speed
    taken = draw(
        Times(first, first * (1 + CLONE_SPREAD)), scaled_readings(situation.past_clones, amount, None)
    )
    learned = f", by {taken.runs} past clones" if taken.runs else ""
    sent = 0.0 if situation.zone == situation.donor_zone else CROSS_ZONE_USD_PER_GIB * amount / GIB
    found = _estimated(
        situation,
        name,
        taken.p50,
        taken.p90,
        Known(sent),
        basis=f"{amount / 1e9:.1f} GB at {speed:g} MiB/s{learned}, ${sent:.2f} between zones, InnoDB tables alone",
        on_donor=f"reads all its data at {speed:g} MiB/s while it serves; no other clone meanwhile",
        without_snapshot=True,
    )
    rates: dict[str, int | None] = dict.fromkeys(one.name for one in situation.volumes)
    return found.model_copy(update={"why_not": _why_no_clone(situation), "rates_mib_per_s": rates})


def _why_no_clone(situation: Situation) -> str | None:
    if situation.why_no_clone is not None:
        return situation.why_no_clone
    if situation.fills_at_once > 1:
        return f"{situation.fills_at_once} replicas at once: a donor gives one clone at a time"
    return None


def _estimated(
    situation: Situation,
    name: MethodName,
    p50: float,
    p90: float,
    paid: Reading,
    *,
    basis: str,
    on_donor: str,
    without_snapshot: bool = False,
) -> MethodEstimate:
    frame = situation.frame.before_database()
    saved = frame.snapshot_seconds if without_snapshot else 0.0
    seconds = frame.p50(p50) - saved
    found = estimate(
        name,
        p50=seconds,
        p90=frame.p90(p50, p90) - saved,
        warm=p50,
        warm_p90=p90,
        usd=total((paid, running(situation, seconds))),
        basis=basis,
        on_donor=on_donor,
        on_source="sends the log from the copy's instant on",
    )
    return found.model_copy(update={"once_usd": paid.value if isinstance(paid, Known) else None})


def _baseline(situation: Situation) -> float:
    """The instance's baseline in MiB/s; where it is not known, nothing bounds."""
    known = situation.instance_mib_per_s
    return float("inf") if isinstance(known, Unknown) or known.value <= 0 else known.value


def _no_volumes(name: MethodName) -> MethodEstimate:
    return estimate(name, why_not="no replica shows how large the volumes are")
