"""`peaker runs`: what was done to a cluster, the newest run first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from peaker.domain.document.plan import ScaleOutPlan, price_of_build
from peaker.domain.instants import from_iso, seconds_between
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.report.receipt import assemble_receipt
from peaker.domain.report.run_progress import RunProgress, run_progress
from peaker.domain.runs.batch import Member
from peaker.domain.runs.failure import STOPPED_BY_HAND
from peaker.domain.runs.ledger import RunReplica, RunRow, StepRow
from peaker.domain.runs.run_execution import RunExecution
from rich.console import Group, RenderableType
from rich.text import Text

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.durations import duration
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import AsJson, OneOrAll, console, echo, echo_json, table_of, telling
from peaker_cli.status.document import as_document
from peaker_cli.status.gather import StatusReader
from peaker_cli.status.run_at_work import RunAtWork, ended_execution, is_worked_on
from peaker_contract.cluster import ClusterSettings

_LOOKED_AT = 200
_NAMED = 5


def is_whole(text: str) -> bool:
    return text.startswith("scale-")


def named_run(control: ControlPlane, clusters: Sequence[str], text: str, at_work: Sequence[str] = ()) -> str:
    """The id that is meant; a whole one is not looked up. `at_work` may have no row yet.

    Raises ControlPlaneError where no run of these clusters, or more than one, is meant.
    """
    if is_whole(text):
        return text
    rows = []
    with telling("reading the runs") as tell:
        for name in clusters:
            tell(f"reading the runs of {name}")
            rows += [(str(row["sk"]), str(row["run_id"])) for row in control.runs(name, _LOOKED_AT)]
    ids = list(dict.fromkeys([*at_work, *(run_id for _, run_id in sorted(rows, reverse=True))]))
    where = f"of {clusters[0]}" if len(clusters) == 1 else "of this environment"
    if text == "last":
        # The members of a batch have ids that go on after that of the batch's run.
        found = [one for one in ids if not any(one.startswith(f"{other}-") for other in ids)][:1]
    else:
        found = [one for one in ids if text and one.endswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ControlPlaneError(f"{text!r} is the end of {', '.join(found[:_NAMED])}; give more of it")
    if text == "last":
        raise ControlPlaneError(f"no run {where} has begun yet")
    raise ControlPlaneError(f"no run {where} ends in {text!r}; `peaker runs` lists them")


EPILOG = "Examples: peaker runs --env prod; peaker runs orders last; peaker runs orders --limit 5 --json"
AT_WORK = "running"
LEFT = "left"


@dataclass(frozen=True)
class RunLine:
    """One run. `state` is its outcome, running, or left: not ended, and nobody works on it.

    A run is left when it no longer holds its cluster's lease, or when its execution ended and roll_back has not begun.
    `step` is the one at work, or the one that failed; `usd` what it has cost up to its end or to now.
    """

    run_id: str
    operation: str
    reason: str
    started_at: datetime
    state: str
    step: str
    seconds: float
    usd: Reading


def runs_command(
    deployment: DeploymentOptions,
    cluster: OneOrAll = None,
    run: Annotated[
        str | None, typer.Argument(help="One run: its id, the id's last characters, or last.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the runs of CLUSTER, newest first: state, step, duration, dollars. Status 1 where RUN is none of them."""
    control = ControlPlane.of(deployment)
    reader = StatusReader(control)
    names = reader.deployed(cluster)
    lines = []
    with telling("reading the runs") as tell:
        for name in names:
            tell(f"reading the runs of {name}")
            lines += read_runs(reader, control, name, limit)
    lines = sorted(lines, key=lambda one: one.started_at, reverse=True)[:limit]
    if run is not None:
        wanted = named_run(control, names, run)
        lines = [one for one in lines if one.run_id == wanted]
        if not lines:
            raise ControlPlaneError(f"no run {wanted!r} among the newest {limit}; --limit looks further back")
    if as_json:
        echo_json(as_document(lines))
    elif not lines:
        echo(f"no run of {' or '.join(names)} yet; a plan changes nothing and is no run")
    else:
        console().print(render_runs(lines))


def read_runs(reader: StatusReader, control: ControlPlane, cluster: str, limit: int) -> list[RunLine]:
    """Newest first. Raises UnknownCluster for a name that is no cluster's and has no runs."""
    rows = control.runs(cluster, limit)
    settings = reader.settings(cluster) if not rows or _open(rows) else None
    at_work = reader.at_work(cluster) if _open(rows) else None
    return [_line(reader, control, settings, at_work, str(row["run_id"])) for row in rows]


def render_runs(lines: Sequence[RunLine]) -> RenderableType:
    """A table, the newest first; an id tells what was done and when. Then the step at work, or that failed."""
    rows = (
        (
            one.run_id,
            one.state.replace("_", " "),
            duration(one.seconds),
            "unknown" if isinstance(one.usd, Unknown) else f"{one.usd.value:.2f}",
        )
        for one in lines
    )
    table = table_of(("run", "state", "took", "USD"), rows, right=("took", "USD"), whole=("run", "took"))
    steps = [Text(f"{one.run_id}: {one.step}") for one in lines if one.step]
    return Group(table, *steps)


def _open(rows: Sequence[dict[str, Any]]) -> bool:
    return any(row.get("outcome") == AT_WORK for row in rows)


def _line(
    reader: StatusReader,
    control: ControlPlane,
    settings: ClusterSettings | None,
    at_work: RunAtWork | None,
    run_id: str,
) -> RunLine:
    run = reader.ledger.run(run_id)
    receipt = reader.ledger.receipt(run_id)
    if receipt is not None:
        return ended_line(run, receipt)
    steps = reader.ledger.steps(run_id)
    return open_line(run, steps, settings, at_work, control.clock.now())


def ended_line(run: RunRow, receipt: dict[str, Any]) -> RunLine:
    failure = receipt.get("failure")
    return RunLine(
        run_id=run.run_id,
        operation=run.operation,
        reason=str(receipt.get("reason") or ""),
        started_at=run.started_at,
        state=str(receipt["outcome"]),
        step=_failed_at(failure),
        seconds=float(receipt["seconds"]),
        usd=_usd((receipt.get("cost") or {}).get("so_far"), from_iso(str(receipt["finished_at"]))),
    )


def _failed_at(failure: Mapping[str, Any] | None) -> str:
    if not failure:
        return ""
    return "stopped by hand" if failure["error"] == STOPPED_BY_HAND else f"failed at {failure['failed_step']}"


def open_line(
    run: RunRow,
    steps: Sequence[StepRow],
    settings: ClusterSettings | None,
    at_work: RunAtWork | None,
    now: datetime,
) -> RunLine:
    """The line of a run without a receipt; `at_work` is the holder of its cluster's lease."""
    member = run.part(Member)
    leased = {run.run_id} if member is None else {run.run_id, member.batch}
    holder = at_work if at_work is not None and at_work.lease.run_id in leased else None
    state = run.outcome if run.outcome != AT_WORK else AT_WORK if holder and is_worked_on(holder) else LEFT
    ended = ended_execution(holder.execution) if holder else None
    progress = (
        run_progress(steps, settings, now, run.part(ScaleOutPlan))
        if settings
        else Unknown("its cluster is not deployed")
    )
    return RunLine(
        run_id=run.run_id,
        operation=run.operation,
        reason=run.request.reason or "",
        started_at=run.started_at,
        state=state,
        step=_step(progress, ended),
        seconds=max(0.0, seconds_between(run.started_at, run.finished_at or now)),
        usd=_cost_until(run, now),
    )


def _step(progress: RunProgress | Unknown, ended: RunExecution | None) -> str:
    step = progress.step if isinstance(progress, RunProgress) else ""
    return ", ".join(filter(None, (step, ended.text if ended else "")))


def _cost_until(run: RunRow, now: datetime) -> Reading:
    """Computes the cost by the receipt's own arithmetic, as if the run had ended now."""
    price, replica = price_of_build(run), run.part(RunReplica)
    if price is None:
        return Unknown("the run has no plan with a price")
    provisional = assemble_receipt(
        run,
        (),
        (),
        outcome=run.outcome,
        failure=None,
        price=price,
        replica_since=replica.running_since if replica else None,
        load_crossed_at=None,
        notes=(),
        now=now,
    )
    return _usd(provisional.cost.so_far if provisional.cost else None, now)


def _usd(amount: float | None, at: datetime) -> Reading:
    return Unknown("no price is known") if amount is None else Known(float(amount), at)
