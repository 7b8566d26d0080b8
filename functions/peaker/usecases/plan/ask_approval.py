"""AskApproval: keeps the task token by which a person answers, and tells the operators what they are asked."""

from __future__ import annotations

from peaker.domain.report.approval_question import approval_question
from peaker.domain.runs.approval import ApprovalAsked, ApprovalRow
from peaker.domain.runs.run import AskStep, Summary
from peaker.ports import Ports
from peaker_contract.errors import ApprovalExpired


def ask_approval(ports: Ports, step: AskStep) -> Summary:
    """The state waits on until the token comes back. Raises ApprovalPending where another run was faster, and
    ApprovalExpired where the question of this run is closed: its stopped execution was redriven, and nobody can answer.

    A second try has a new token and tells nobody again, unless it is not known that anybody was told. The token of a
    try that a later one overtook is dead, and its message is not sent.
    """
    asked = step.approval
    standing = ports.approvals.ask(_row(step, asked))
    if standing.answer != "waiting":
        raise ApprovalExpired(f"{step.cluster}: the question of {step.run_id} is closed ({standing.answer})")
    if standing.told_at is not None or standing.task_token != step.task_token:
        return Summary(text=f"{standing.text}; the operators were told")
    question = approval_question(asked, step.run_id, step.cluster, ports.environment)
    ports.operators.tell(question.subject, question.text)
    ports.approvals.told(standing, ports.clock.now())
    return Summary(text=standing.text)


def _row(step: AskStep, asked: ApprovalAsked) -> ApprovalRow:
    return ApprovalRow(
        cluster=step.cluster,
        run_id=step.run_id,
        operation=step.operation,
        answer="waiting",
        asked_at=asked.asked_at,
        waits_until=asked.waits_until,
        what=asked.what,
        reasons=asked.reasons,
        task_token=step.task_token,
        task_try=step.task_try,
    )
