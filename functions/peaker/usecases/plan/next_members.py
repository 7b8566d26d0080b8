"""NextMembers: the members of a batch that begin now, or the outcome of the batch when none begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from peaker.domain.document.plan import ScaleOutPlan
from peaker.domain.instants import from_iso
from peaker.domain.planning.plan_refusals import passing_limits
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.runs.batch import (
    MOST_WANTED,
    TRIES,
    Batch,
    Member,
    member_run_id,
    outcome_of,
)
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import Donor, Holder, ResourceKind, RunRow, of_kind
from peaker.domain.runs.run import Outcome, RoundStep, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.plan.check_shortage import missing_replicas
from peaker.usecases.plan.decide_plan import decide_plan
from peaker.usecases.plan.gather_fleet import possible_donors
from peaker.usecases.plan.plan_facts import gather_plan_facts
from peaker.usecases.run.batch_members import handed_to_member, members_of
from peaker_contract.cluster import ClusterSettings
from peaker_contract.steps import Method

# A member that fails at its last step and is undone still has the time of another one.
_SLACK = 2.5


class MembersChosen(Summary):
    """`members` are the members of this round, as AddReplica is given them; without any the batch has ended so.

    `snapshots`: somebody is built and the donor's snapshot set is not there yet.
    """

    members: tuple[dict[str, Any], ...] = ()
    more: bool
    snapshots: bool = False
    round: int
    outcome: Outcome
    failure: Failure


def next_members(ports: Ports, step: RoundStep) -> MembersChosen:
    """Begins all members of the plan; later the missing ones, if they would serve by the deadline and rules allow it.

    An automatic run then asks the forecast again: more where the shortage has grown while the batch was built, none
    where it has gone. A batch of which no member serves is not tried again: its cause is no single member's, and the
    run is rolled back. A round that was begun stays as it was: the same call gives the same members.
    """
    run = ports.ledger.run(step.run_id)
    batch = run.part(Batch) or _batch(run)
    if step.round >= len(batch.rounds):
        ended = members_of(ports, batch)
        plan, why = _due(ports, step, run, batch, list(ended.values()))
        if plan is None:
            return _ended(step, batch, ended, why)
        batch = _begun(ports, step, run, batch, plan)
    ids = batch.rounds[step.round]
    members = {one: found for one, found in members_of(ports, batch).items() if one in ids}
    return MembersChosen(
        text=f"{len(ids)} of {batch.wanted} begin: {', '.join(ids)}",
        members=tuple(
            {**handed_to_member(ports, step, one), "method": member.method and member.method.value}
            for one, member in members.items()
        ),
        more=True,
        snapshots=any(one.method is Method.BUILD for one in members.values()) and not _has_set(ports, step),
        round=step.round + 1,
        outcome="succeeded",
        failure=_NOBODY,
        numbers={"round": step.round + 1, "members": list(ids)},
    )


_NOBODY = Failure(failed_step="NextMembers", error="None", cause="no member has failed")


def _batch(run: RunRow) -> Batch:
    plan = run.required(ScaleOutPlan, "NextMembers")
    seconds = max((one.lead_time.seconds for one in plan.members if one.lead_time), default=0.0)
    return Batch(wanted=plan.count, deadline=plan.planned_at + timedelta(seconds=_SLACK * seconds))


def _due(
    ports: Ports, step: RoundStep, run: RunRow, batch: Batch, ended: Sequence[Member]
) -> tuple[ScaleOutPlan | None, str]:
    """The plan of the members that begin now, or None and the reason."""
    if not batch.rounds:
        return run.required(ScaleOutPlan, step.step), ""
    serving = sum(one.state == "in_service" for one in ended)
    if serving == 0 or any(one.state in ("at_work", "left") for one in ended):
        return None, f"{serving} of {batch.wanted} serve"
    settings = ports.clusters.settings(step.cluster)
    fleet: FleetState = possible_donors(ports, settings)
    missing = _missing(ports, settings, run, fleet, batch.wanted - serving)
    if missing <= 0:
        return None, f"{serving} of {batch.wanted} serve, and none is missing"
    if len(batch.members) + missing > TRIES * max(batch.wanted, serving + missing):
        return None, f"{serving} of {batch.wanted} serve, and each was tried {TRIES} times"
    asked = run.request.ready_by
    by = None if asked is None else from_iso(asked)
    donor = run.part(Donor)
    taken = None if donor is None else donor.instance_id
    plan = decide_plan(gather_plan_facts(ports, step, settings, fleet, taken), missing, by)
    if run.request.above_limits:
        plan = passing_limits(plan, run.request.why)
    if plan.refusals:
        return None, f"{serving} of {batch.wanted} serve; {plan.refusal_text}"
    if plan.all_ready_at is None or plan.all_ready_at > batch.deadline:
        return None, f"{serving} of {batch.wanted} serve; another try would end after {batch.deadline:%H:%M}"
    return plan, ""


def _missing(ports: Ports, settings: ClusterSettings, run: RunRow, fleet: FleetState, of_plan: int) -> int:
    """`of_plan` for a person's run, and while the need is unknown."""
    if run.request.trigger.kind == "manual":
        return of_plan
    missing = missing_replicas(ports, settings, fleet)
    return of_plan if isinstance(missing, Unknown) else min(missing, MOST_WANTED)


def _begun(ports: Ports, step: RoundStep, run: RunRow, batch: Batch, plan: ScaleOutPlan) -> Batch:
    """Each member's rows, then the round: a call that dies in between opens the same rows again."""
    first = len(batch.members) + 1
    ids = []
    for offset, planned in enumerate(plan.members):
        number, own = first + offset, plan.of_member(planned.number)
        run_id = member_run_id(run.run_id, number)
        method = Method.BUILD if own.returns is None else Method.RETURN
        member = Member(batch=run.run_id, number=number, method=method)
        holder = replace(step.holder, run_id=run_id, batch=run.run_id)
        if number == 1:
            ports.ledger.settle(holder, member)
        else:
            _open(ports, holder, run, member, own)
        ids.append(run_id)
    serving = sum(one.state == "in_service" for one in members_of(ports, batch).values())
    rounds = (*batch.rounds, tuple(ids))
    batch = batch.model_copy(update={"rounds": rounds, "wanted": max(batch.wanted, serving + len(ids))})
    ports.ledger.settle(step.holder, batch)
    return batch


def _open(ports: Ports, holder: Holder, run: RunRow, member: Member, plan: ScaleOutPlan) -> None:
    request = run.request.model_copy(update={"count": 1})
    parts = {part.ledger_name: part.model_dump_json() for part in (member, plan)}
    row = RunRow(holder.run_id, run.cluster, run.operation, ports.clock.now(), request, parts=parts)
    ports.ledger.open_run(holder, row)


def _has_set(ports: Ports, step: RoundStep) -> bool:
    rows = of_kind(ports.ledger.resources(step.run_id), ResourceKind.SNAPSHOT)
    return bool(rows) and all(row.resource_id is not None for row in rows)


def _ended(step: RoundStep, batch: Batch, ended: dict[str, Member], why: str) -> MembersChosen:
    outcome = outcome_of(batch.wanted, list(ended.values()))
    failures = [one.failure for one in ended.values() if one.failure is not None]
    unsaid = Failure(
        failed_step="AddReplicas", error="MemberLeft", cause="a member ended without a word; its undo follows"
    )
    return MembersChosen(
        text=why,
        more=False,
        round=step.round + 1,
        outcome=outcome,
        failure=failures[0] if failures else (_NOBODY if outcome == "succeeded" else unsaid),
        numbers={"outcome": outcome, "members": {one: member.state for one, member in ended.items()}},
    )
