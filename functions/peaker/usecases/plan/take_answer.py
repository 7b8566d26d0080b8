"""TakeAnswer: what became of the question, written down; only a yes goes on."""

from __future__ import annotations

from peaker.domain.instants import to_iso
from peaker.domain.runs.approval import ApprovalAsked, Given, read_answer
from peaker.domain.runs.run import AnswerStep, Summary
from peaker.ports import Ports
from peaker_contract.errors import ApprovalExpired, ApprovalRefused


class AnswerTaken(Summary):
    """`approved` is what was asked, and what the plan under the lease is held against."""

    approved: ApprovalAsked


def take_answer(ports: Ports, step: AnswerStep) -> AnswerTaken:
    """Raises ApprovalRefused with the person's reason, and ApprovalExpired."""
    asked = step.approval
    given = read_answer(step.answer)
    ports.approvals.close(step.cluster, step.run_id, given.answer, ports.clock.now(), given.said)
    if given.answer != "approved":
        raise _refusal(given, asked, step.cluster)
    by = f" by {given.said}" if given.said else ""
    return AnswerTaken(text=f"{step.run_id} was approved{by}: {asked.what}", approved=asked)


def _refusal(given: Given, asked: ApprovalAsked, cluster: str) -> Exception:
    """The error of what is no yes."""
    if given.answer == "expired":
        return ApprovalExpired(
            f"{cluster}: nobody answered until {to_iso(asked.waits_until)} whether to {asked.what} "
            f"({'; '.join(asked.reasons)})"
        )
    return ApprovalRefused(f"{cluster}: to {asked.what} was refused: {given.said}")
