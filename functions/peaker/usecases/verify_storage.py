"""VerifyStorage: the volumes are warm, shown by reads and by iostat beside a load (I5).

The step's numbers are the storage proof, one document that stays with the run: await before the prewarm and after,
the sample's verdict, each volume's limit and what to do about it, delivered against promised, and the knee where it
was searched for.
"""

from __future__ import annotations

from typing import Any

from peaker.domain.cluster import ClusterSettings
from peaker.domain.errors import AwsCallRejected, AwsUnavailable, ResourceNotFound, StorageNotWarm, Throttled
from peaker.domain.host_results import StorageProof, typed
from peaker.domain.inventory import Numbers
from peaker.domain.io_diagnosis import InstancePromise
from peaker.domain.run import StepInput, Summary
from peaker.domain.storage_judgement import judge_loads, together_against_plan
from peaker.ports import Ports
from peaker.usecases.run_facts import host_id
from peaker.usecases.run_host_command import run_host_command

# First sample of blocks; the host draws more while the verdict is open.
SAMPLE_BLOCKS = 256


def verify_storage(ports: Ports, step: StepInput) -> Summary:
    """Raises StorageNotWarm when the verdict is not warm; unknown is not warm (I4)."""
    settings = ports.clusters.settings(step.cluster)
    instance_id = host_id(ports, step.run_id, "replica")
    scope = "used" if settings.prewarm.serve_when == "all" else "hot"
    parameters = {
        "RunId": step.run_id,
        "SampleBlocks": str(SAMPLE_BLOCKS),
        "AwaitRatioLimit": f"{settings.gates.storage_await_ratio:g}",
        "Scope": scope,
        "KneeSeconds": str(settings.gates.knee_seconds),
    }
    numbers = run_host_command(ports, step, "verify_storage", instance_id, parameters)
    proof = typed("verify_storage", StorageProof, numbers)
    shown = f"first {proof.await_first_ms} ms, second {proof.await_second_ms} ms, ratio {proof.ratio}"
    if proof.await_cold_ms is not None:
        shown = f"cold {proof.await_cold_ms} ms, {shown}"
    if proof.verdict != "warm":
        raise StorageNotWarm(
            f"{instance_id}: verdict {proof.verdict}: {shown}; {proof.reason or ''}".rstrip("; ")
        )
    judged = judge_loads(numbers.get("volumes"), settings.volumes)
    limits = "".join(f"; {one['volume']} {one['verdict']}" for one in judged)
    warm = "warm" if scope == "used" else "hot set warm"
    return Summary(
        text=f"{warm}: {shown}{limits}",
        numbers={**numbers, "scope": scope, "limits": judged, **_against_plan(ports, settings, numbers)},
    )


def _against_plan(ports: Ports, settings: ClusterSettings, numbers: Numbers) -> dict[str, Any]:
    """With the instance's baseline where EC2 says it; the proof does not depend on it."""
    unknown = ""
    try:
        instance = ports.compute.ebs_promise(settings.instance_type)
    except (AwsCallRejected, AwsUnavailable, ResourceNotFound, Throttled) as error:
        instance, unknown = InstancePromise(), f"{type(error).__name__}: {error}"
    return {
        "against_plan": together_against_plan(numbers.get("volumes"), settings.volumes, instance),
        "instance_baseline_unknown": unknown,
    }
