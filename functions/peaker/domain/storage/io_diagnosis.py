"""The diagnosis names each device's limit over a whole recording of iostat: report by report, in phases, and
against a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median

from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.storage.io_findings import (
    DeviceDiagnosis,
    DeviceLoad,
    IostatReport,
    Limits,
    Phase,
    PlanComparison,
    ReportDiagnosis,
    Verdict,
    VolumePromise,
)
from peaker.domain.storage.io_judgement import (
    NOTHING_KNOWN,
    PROMISE_REACHED,
    SAME_SIZE,
    Context,
    contention,
    direction,
    disturbance,
    flat_with,
    instance_shares,
    is_saturated,
    judge,
    load_numbers,
)

_SWING = 3.0
_SWING_REPORTS = 4


def diagnose(reports: Sequence[IostatReport], limits: Limits | None = None) -> tuple[DeviceDiagnosis, ...]:
    """Judge every device in order of first appearance. Reports that are means since boot must be left out before."""
    limits = limits or Limits()
    names = list(dict.fromkeys(load.device for report in reports for load in report.devices))
    return tuple(_diagnose_device(name, reports, limits) for name in names)


def against_plan(
    delivered_iops: float,
    delivered_mib_per_s: float,
    volumes: Sequence[VolumePromise],
    instance: InstancePromise,
) -> tuple[PlanComparison, PlanComparison]:
    """Delivered IOPS and MiB/s against what volumes together and the instance's baseline promise, whichever is less.

    More than the instance's baseline is a burst: it lasts half an hour a day and must not be planned with.
    """
    return (
        _compare("IOPS", delivered_iops, [volume.iops for volume in volumes], instance.baseline_iops),
        _compare(
            "MiB/s",
            delivered_mib_per_s,
            [volume.mib_per_s for volume in volumes],
            instance.baseline_mib_per_s,
        ),
    )


def _compare(
    quantity: str, delivered: float, volumes: Sequence[float | None], baseline: float | None
) -> PlanComparison:
    known = [promise for promise in volumes if promise is not None]
    of_volumes = sum(known) if known and len(known) == len(volumes) else None
    candidates = [
        (promise, by) for promise, by in ((of_volumes, "volumes"), (baseline, "instance baseline")) if promise
    ]
    if not candidates:
        return PlanComparison(quantity, delivered, None, "", None, "unknown", "no promise is known")
    promised, by = min(candidates)
    share = delivered / promised
    text = f"{delivered:,.0f} of {promised:,.0f} {quantity} promised by the {by} ({share:.0%})"
    if by == "instance baseline" and share > 2 - PROMISE_REACHED:
        return PlanComparison(quantity, delivered, promised, by, share, "burst", f"{text}: will not last")
    verdict = "delivered" if share >= PROMISE_REACHED else "below"
    return PlanComparison(quantity, delivered, promised, by, share, verdict, text)


def _diagnose_device(name: str, reports: Sequence[IostatReport], limits: Limits) -> DeviceDiagnosis:
    loads = [(report, load) for report in reports if (load := report.device(name)) is not None]
    steady = [load for _, load in loads if disturbance(load, NOTHING_KNOWN) is None]
    flats = [flat_with(load, steady) for _, load in loads]
    judged = []
    for (report, load), flat in zip(loads, flats, strict=True):
        iops_share, mib_share = instance_shares(report, limits.instance)
        context = Context(
            limits.volume(name), limits.exceeded.get(name), iops_share, mib_share, report.cpu, flat
        )
        judged.append(ReportDiagnosis(report.number, load, judge(load, context)))
    judged = _mark_swings(judged)
    counts = Counter(one.verdict for one in judged)
    loaded = Counter(one.verdict for one in judged if one.verdict is not Verdict.IDLE)
    headline = loaded.most_common(1)[0][0] if loaded else Verdict.IDLE
    return DeviceDiagnosis(name, headline, counts, _phases(judged), tuple(judged))


def _mark_swings(judged: list[ReportDiagnosis]) -> list[ReportDiagnosis]:
    """Marks a device as disturbed whose rate swings at a full queue, where the rate is its own doing."""
    marked: list[ReportDiagnosis] = []
    for saturated, group in groupby(judged, key=lambda one: (is_saturated(one.load), direction(one.load))):
        members = list(group)
        marked += _marked_swing(members) if saturated[0] else members
    return marked


def _marked_swing(members: list[ReportDiagnosis]) -> list[ReportDiagnosis]:
    usual = median(one.load.request_kib or 0.0 for one in members)
    alike = [
        one
        for one in members
        if one.load.request_kib and 1 / SAME_SIZE <= one.load.request_kib / usual <= SAME_SIZE
    ]
    if len(alike) < _SWING_REPORTS:
        return members
    rates = sorted(one.load.requests_per_s for one in alike)
    cut = len(rates) // 10
    low, high = rates[cut], rates[-1 - cut]
    if high < low * _SWING or any(one.verdict is Verdict.INSTANCE_LIMITED for one in alike):
        return members
    reason = f"at a full queue the rate swings between {low:,.0f} and {high:,.0f} requests of {usual:.0f} KiB per s"
    return [
        one
        if one.verdict is Verdict.SHARED_STORAGE_CONTENTION
        else replace(one, findings=(contention(one.load, reason),))
        for one in members
    ]


def _phases(judged: Sequence[ReportDiagnosis]) -> tuple[Phase, ...]:
    phases = []
    for verdict, group in groupby(judged, key=lambda one: one.verdict):
        members = list(group)
        typical = sorted(members, key=lambda one: one.load.await_ms or 0.0)[len(members) // 2]
        also = tuple(
            other
            for other in Verdict
            if other is not verdict and any(other in one.verdicts for one in members)
        )
        phases.append(
            Phase(
                first_report=members[0].report,
                last_report=members[-1].report,
                reports=len(members),
                verdict=verdict,
                also=also,
                finding=typical.findings[0],
                evidence=_summary([one.load for one in members]),
            )
        )
    return tuple(phases)


def _summary(loads: Sequence[DeviceLoad]) -> dict[str, float]:
    """Medians over the reports of a phase, and the longest wait."""
    numbers = [load_numbers(load) for load in loads]
    names = list(dict.fromkeys(name for row in numbers for name in row))
    summary = {name: round(median(row[name] for row in numbers if name in row), 2) for name in names}
    waits = [load.await_ms for load in loads if load.await_ms is not None]
    if waits:
        summary["await ms, longest"] = max(waits)
    return summary
