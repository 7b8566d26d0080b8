"""`peaker scale-out`, `scale-in` and `retire` start a workflow as the console does, once, and follow its run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from botocore.exceptions import ClientError
from peaker.domain.reading import Unknown
from peaker.domain.runs.execution_input import ExecutionInput, Operation, Trigger, execution_input_problems

from peaker_cli.asking import Reason, Yes, agree
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import AsJson, console, echo, echo_json
from peaker_cli.runs.plan import planned, refused_text, render_plan
from peaker_cli.status.gather import StatusReader
from peaker_cli.verbs.following import end_of_run, follow

EPILOG = (
    "Examples: peaker scale-out orders --count 2 --env prod; peaker scale-in orders --yes; "
    "peaker retire orders i-0123456789abcdef0 --reason misbehaves"
)
# How a person types what the input calls by these names; the others are options of their own names.
_TYPED_AS = {"cluster": "CLUSTER", "replica": "INSTANCE", "above_limits": "--above-limits"}
_MOST_STARTS = 100
Follow = Annotated[bool, typer.Option("--follow/--no-follow", help="Follow the run to its end.")]
Count = Annotated[int | None, typer.Option(help="How many replicas.", show_default="1")]


def scale_out_command(
    cluster: str,
    deployment: DeploymentOptions,
    count: Count = None,
    above_limits: Annotated[
        bool, typer.Option("--above-limits", help="Pass max_replicas and the budget; needs --reason.")
    ] = False,
    reason: Reason = None,
    yes: Yes = False,
    following: Follow = True,
    as_json: AsJson = False,
) -> None:
    """Build warm replicas of CLUSTER: show the plan, ask, start scale_out and follow it."""
    request = checked("scale_out", cluster=cluster, count=count, above_limits=above_limits, reason=reason)
    _run(ControlPlane.of(deployment), "scale_out", request, yes, following, as_json)


def scale_in_command(
    cluster: str,
    deployment: DeploymentOptions,
    count: Count = None,
    reason: Reason = None,
    yes: Yes = False,
    following: Follow = True,
    as_json: AsJson = False,
) -> None:
    """Take idle peak replicas of CLUSTER away: show which, ask, start scale_in and follow it."""
    request = checked("scale_in", cluster=cluster, count=count, reason=reason)
    _run(ControlPlane.of(deployment), "scale_in", request, yes, following, as_json)


def retire_command(
    cluster: str,
    instance: str,
    deployment: DeploymentOptions,
    reason: Reason = None,
    yes: Yes = False,
    following: Follow = True,
    as_json: AsJson = False,
) -> None:
    """Take the peak replica INSTANCE of CLUSTER away: parked or retired, and a parked one retired."""
    request = checked("scale_in", cluster=cluster, replica=instance, reason=reason)
    _run(ControlPlane.of(deployment), "scale_in", request, yes, following, as_json)


def checked(operation: Operation, **given: Any) -> dict[str, Any]:
    """The workflow's input with what was given. Raises BadParameter, which names the wrong field as it is typed."""
    request = {name: value for name, value in given.items() if value is not None and value is not False}
    for name, problem in execution_input_problems(request, operation).items():
        raise typer.BadParameter(problem, param_hint=_TYPED_AS.get(name, f"--{name}"))
    return request


def _run(
    control: ControlPlane,
    operation: Operation,
    request: Mapping[str, Any],
    yes: bool,
    following: bool,
    as_json: bool,
) -> None:
    reader, cluster = StatusReader(control), str(request["cluster"])
    if reader.settings(cluster).mode == "observe":
        raise ControlPlaneError(
            f"{cluster} is in mode observe, in which a start only plans: {control.line('plan', cluster)}"
        )
    arn = _begun_already(control, reader, operation, request)
    if arn is None:
        newest = [row["run_id"] for row in control.runs(cluster, 1)]
        plan = planned(control, operation, request)
        _show(operation, plan, err=as_json)
        if refused := refused_text(plan, control.environment):
            raise ControlPlaneError(f"refused, nothing was done: {refused}")
        agree(f"Start {operation} of {cluster}?", yes)
        arn = start_once(control, operation, request, newest)
    if following:
        execution, run_id = follow(control, reader, cluster, arn)
        document = {
            "execution": arn,
            "run_id": run_id,
            "status": execution.status,
            "output": execution.output,
        }
    else:
        document = {"execution": arn}
    if as_json:
        echo_json(document)
    if following:
        end_of_run(control, operation, cluster, execution, run_id, quiet=as_json)
    elif not as_json:
        echo(f"started; {control.line('watch', cluster)} shows it")


def _begun_already(
    control: ControlPlane, reader: StatusReader, operation: Operation, request: Mapping[str, Any]
) -> str | None:
    """The execution at work that the same command began. Raises ControlPlaneError where another run is at work."""
    cluster = str(request["cluster"])
    found = reader.at_work(cluster)
    if found is None:
        return None
    same = found.lease.operation == operation and (
        found.run is not None
        and found.run.request.trigger.kind == "manual"
        and found.run.request.model_copy(update={"trigger": Trigger()})
        == ExecutionInput.model_validate(request)
    )
    if same and not isinstance(found.execution, Unknown) and not found.execution.ended:
        echo(f"{found.lease.run_id} is at work on the same order: nothing is started anew", err=True)
        return found.execution.arn
    raise ControlPlaneError(
        f"{found.lease.operation} {found.lease.run_id} holds the lease of {cluster}: wait for its end "
        f"({control.line('watch', cluster)}), or stop it ({control.line('abort', cluster, 'last')})"
    )


def _show(operation: Operation, plan: Mapping[str, Any], err: bool) -> None:
    if operation == "scale_out":
        console(stderr=err).print(render_plan(plan))
        return
    echo(str(plan["text"]), err=err)
    for one in plan.get("planned", ()):
        for objection in one["objections"]:
            echo(f"against {one['replica']}: {objection}", err=err)


def start_once(
    control: ControlPlane, operation: Operation, request: Mapping[str, Any], seen: list[Any]
) -> str:
    """Starts the workflow and returns the execution's ARN; twice makes one run.

    The name follows from the order and the cluster's newest run when the order was shown. Only where an execution of
    that name ended without a run, refused or only planned, the next one gets a number more.
    """
    order = json.dumps([operation, dict(request), seen], sort_keys=True, default=str)
    by = control.caller()
    told = {**request, **({"trigger": {"kind": "manual", "by": by}} if by else {})}
    name = f"manual-{hashlib.sha256(order.encode()).hexdigest()[:24]}"
    for number in range(1, _MOST_STARTS):
        numbered = f"{name}-{number}"
        try:
            return control.start(operation, told, numbered)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "ExecutionAlreadyExists":
                raise
        machine = control.state_machine_arn(operation)
        arn = f"{machine.replace(':stateMachine:', ':execution:')}:{numbered}"
        earlier = control.describe(arn)
        left_no_run = earlier.failure is not None or earlier.is_refused or earlier.is_only_planned
        if not (earlier.ended and left_no_run):
            return arn
    raise ControlPlaneError(f"{_MOST_STARTS} starts of this order ended without a run: {arn} was the last")
