"""Whether a refill may have written to the volumes that it was to bring up to date. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from peaker.domain.host_results import PrewarmReport
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, RunPart, of_kind

_DOCUMENT = "start_fill"


class RefillEnd(RunPart):
    """What a host said of a refill's engine that had ended without bringing all of it.

    `started_by` is the name of the newest command that had started one by then, `written` whether any engine of the run
    had begun to write.
    """

    ledger_name = "refill_end"

    started_by: str
    written: bool


def starts_of_refill(rows: Iterable[ResourceRow]) -> list[ResourceRow]:
    """The run's commands to start an engine that writes, in their order, whether a host got them or not."""
    return [row for row in of_kind(rows, ResourceKind.COMMAND) if row.details.get("document") == _DOCUMENT]


def end_of_refill(report: PrewarmReport, rows: Iterable[ResourceRow], asked_by: str) -> RefillEnd | None:
    """What the report that the newest command of the step `asked_by` brought says of a refill's end.

    None of an engine that runs, which may write the next moment, and of one that is no refill's or does not say. A
    command that was sent after the question may have started another one: the report does not speak of that.
    """
    rows = list(rows)
    if report.state not in ("failed", "dead") or report.written is None:
        return None
    asked = [row.number for row in of_kind(rows, ResourceKind.COMMAND) if row.step == asked_by]
    starts = [row.name for row in starts_of_refill(rows) if asked and row.number < asked[-1]]
    return RefillEnd(started_by=starts[-1], written=report.written) if starts else None


def may_have_written(starts: Iterable[ResourceRow], sent: Collection[str], end: RefillEnd | None) -> bool:
    """Whether the volumes may be a mixture of two instants.

    `starts` are the commands to start an engine, in their order; of those whose names are in `sent` Systems Manager
    knows, so that a host may have got them. Without any nobody wrote. What no host told is not known, and neither is
    what an engine did that may have begun after its host told (I4).
    """
    got = [row.name for row in starts if row.resource_id is not None or row.name in sent]
    if not got:
        return False
    return end is None or end.written or end.started_by != got[-1]
