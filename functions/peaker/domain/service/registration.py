"""Registration checks that a replica is proven (I5), and still is what was proven. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from peaker.domain.host_results import MountsChecked
from peaker.domain.instants import to_iso
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Instance, Volume
from peaker.domain.runs.ledger import StepRow
from peaker_contract.cluster import ClusterSettings

# The steps whose numbers are the proof.
VERIFIED = "VerifyStorage"
DONOR_PREPARED = "PrepareDonor"
DATABASE_STARTED = "StartDatabase"
REPLICATION_STARTED = "StartReplication"
CAUGHT_UP = "WaitForCatchUp"
# Lag samples in a row that must be within the gate: one may be of a pause in the source's writes.
LAG_SAMPLES = 3


def missing_proofs(steps: Mapping[str, StepRow], settings: ClusterSettings) -> list[str]:
    """Lists the missing proofs, one sentence each; empty when the replica may serve. A missing number is no proof."""
    return [
        *_storage(_numbers(steps, VERIFIED)),
        *_identity(_numbers(steps, DONOR_PREPARED), _numbers(steps, DATABASE_STARTED)),
        *_replication(_numbers(steps, REPLICATION_STARTED)),
        *_lag(_numbers(steps, CAUGHT_UP), settings),
    ]


# The steps that say on which start of the instance they ran, as `launched_at`.
BOOT_STEPS = (VERIFIED, DATABASE_STARTED)


@dataclass(frozen=True)
class LiveState:
    """The replica's state right before the registration.

    `mounts` says by the names of the proven volumes what is wrong with their mounts, nothing where all is as proven.
    """

    source: Instance | Unknown
    replica: Instance
    volumes: tuple[Volume, ...]
    mounts: Mapping[str, str] = field(default_factory=dict)


def mounts_of(names: Collection[str], checked: MountsChecked) -> dict[str, str]:
    """Returns the mounts by the host's own word; a volume that it does not name is not known to be mounted (I4)."""
    said = {one.name: one.problem for one in checked.mounts}
    return {name: said.get(name, "its host does not say where it is mounted") for name in {*names, *said}}


def changes_since_proof(
    own_steps: Mapping[str, StepRow], volumes: Mapping[str, str], live: LiveState
) -> list[str]:
    """Lists the changes since the proof, one sentence each; empty when nothing has changed.

    `own_steps` are the steps of this run alone: a replica that returns was proven warm on an earlier start of its
    instance, by the run that built it, and its database was started in this one. `volumes` are the devices by volume
    id at which the run that built it attached them.
    """
    return [
        *source_changes(own_steps, live.source),
        *_boot_changes(own_steps, live),
        *_volume_changes(volumes, live),
        *(f"volume {name}: {problem}" for name, problem in sorted(live.mounts.items()) if problem),
    ]


def booted_before_proof(own_steps: Mapping[str, StepRow]) -> bool:
    """Tells whether the host booted anew before the proof, which found a started database's volumes not
    mounted.

    A return has no proof of its own.
    """
    proof, database = own_steps.get(VERIFIED), own_steps.get(DATABASE_STARTED)
    if proof is None or database is None or proof.finished_at is None or database.finished_at is None:
        return False
    return database.finished_at < proof.finished_at and proof.numbers.get("mounted") is False


def source_changes(steps: Mapping[str, StepRow], source: Instance | Unknown) -> list[str]:
    """Returns a sentence where the replica follows another source than that of now."""
    if isinstance(source, Unknown):
        return [f"the source is unknown: {source.why}; what is unknown is held (I4)"]
    follows = _numbers(steps, REPLICATION_STARTED).get("source_host")
    if follows in (None, source.private_ip):
        return []
    return [
        f"it follows {follows}, and the source is {source.instance_id} ({source.private_ip}) now: there was a failover"
    ]


def _boot_changes(steps: Mapping[str, StepRow], live: LiveState) -> list[str]:
    if live.replica.state != "running":
        return [f"its instance is {live.replica.state}"]
    now = to_iso(live.replica.launched_at)
    before = {step: _numbers(steps, step).get("launched_at") for step in BOOT_STEPS}
    return [
        f"its instance was started again at {now}, after {step} (started {launched_at})"
        for step, launched_at in before.items()
        if launched_at not in (None, now)
    ]


def _volume_changes(volumes: Mapping[str, str], live: LiveState) -> list[str]:
    there = {one.volume_id: one for one in live.volumes if one.attachment_state == "attached"}
    changes = []
    for volume_id, device in volumes.items():
        found = there.get(volume_id)
        if found is None:
            changes.append(f"{volume_id}, which was proven at {device}, is not attached any more")
        elif found.device != device:
            changes.append(f"{volume_id} is at {found.device}, and was proven at {device}")
    others = {one.device: one.volume_id for one in there.values() if one.volume_id not in volumes}
    changes += [
        f"{others[device]} is at {device}, where {volume_id} was proven"
        for volume_id, device in volumes.items()
        if device in others
    ]
    return changes


def _numbers(steps: Mapping[str, StepRow], step: str) -> Mapping[str, Any]:
    row = steps.get(step)
    return row.numbers if row is not None and row.finished_at is not None else {}


def _storage(numbers: Mapping[str, Any]) -> list[str]:
    verdict = numbers.get("verdict", "missing")
    return [] if verdict == "warm" else [f"{VERIFIED}: verdict is {verdict}, must be warm"]


def _identity(donor: Mapping[str, Any], replica: Mapping[str, Any]) -> list[str]:
    own, of_donor = replica.get("server_uuid"), donor.get("server_uuid")
    problems = []
    if not own:
        problems.append(f"{DATABASE_STARTED}: server_uuid is missing")
    elif own == of_donor:
        problems.append(f"{DATABASE_STARTED}: server_uuid {own} is the donor's")
    if replica.get("read_only") is not True:
        problems.append(
            f"{DATABASE_STARTED}: read_only is {replica.get('read_only', 'missing')}, must be true"
        )
    return problems


def _replication(numbers: Mapping[str, Any]) -> list[str]:
    return [
        f"{REPLICATION_STARTED}: {thread} is {numbers.get(thread, 'missing')}, must be true"
        for thread in ("io_running", "sql_running")
        if numbers.get(thread) is not True
    ]


def _lag(numbers: Mapping[str, Any], settings: ClusterSettings) -> list[str]:
    gate, wanted = settings.gates.lag_seconds, LAG_SAMPLES
    samples = lag_samples(numbers)[-wanted:]
    if len(samples) < wanted:
        return [f"{CAUGHT_UP}: {len(samples)} lag samples, {wanted} needed"]
    bad = [sample for sample in samples if sample is None or sample > gate]
    if bad:
        return [f"{CAUGHT_UP}: lag samples {samples} are not all under {gate:g} s"]
    return []


def lag_samples(numbers: Mapping[str, Any]) -> list[float | None]:
    """Lag in seconds per sample, None where it was not known; a sample is a number or has `lag_seconds`."""
    raw = numbers.get("samples")
    samples = raw if isinstance(raw, list) else []
    return [sample.get("lag_seconds") if isinstance(sample, Mapping) else sample for sample in samples]
