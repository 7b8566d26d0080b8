"""VerifyStorage: the volumes are warm, shown by reads and by iostat beside a load (I5)."""

from __future__ import annotations

from peaker.domain.errors import StorageNotWarm
from peaker.domain.host_results import StorageProof, typed
from peaker.domain.run import StepInput, Summary
from peaker.domain.storage_judgement import judge_loads
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
    }
    numbers = run_host_command(ports, step, "verify_storage", instance_id, parameters)
    proof = typed("verify_storage", StorageProof, numbers)
    shown = f"first {proof.await_first_ms} ms, second {proof.await_second_ms} ms, ratio {proof.ratio}"
    if proof.verdict != "warm":
        raise StorageNotWarm(
            f"{instance_id}: verdict {proof.verdict}: {shown}; {proof.reason or ''}".rstrip("; ")
        )
    judged = judge_loads(numbers.get("volumes"), settings.volumes)
    limits = "".join(f"; {one['volume']} {one['verdict']}" for one in judged)
    warm = "warm" if scope == "used" else "hot set warm"
    return Summary(text=f"{warm}: {shown}{limits}", numbers={**numbers, "scope": scope, "limits": judged})
