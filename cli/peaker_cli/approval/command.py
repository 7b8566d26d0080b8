"""The two commands that a run which waits for approval is answered by."""

from __future__ import annotations

from typing import Annotated

import typer
from peaker.adapters.dynamodb.approvals import DynamoDbApprovals
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.domain.runs.approval import ApprovalRow
from peaker.domain.runs.execution_input import LONGEST_REASON

from peaker_cli.approval.answer import Reply, send_answer
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.printing import echo

EPILOG = (
    "Examples: peaker approve scale-out-orders-20261121T014000-9f3a --env prod; "
    "peaker refuse scale-out-orders-20261121T014000-9f3a --env prod --reason 'the sale was moved to Friday'"
)
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run that waits, by its id in the message.")]


def approve_command(run_id: RunId, deployment: DeploymentOptions) -> None:
    """Let RUN, which waits for approval, go on. It plans again first, and refuses what has become dearer or slower."""
    control = ControlPlane.of(deployment)
    row = answered(control, run_id, None)
    echo(f"approved: {row.what}. Follow it: peaker watch {row.cluster} --env {control.environment}")


def refuse_command(
    run_id: RunId,
    deployment: DeploymentOptions,
    reason: Annotated[
        str, typer.Option(help=f"Why not; in the run's output. At most {LONGEST_REASON} characters.")
    ],
) -> None:
    """End RUN, which waits for approval, with a reason. Nothing was made; automatic starts ask again later."""
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise typer.BadParameter(f"1 to {LONGEST_REASON} characters", param_hint="--reason")
    row = answered(ControlPlane.of(deployment), run_id, reason.strip())
    echo(f"refused: {row.what}. Nothing was made")


def answered(control: ControlPlane, run_id: str, refusal: str | None) -> ApprovalRow:
    """The row that was answered. Raises ControlPlaneError for a run that waits no more, and what AWS refuses."""
    approvals = DynamoDbApprovals(LedgerTable(control.client("dynamodb"), control.ledger_table))
    # Needs no permission: whoever has credentials may ask whose they are.
    by = str(control.client("sts").get_caller_identity()["Arn"])
    with control.reading_ledger():
        return send_answer(
            approvals, control.client("stepfunctions"), run_id, Reply(by, refusal), control.clock.now
        )
