"""ReportPrewarm: how far the engine is, and when to ask again."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from peaker.domain.errors import PrewarmDeadlineExceeded, PrewarmFailed
from peaker.domain.host_results import PrewarmReport, typed
from peaker.domain.instants import seconds_between, to_iso
from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.run_facts import host_id
from peaker.usecases.run_host_command import run_host_command

# A poll costs one command and about 20 history events; 10 minutes keep two days under the limit of 25,000.
SHORTEST_PAUSE_SECONDS = 60
LONGEST_PAUSE_SECONDS = 600


class PrewarmProgress(Summary):
    """What the child workflow decides on."""

    state: Literal["running", "done", "dead"]
    pause_seconds: int


def report_prewarm(ports: Ports, step: StepInput) -> PrewarmProgress:
    """Raises PrewarmFailed when the engine gave up, PrewarmDeadlineExceeded when time is up."""
    instance_id = host_id(ports, step.run_id, "replica")
    numbers = run_host_command(
        ports, step, "report_prewarm", instance_id, {"RunId": step.run_id}, repeat=True
    )
    report = typed("report_prewarm", PrewarmReport, numbers)
    if report.state == "failed":
        raise PrewarmFailed(f"{instance_id}: {report.message or 'the engine says failed'}")
    if report.state != "done":
        _check_deadline(ports, step)
    return PrewarmProgress(
        text=_text(report),
        numbers=numbers,
        state=report.state,
        pause_seconds=pause_seconds(report.eta_seconds),
    )


def pause_seconds(eta_seconds: float | None) -> int:
    """A quarter of the remaining time, within the limits; the shortest pause when it is not known."""
    if eta_seconds is None:
        return SHORTEST_PAUSE_SECONDS
    return int(min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, eta_seconds / 4)))


def _check_deadline(ports: Ports, step: StepInput) -> None:
    minutes = ports.clusters.settings(step.cluster).limits.prewarm_deadline_minutes
    started = next(
        (row.started_at for row in ports.ledger.steps(step.run_id) if row.step == "StartPrewarm"), None
    )
    now = ports.clock.now()
    if started is not None and seconds_between(started + timedelta(minutes=minutes), now) > 0:
        raise PrewarmDeadlineExceeded(
            f"not warm {minutes} min after {to_iso(started)} (limits.prewarm_deadline_minutes)"
        )


def _text(report: PrewarmReport) -> str:
    blocks = f"{report.blocks_done} of {report.blocks_total} blocks"
    rate = "" if report.rate_mib_per_s is None else f" at {report.rate_mib_per_s:.0f} MiB/s"
    return f"{report.state}: {blocks}{rate}"
