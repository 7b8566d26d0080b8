"""A verb follows the run that it started, or the undo of the one that it stopped, with a line per step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from peaker.domain.report.run_progress import RunProgress
from peaker.domain.runs.run_execution import RunExecution

from peaker_cli.aws_failures import EXPECTED, one_line
from peaker_cli.control_plane import ControlPlane, Execution
from peaker_cli.durations import clock, duration
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import console, echo
from peaker_cli.status.gather import StatusReader
from peaker_cli.status.run_at_work import RunStatus, run_line, run_status
from peaker_contract.errors import PeakerError

_EVERY_SECONDS = 5.0
# Longer than the workflows' own timeouts.
_LONGEST_RUN_SECONDS = 400_000.0
# roll_back leaves the rest to the sweep after eight minutes, which looks every three.
_LONGEST_UNDO_SECONDS = 1800.0


def follow(
    control: ControlPlane, reader: StatusReader, cluster: str, arn: str
) -> tuple[Execution, str | None]:
    """Tells each step until the execution has ended; returns it, and its run where one was seen."""
    seen: list[str | None] = [None]
    with _telling(control, reader, cluster) as tell:

        def look() -> None:
            run = tell()
            if run is not None and isinstance(run.execution, RunExecution) and run.execution.arn == arn:
                seen[:] = [run.run_id]

        execution = control.wait(arn, _LONGEST_RUN_SECONDS, poll_seconds=_EVERY_SECONDS, each_look=look)
    return execution, seen[0]


def end_of_run(
    control: ControlPlane, operation: str, cluster: str, execution: Execution, run_id: str | None, quiet: bool
) -> None:
    """Tells how the run ended. Raises ControlPlaneError where it failed, was refused, or did nothing."""
    line = control.line("receipt", run_id or "last")
    if execution.failure is not None:
        raise ControlPlaneError(f"{operation} of {cluster} failed: {execution.failure_text}\n{line}")
    if execution.is_refused:
        raise ControlPlaneError(f"refused: {execution.output.get('error')}: {execution.output.get('reason')}")
    if execution.is_only_planned:
        raise ControlPlaneError(
            f"{operation} of {cluster} only planned, and did nothing: functions know a deployment's settings a minute "
            "after it. Type the line again then"
        )
    if not quiet:
        receipt = control.find_receipt(run_id) if run_id else None
        took = f" in {duration(float(receipt['seconds']))}" if receipt else ""
        echo(f"{operation} of {cluster} has ended well{took}; {line}")


def follow_undo(control: ControlPlane, reader: StatusReader, cluster: str, run_id: str) -> str:
    """Tells each step until the run has ended and its lease is free; returns the outcome.

    Raises ControlPlaneError where that takes longer than the undo and the sweep need.
    """
    began = time.monotonic()
    with _telling(control, reader, cluster) as tell:
        while time.monotonic() - began < _LONGEST_UNDO_SECONDS:
            run = tell()
            outcome = reader.ledger.run(run_id).outcome
            if outcome != "running" and (run is None or run.run_id != run_id):
                return outcome
            time.sleep(_EVERY_SECONDS)
    raise ControlPlaneError(
        f"{run_id} is not undone after {duration(_LONGEST_UNDO_SECONDS)}: docs/runbooks/abort-run.md"
    )


@contextmanager
def _telling(
    control: ControlPlane, reader: StatusReader, cluster: str
) -> Iterator[Callable[[], RunStatus | None]]:
    """Gives a function that tells the run at work when its step is another one, on a terminal at each look."""
    settings, told = reader.settings(cluster), [""]
    with console(stderr=True).status(f"{cluster}: waiting for the run") as live:

        def tell() -> RunStatus | None:
            try:
                found = reader.at_work(cluster)
            except (PeakerError, ControlPlaneError, *EXPECTED) as error:
                live.update(f"no news: {one_line(error)}")
                return None
            now = control.clock.now()
            run = run_status(found, settings, now) if found else None
            if run is not None:
                line = run_line(run, now)
                live.update(line)
                step = run.progress.step if isinstance(run.progress, RunProgress) else ""
                if step and step != told[0]:
                    told[0] = step
                    echo(f"{clock(now)} {step}", err=True)
            return run

        try:
            yield tell
        except KeyboardInterrupt:
            watch, abort = control.line("watch", cluster), control.line("abort", cluster, "last")
            echo(f"the run goes on: {watch}; to stop it: {abort}", err=True)
            raise
