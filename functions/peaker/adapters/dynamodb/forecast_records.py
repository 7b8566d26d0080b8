"""Forecast records in the ledger table: check state, newest report, issued forecasts, past durations.

pk `cluster#<name>`; sk `forecast#state`, `forecast#report` (the newest check) and `forecast#issued#<time>` (two weeks,
then DynamoDB forgets it).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeGuard

from pydantic import TypeAdapter

from peaker.adapters.dynamodb.items import ConditionFailed, LedgerTable, cluster_key, to_json
from peaker.domain.decoding import parsed_json, text_in, understood
from peaker.domain.document.plan import ScaleOutPlan
from peaker.domain.instants import seconds_between, to_iso
from peaker.domain.issued import CheckState, IssuedForecast
from peaker.domain.runs.batch import Member, batch_of
from peaker.domain.runs.ledger import RunRow, StepRow, VolumeRates
from peaker.domain.runs.past_runs import MOST_RUNS, PastSteps, rate_of_all
from peaker.domain.runs.replay_speed import apply_speed, return_speed
from peaker.domain.storage.storage_judgement import knee_share
from peaker.ports.ledger import Ledger
from peaker_contract.catalogue import states_of
from peaker_contract.errors import LedgerInconsistent
from peaker_contract.steps import Method, Part

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_STATE = "forecast#state"
_ISSUED = "forecast#issued#"
_REPORT = "forecast#report"
_KEPT_FOR = timedelta(days=14)
# Looked through for MOST_RUNS of a kind; a row is a read. Ten batches of the largest kind.
_MOST_ROWS = 400
# So many where one kind is complete: a cluster may have had no other for months.
_ROWS_FOR_BOTH_KINDS = 120
_OF_BATCH = states_of(Part.DONOR)
# InnoDB's default page, which the page lists are counted in.
_PAGE_BYTES = 16384


class DynamoForecastRecords:
    """The forecast's rows. Only forecast_load writes them, for one cluster at a time; the last write counts."""

    def __init__(self, table: LedgerTable, ledger: Ledger) -> None:
        self._table = table
        self._ledger = ledger

    def check_state(self, cluster: str) -> CheckState:
        item = self._table.get(cluster_key(cluster), _STATE)
        with understood(LedgerInconsistent, f"the forecast's state in the ledger of {cluster}"):
            return CheckState() if item is None else TypeAdapter(CheckState).validate_python(item)

    def save_check_state(self, cluster: str, state: CheckState) -> None:
        item = {"pk": cluster_key(cluster), "sk": _STATE, **_in_decimals(state)}
        condition = "attribute_not_exists(checked_seconds) OR checked_seconds <= :at"
        with suppress(ConditionFailed):
            self._table.put_unleased(item, condition, {":at": item.get("checked_seconds") or 0})

    def save_issued(self, cluster: str, issued: IssuedForecast) -> None:
        at = datetime.fromtimestamp(issued.issued_at_seconds, UTC)
        key = {"pk": cluster_key(cluster), "sk": f"{_ISSUED}{to_iso(at)}"}
        expires_at = int((at + _KEPT_FOR).timestamp())
        self._table.put_unleased({**key, **_in_decimals(issued), "expires_at": expires_at})

    def issued(self, cluster: str, since: datetime) -> list[IssuedForecast]:
        found = self._table.query_between(cluster_key(cluster), f"{_ISSUED}{to_iso(since)}", f"{_ISSUED}~")
        with understood(LedgerInconsistent, f"an issued forecast in the ledger of {cluster}"):
            return TypeAdapter(list[IssuedForecast]).validate_python(found)

    def save_report(self, cluster: str, report: Mapping[str, Any]) -> None:
        self._table.put_unleased({"pk": cluster_key(cluster), "sk": _REPORT, "document": to_json(report)})

    def report(self, cluster: str) -> dict[str, Any] | None:
        item = self._table.get(cluster_key(cluster), _REPORT)
        with understood(LedgerInconsistent, f"the newest check's report in the ledger of {cluster}"):
            return None if item is None else dict(parsed_json(item["document"]))

    def past_steps(self, cluster: str) -> PastSteps:
        """Only runs that put a replica into service teach: no failures. Returns of parked replicas teach returns."""
        seconds: dict[str, list[float]] = {}
        returned: dict[str, list[float]] = {}
        hydrated: list[float] = []
        whole: list[bool] = []
        rates: list[float | None] = []
        shares: list[float] = []
        sets: dict[str, tuple[bool, float]] = {}
        pools: list[float] = []
        speeds: list[float] = []
        return_speeds: list[float] = []
        for run, method in self._replicas_that_served(cluster):
            steps = self._ledger.steps(run.run_id)
            by_name = {step.step: step for step in steps}
            pools += _pools(steps)
            if method is not Method.BUILD:
                # What a batch asked its donor is in the rows of its first member, also where others are built.
                _add_seconds(seconds, [one for one in steps if one.step in _OF_BATCH])
                _add_seconds(returned, [one for one in steps if one.step not in _OF_BATCH])
                return_speeds += _known(return_speed(by_name.get("WaitForCatchUp")))
                continue
            _add_seconds(seconds, steps)
            with_set = {**self._snapshots_of_batch(run), **by_name}
            speeds += _known(apply_speed(with_set))
            if copied := _copied(with_set):
                sets.setdefault(batch_of(run), copied)
            for step in steps:
                if step.finished_at is None:
                    continue
                size = step.numbers.get("bytes_read")
                if step.step == "ReportPrewarm" and _is_amount(size):
                    hydrated.append(float(size))
                    whole.append(_is_whole(step.numbers))
                    rates.append(_paid_rate(run))
                share = knee_share(step.numbers.get("limits"))
                if step.step == "VerifyStorage" and share is not None:
                    shares.append(share)
        return PastSteps(
            seconds,
            hydrated,
            shares,
            full_copies=[took for full, took in sets.values() if full],
            increments=[took for full, took in sets.values() if not full],
            pool_bytes=pools,
            apply_speeds=speeds,
            returned=returned,
            return_speeds=return_speeds,
            hydrated_whole=whole,
            hydrated_rates=rates,
        )

    def _snapshots_of_batch(self, run: RunRow) -> dict[str, StepRow]:
        """The step that took the set of all members; the first member's own rows have it too."""
        member = run.part(Member)
        if member is None or member.batch == run.run_id:
            return {}
        return {one.step: one for one in self._ledger.steps(member.batch) if one.step == "CreateSnapshots"}

    def _replicas_that_served(self, cluster: str) -> list[tuple[RunRow, Method]]:
        """Reads the newest runs, each member of a batch being one, until MOST_RUNS of each kind put a replica into
        service.

        The newest is last. Removals, refusals and failures stand between them, at times a whole batch.
        """
        found: list[tuple[RunRow, Method]] = []
        of_kind: Counter[Method] = Counter()
        rows = self._table.newest(cluster_key(cluster), "run#", 4 * MOST_RUNS, _MOST_ROWS)
        for number, item in enumerate(rows, 1):
            with understood(LedgerInconsistent, f"the index of runs in the ledger of {cluster}"):
                run_id = text_in(item, "sk").rsplit("#", 1)[1]
            run = self._ledger.run(run_id)
            method = _method(run)
            served = run.operation == "scale_out" and _served(run)
            if served and method is not None and of_kind[method] < MOST_RUNS:
                of_kind[method] += 1
                found.append((run, method))
            complete = sum(count == MOST_RUNS for count in of_kind.values())
            if complete == len(Method) or (complete and number >= _ROWS_FOR_BOTH_KINDS):
                break
        return found[::-1]


def _in_decimals(row: DataclassInstance) -> dict[str, Any]:
    """The row's fields as DynamoDB takes them, which knows no floats."""
    return dict(json.loads(json.dumps(asdict(row)), parse_float=Decimal))


def _copied(steps: Mapping[str, StepRow]) -> tuple[bool, float] | None:
    """Returns whether the run's snapshot set was a full copy, and its seconds; None where that is unknown."""
    first, last = steps.get("CreateSnapshots"), steps.get("AwaitSnapshots")
    full = None if last is None else last.numbers.get("full_copy")
    if first is None or last is None or last.finished_at is None or not isinstance(full, bool):
        return None
    return full, seconds_between(first.started_at, last.finished_at)


def _pools(steps: Sequence[StepRow]) -> list[float]:
    """Bytes in the donor's buffer pool, where the run has asked it; of older host packages, those listed: all."""
    ended = [one for one in steps if one.step == "PrepareDonor" and one.finished_at is not None]
    pages = [one.numbers.get("buffer_pool_held_pages", one.numbers.get("buffer_pool_pages")) for one in ended]
    return [float(one) * _PAGE_BYTES for one in pages if _is_amount(one)]


def _known(value: float | None) -> list[float]:
    return [] if value is None else [value]


def _served(run: RunRow) -> bool:
    """Tells whether the member served: a failed one teaches nothing, also where others served."""
    try:
        member = run.part(Member)
    except LedgerInconsistent:
        return False
    return run.outcome == "succeeded" if member is None else member.state == "in_service"


def _method(run: RunRow) -> Method | None:
    """Returns the member's method. A returned parked replica hydrates nothing and teaches nothing of a build.

    It is None where the run's plan cannot be read.
    """
    try:
        plan = run.part(ScaleOutPlan)
    except LedgerInconsistent:
        return None
    if plan is None or plan.returns is None:
        return Method.BUILD
    return Method.RETURN


def _is_whole(report: Mapping[str, Any]) -> bool:
    """Tells whether the prewarm was waited for until all that is used was warm, and not the hot set alone."""
    return report.get("state") == "done" or report.get("used_warm_seconds") is not None


def _paid_rate(run: RunRow) -> float | None:
    """The initialization rate that each volume was made with; None where they differ, or the run does not say."""
    try:
        made = run.part(VolumeRates)
    except LedgerInconsistent:
        return None
    return None if made is None else rate_of_all(list(made.rates.values()))


def _add_seconds(seconds: dict[str, list[float]], steps: Sequence[StepRow]) -> None:
    for step in steps:
        took = _step_seconds(step)
        if took is not None:
            seconds.setdefault(step.step, []).append(took)


def _step_seconds(step: StepRow | None) -> float | None:
    """Seconds of a step that has ended."""
    if step is None or step.finished_at is None:
        return None
    return seconds_between(step.started_at, step.finished_at)


def _is_amount(value: Any) -> TypeGuard[float]:
    """Tells whether the value is a number: other releases may have noted something else under its name."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18
