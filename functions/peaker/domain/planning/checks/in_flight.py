"""Things that runs have planned and not made yet will count in the account's quotas; no list of AWS has them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from peaker.domain.document.plan import ScaleOutPlan
from peaker.domain.limits.account_limits import GIB_PER_TIB, IOPS, STORAGE, vcpu_quota, vcpus_of
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Instance, Volume
from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.ledger import RunRow
from peaker_contract.names import RUN_TAG


def in_flight(
    runs: Iterable[RunRow],
    instances: Sequence[Instance],
    volumes: Sequence[Volume],
    vcpus: Mapping[str, int],
    places: Mapping[str, int],
) -> dict[str, float]:
    """The amounts by the quotas' codes. `runs` are unfinished ones of other clusters; the account has the other lists.

    `places` are the empty reserved places that each cluster may use: a launch into one takes nothing more. Raises
    LedgerInconsistent for a plan that cannot be read.
    """
    found: dict[str, float] = {}
    for run in runs:
        member, plan = run.part(Member), run.part(ScaleOutPlan)
        if plan is not None and (member is None or member.number == 1):
            batch = run.part(Batch)
            ids = {run.run_id, *(() if batch is None else batch.members)}
            more = _vcpus(plan, ids, instances, vcpus, places.get(run.cluster, 0))
            for code, amount in (*more.items(), *_storage(plan, ids, volumes).items()):
                found[code] = found.get(code, 0.0) + amount
    return found


def _vcpus(
    plan: ScaleOutPlan, ids: set[str], instances: Sequence[Instance], vcpus: Mapping[str, int], places: int
) -> dict[str, float]:
    """A parked replica that returns was launched by another run: it is known by its id."""
    running = {one.instance_id for one in instances}
    launched = sum(one.tags.get(RUN_TAG) in ids for one in instances)
    returns = [one.method.replica for one in plan.members if one.method and one.method.comes_back]
    missing = max(0, plan.builds - launched) + sum(one not in running for one in returns)
    quota, each = vcpu_quota(plan.instance_type), vcpus_of(plan.instance_type, vcpus)
    if quota is None or isinstance(each, Unknown):
        return {}
    return {quota.code: max(0, missing - places) * each.value}


def _storage(plan: ScaleOutPlan, ids: set[str], volumes: Sequence[Volume]) -> dict[str, float]:
    made = Counter(one.name for one in volumes if one.tags.get(RUN_TAG) in ids)
    found: dict[str, float] = {}
    for volume in plan.volumes:
        missing = max(0, plan.builds - made[volume.name])
        for quotas, each in ((STORAGE, volume.size_gib / GIB_PER_TIB), (IOPS, float(volume.iops))):
            if volume.volume_type in quotas:
                code = quotas[volume.volume_type].code
                found[code] = found.get(code, 0.0) + missing * each
    return found
