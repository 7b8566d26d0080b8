"""VerifyStorage: the volumes are warm, shown by reads and by iostat beside a load (I5).

The step's numbers are the storage proof, one document that stays with the run: await before the prewarm and after,
the sample's verdict, each volume's limit and what to do about it, delivered against promised, and the knee where it
was searched for.
"""

from __future__ import annotations

from typing import Any, NoReturn

from peaker.domain.document.plan import PlannedBuild, ScaleOutPlan
from peaker.domain.host_results import StorageProof, typed
from peaker.domain.instants import seconds_between, to_iso
from peaker.domain.replicas.inventory import InstancePromise, Numbers
from peaker.domain.runs.ledger import ResourceKind, ResourceState, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.storage.storage_judgement import judge_loads, together_against_plan
from peaker.domain.storage.storage_looks import (
    Look,
    NextLook,
    StorageLooks,
    blocks_used,
    next_look,
)
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import build_of_run, host_id, plan_of_run
from peaker_contract.errors import (
    AwsCallRejected,
    AwsUnavailable,
    ResourceNotFound,
    StorageNotWarm,
    StorageProofOpen,
    Throttled,
)


def verify_storage(ports: Ports, step: StepInput) -> Summary:
    """Raises StorageProofOpen before another look, StorageNotWarm when none is left; unknown is not warm (I4)."""
    plan, build = plan_of_run(ports, step), build_of_run(ports, step)
    instance_id = host_id(ports, step, "replica")
    scope = "used" if build.prewarm.serve_when == "all" else "hot"
    looks, how = _so_far(ports, step)
    numbers = run_host_command(
        ports,
        step,
        "verify_storage",
        instance_id,
        _parameters(ports, step, build, scope, how),
        repeat=_commands_ended(ports, step) == len(looks),
    )
    proof = typed("verify_storage", StorageProof, numbers)
    looks = [*looks, _look_of(ports, proof, how)]
    shown = _shown(proof)
    if proof.verdict != "warm":
        _look_again(ports, step, looks, blocks_used(numbers.get("volumes")), f"{instance_id}: {shown}")
    judged = judge_loads(numbers.get("volumes"), plan.volumes)
    limits = "".join(f"; {one['volume']} {one['verdict']}" for one in judged)
    instance = ports.compute.instance(instance_id)
    warm = "warm" if scope == "used" else "hot set warm"
    after = "" if len(looks) == 1 else f" at look {len(looks)}"
    return Summary(
        text=f"{warm}{after}: {shown}{limits}",
        numbers={
            **numbers,
            "scope": scope,
            "launched_at": to_iso(instance.launched_at),
            "looks": [look.model_dump(mode="json") for look in looks],
            "limits": judged,
            **_against_plan(ports, plan, instance.instance_type, numbers),
        },
    )


def _so_far(ports: Ports, step: StepInput) -> tuple[list[Look], NextLook]:
    """Earlier looks and how to look now. Raises StorageProofOpen while the pause before it lasts."""
    kept = ports.ledger.run(step.run_id).part(StorageLooks) or StorageLooks()
    looks, plan = list(kept.looks), kept.next
    if looks:
        left = plan.pause_seconds - seconds_between(looks[-1].at, ports.clock.now())
        if left > 0:
            raise StorageProofOpen(f"look {len(looks) + 1} follows in {left:.0f} s: {plan.why}")
    return looks, plan


def _commands_ended(ports: Ports, step: StepInput) -> int:
    """Looks whose answer may be in: one more than are kept when an earlier call was lost behind it."""
    return sum(
        1
        for row in of_kind(ports.ledger.resources(step.run_id), ResourceKind.COMMAND)
        if row.step == step.step and row.state is ResourceState.KEPT
    )


def _parameters(
    ports: Ports, step: StepInput, build: PlannedBuild, scope: str, how: NextLook
) -> dict[str, str]:
    gates = ports.clusters.settings(step.cluster).gates
    return {
        "RunId": step.run_id,
        "SampleBlocks": str(how.sample_blocks),
        "AwaitRatioLimit": f"{gates.storage_await_ratio:g}",
        "Scope": scope,
        "KneeSeconds": str(build.knee_seconds),
        "Remedy": how.remedy,
    }


def _look_of(ports: Ports, proof: StorageProof, plan: NextLook) -> Look:
    return Look(
        at=ports.clock.now(),
        verdict=proof.verdict,
        reason=proof.reason or "",
        remedy=plan.remedy,
        blocks_sampled=proof.blocks_sampled,
        cold_share_upper=proof.cold_share_upper,
    )


def _look_again(ports: Ports, step: StepInput, looks: list[Look], blocks: int | None, shown: str) -> NoReturn:
    """Keep the look and raise."""
    plan = next_look(looks, blocks)
    verdicts = ", ".join(look.verdict for look in looks)
    if plan is None:
        raise StorageNotWarm(f"{shown}; {looks[-1].reason}; looks: {verdicts}".replace("; ;", ";"))
    ports.ledger.settle(step.holder, StorageLooks(looks=tuple(looks), next=plan))
    raise StorageProofOpen(f"{shown}; looks: {verdicts}; {plan.why}")


def _shown(proof: StorageProof) -> str:
    shown = f"first {proof.await_first_ms} ms, second {proof.await_second_ms} ms, ratio {proof.ratio}"
    if proof.await_cold_ms is not None:
        shown = f"cold {proof.await_cold_ms} ms, {shown}"
    return shown if proof.verdict == "warm" else f"verdict {proof.verdict}: {shown}"


def _against_plan(ports: Ports, plan: ScaleOutPlan, instance_type: str, numbers: Numbers) -> dict[str, Any]:
    """Compares the proof's numbers with the plan and with the instance's baseline, if EC2 gives it."""
    unknown = ""
    try:
        instance = ports.compute.ebs_promise(instance_type)
    except (AwsCallRejected, AwsUnavailable, ResourceNotFound, Throttled) as error:
        instance, unknown = InstancePromise(), f"{type(error).__name__}: {error}"
    return {
        "against_plan": together_against_plan(numbers.get("volumes"), plan.volumes, instance),
        "instance_baseline_unknown": unknown,
    }
