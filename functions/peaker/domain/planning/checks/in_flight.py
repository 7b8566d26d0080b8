"""What runs have planned and not made yet: it will count in the account's quotas, and no list of AWS shows it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from peaker.domain.document.plan import ScaleOutPlan
from peaker.domain.limits.account_limits import GIB_PER_TIB, IOPS, STORAGE, vcpu_quota, vcpus_of
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Instance, Volume
from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.ledger import RunRow
from peaker_contract.names import RUN_TAG


@dataclass(frozen=True)
class There:
    """What AWS lists of the whole account: instances that run or begin to, and volumes."""

    instances: Sequence[Instance]
    volumes: Sequence[Volume]


def in_flight(
    runs: Iterable[RunRow], there: There, vcpus: Mapping[str, int], places: Mapping[str, int]
) -> dict[str, float]:
    """By the quotas' codes. `runs` are unfinished ones of other clusters.

    `places` are the empty reserved places that each cluster may use: a launch into one takes nothing more. Raises
    LedgerInconsistent for a plan that cannot be read.
    """
    found: dict[str, float] = {}
    for run in runs:
        member, plan = run.part(Member), run.part(ScaleOutPlan)
        if plan is not None and (member is None or member.number == 1):
            batch = run.part(Batch)
            ids = {run.run_id, *(() if batch is None else batch.members)}
            more = _vcpus(plan, ids, there, vcpus, places.get(run.cluster, 0))
            for code, amount in (*more.items(), *_storage(plan, ids, there).items()):
                found[code] = found.get(code, 0.0) + amount
    return found


def _vcpus(
    plan: ScaleOutPlan, ids: set[str], there: There, vcpus: Mapping[str, int], places: int
) -> dict[str, float]:
    """A parked replica that returns was launched by another run: it is known by its id."""
    running = {one.instance_id for one in there.instances}
    launched = sum(one.tags.get(RUN_TAG) in ids for one in there.instances)
    returns = [one.method.replica for one in plan.members if one.method and one.method.comes_back]
    missing = max(0, plan.builds - launched) + sum(one not in running for one in returns)
    quota, each = vcpu_quota(plan.instance_type), vcpus_of(plan.instance_type, vcpus)
    if quota is None or isinstance(each, Unknown):
        return {}
    return {quota.code: max(0, missing - places) * each.value}


def _storage(plan: ScaleOutPlan, ids: set[str], there: There) -> dict[str, float]:
    made = Counter(one.name for one in there.volumes if one.tags.get(RUN_TAG) in ids)
    found: dict[str, float] = {}
    for volume in plan.volumes:
        missing = max(0, plan.builds - made[volume.name])
        for quotas, each in ((STORAGE, volume.size_gib / GIB_PER_TIB), (IOPS, float(volume.iops))):
            if volume.volume_type in quotas:
                code = quotas[volume.volume_type].code
                found[code] = found.get(code, 0.0) + missing * each
    return found
