"""Whether a replica is proven (I5): a pure reading of what the steps recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peaker.domain.runs.ledger import StepRow
from peaker_contract.cluster import ClusterSettings


def missing_proofs(steps: Mapping[str, StepRow], settings: ClusterSettings) -> list[str]:
    """What is not proven, one sentence each; empty when the replica may serve. A missing number is no proof."""
    return [
        *_storage(_numbers(steps, "VerifyStorage")),
        *_identity(_numbers(steps, "PrepareDonor"), _numbers(steps, "StartDatabase")),
        *_replication(_numbers(steps, "StartReplication")),
        *_lag(_numbers(steps, "WaitForCatchUp"), settings),
    ]


def _numbers(steps: Mapping[str, StepRow], step: str) -> Mapping[str, Any]:
    row = steps.get(step)
    return row.numbers if row is not None and row.finished_at is not None else {}


def _storage(numbers: Mapping[str, Any]) -> list[str]:
    verdict = numbers.get("verdict", "missing")
    return [] if verdict == "warm" else [f"VerifyStorage: verdict is {verdict}, must be warm"]


def _identity(donor: Mapping[str, Any], replica: Mapping[str, Any]) -> list[str]:
    own, of_donor = replica.get("server_uuid"), donor.get("server_uuid")
    problems = []
    if not own:
        problems.append("StartDatabase: server_uuid is missing")
    elif own == of_donor:
        problems.append(f"StartDatabase: server_uuid {own} is the donor's")
    if replica.get("read_only") is not True:
        problems.append(f"StartDatabase: read_only is {replica.get('read_only', 'missing')}, must be true")
    return problems


def _replication(numbers: Mapping[str, Any]) -> list[str]:
    return [
        f"StartReplication: {thread} is {numbers.get(thread, 'missing')}, must be true"
        for thread in ("io_running", "sql_running")
        if numbers.get(thread) is not True
    ]


def _lag(numbers: Mapping[str, Any], settings: ClusterSettings) -> list[str]:
    gate, wanted = settings.gates.lag_seconds, settings.gates.lag_samples
    samples = lag_samples(numbers)[-wanted:]
    if len(samples) < wanted:
        return [f"WaitForCatchUp: {len(samples)} lag samples, {wanted} needed"]
    bad = [sample for sample in samples if sample is None or sample > gate]
    if bad:
        return [f"WaitForCatchUp: lag samples {samples} are not all under {gate:g} s"]
    return []


def lag_samples(numbers: Mapping[str, Any]) -> list[float | None]:
    """Lag in seconds per sample, None where it was not known; a sample is a number or has `lag_seconds`."""
    raw = numbers.get("samples")
    samples = raw if isinstance(raw, list) else []
    return [sample.get("lag_seconds") if isinstance(sample, Mapping) else sample for sample in samples]
