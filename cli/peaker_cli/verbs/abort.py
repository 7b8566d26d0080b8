"""`peaker abort`: stop a run at work, and follow its undo."""

from __future__ import annotations

from typing import Annotated

import typer
from peaker.domain.reading import Unknown
from peaker.domain.runs.run import is_run_of

from peaker_cli.asking import Yes, agree
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import AsJson, echo, echo_json
from peaker_cli.runs.command import named_run
from peaker_cli.status.gather import StatusReader
from peaker_cli.status.run_at_work import run_line, run_status
from peaker_cli.verbs.following import follow_undo
from peaker_cli.verbs.start import Follow, checked

EPILOG = "Examples: peaker abort orders last --env prod; peaker abort orders 9f3a --yes"
# Outcomes of a run of which nothing is left to do.
_UNDONE = {"rolled_back": "was undone", "rolled_forward": "serves and stays", "called_off": "was called off"}


def abort_command(
    cluster: str,
    run: Annotated[str, typer.Argument(help="Its id, the id's last characters, or last.")],
    deployment: DeploymentOptions,
    reason: Annotated[str, typer.Option(help="The cause that the receipt keeps.")] = "stopped by hand",
    yes: Yes = False,
    following: Follow = True,
    as_json: AsJson = False,
) -> None:
    """Stop the RUN of CLUSTER that is at work: roll_back undoes it, or puts the leaving replica back."""
    checked("scale_in", cluster=cluster, reason=reason)
    control = ControlPlane.of(deployment)
    reader = StatusReader(control)
    settings = reader.settings(cluster)
    found = reader.at_work(cluster)
    run_id = named_run(control, [cluster], run, [found.lease.run_id] if found else [])
    if found is None or not is_run_of(run_id, found.lease.run_id):
        runs = control.line("runs", cluster)
        other = f"; {found.lease.run_id} is" if found else f"; {runs} says how it ended"
        raise ControlPlaneError(f"{run_id} is not at work{other}")
    if isinstance(found.execution, Unknown):
        raise ControlPlaneError(f"{run_id}: its execution is not known: {found.execution.why}")
    run_id = found.lease.run_id
    echo(run_line(run_status(found, settings, control.clock.now()), control.clock.now()), err=as_json)
    if not found.execution.ended:
        agree(f"Stop {run_id}? roll_back undoes what it made.", yes)
        by = control.caller()
        control.client("stepfunctions").stop_execution(
            executionArn=found.execution.arn, error="Aborted", cause=f"{reason} (by {by})" if by else reason
        )
    outcome = follow_undo(control, reader, cluster, run_id) if following else "stopped"
    receipt = control.line("receipt", run_id)
    if as_json:
        echo_json({"run_id": run_id, "outcome": outcome})
    if following and outcome not in _UNDONE:
        told = "ended before it was stopped" if outcome == "succeeded" else outcome.replace("_", " ")
        raise ControlPlaneError(f"{run_id}: {told}; {receipt}")
    if not as_json:
        echo(f"{run_id} {_UNDONE.get(outcome, 'is stopped')}; {receipt}")
