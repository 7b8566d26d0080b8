"""ReserveLimits: a turn to start and the initialization rate, of what all runs of the account share."""

from __future__ import annotations

from peaker.domain.instants import to_iso
from peaker.domain.limits.admission import Admission, admitted
from peaker.domain.planning.methods.rate_reservation import rate_wanted
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.plan.shared_limits import reserve_rate, take_start_slot
from peaker.usecases.run.held_lease import holder_of
from peaker_contract.errors import ReservationNotDue


def reserve_limits(ports: Ports, step: StepInput) -> Summary:
    """Asks once, and keeps the answer for the whole run. Raises ReservationNotDue until its time has come.

    A reservation is not fenced: one of a run that was stopped right then ends by itself, and the undo gives it back.
    """
    run = ports.ledger.run(step.run_id)
    admission = run.part(Admission)
    if admission is None:
        asked = _asked(ports, step, run.required(ScaleOutPlan, step.step))
        admission = ports.ledger.settle_first(holder_of(step), asked)
    if ports.clock.now() < admission.begins_at:
        raise ReservationNotDue(admission.text)
    return Summary(
        text=f"began after {admission.wait_seconds:.0f} s: {'; '.join(admission.notes) or 'has what it needs'}",
        numbers={
            "wait_seconds": round(admission.wait_seconds, 1),
            "waited_for": admission.waits_for,
            "rate_mib_per_s": admission.rate_mib_per_s,
            "rate_ends_at": None if admission.rate_ends_at is None else to_iso(admission.rate_ends_at),
            "notes": list(admission.notes),
        },
    )


def _asked(ports: Ports, step: StepInput, plan: ScaleOutPlan) -> Admission:
    ports.ledger.require_lease(holder_of(step))
    asked_at = ports.clock.now()
    slot = take_start_slot(ports)
    wanted = rate_wanted(step.run_id, step.cluster, plan.volumes, plan.lead_time, plan.comparison, slot)
    return admitted(asked_at, slot, reserve_rate(ports, wanted) if wanted.amount else None)
