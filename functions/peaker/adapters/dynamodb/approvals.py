"""The newest approval of a cluster: one item, written by conditional writes, outside any lease."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from peaker.adapters.dynamodb.items import ConditionFailed, LedgerTable, cluster_key, expiry, to_json
from peaker.domain.decoding import parsed_json, text_in, understood
from peaker.domain.instants import from_iso, to_iso
from peaker.domain.runs.approval import ANSWERS, Answer, ApprovalRow
from peaker_contract.errors import ApprovalPending, LedgerInconsistent, Throttled

_KEY = "approval#scale_out"
# Never asked; answered; its time is up; or known to wait no more.
_FREE = " OR ".join((
    "attribute_not_exists(pk)",
    "answer <> :waiting",
    "waits_until <= :now",
    "run_id = :gone",
))  # fmt: skip
_STANDING = "run_id = :run AND answer = :waiting"


class DynamoDbApprovals:
    """Port Approvals."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def newest(self, cluster: str) -> ApprovalRow | None:
        item = self._table.get(cluster_key(cluster), _KEY)
        return None if item is None else _row(cluster, item)

    def ask(self, row: ApprovalRow, instead_of: str | None = None) -> ApprovalRow:
        there = self.newest(row.cluster)
        if there is not None and there.run_id == row.run_id:
            self._update(
                row,
                "SET task_token = :token, task_try = :try",
                f"{_STANDING} AND task_try <= :try",
                {":token": row.task_token, ":try": row.task_try},
            )
            return self._standing(row)
        try:
            self._write(row, instead_of)
        except ConditionFailed:
            return self._standing(row)
        return row

    def told(self, row: ApprovalRow, at: datetime) -> None:
        self._update(row, "SET told_at = :at", _STANDING, {":at": to_iso(at)})

    def close(self, cluster: str, run_id: str, answer: Answer, at: datetime, said: str) -> None:
        try:
            self._table.update_if(
                cluster_key(cluster),
                _KEY,
                "SET answer = :answer, answered_at = :at, said = :said",
                _STANDING,
                {":run": run_id, ":waiting": "waiting", ":answer": answer, ":at": to_iso(at), ":said": said},
            )
        except ConditionFailed:
            return

    def _write(self, row: ApprovalRow, instead_of: str | None) -> None:
        values = {
            "run_id": row.run_id,
            "answer": row.answer,
            "asked_at": to_iso(row.asked_at),
            "waits_until": to_iso(row.waits_until),
            "what": row.what,
            "reasons": to_json({"reasons": list(row.reasons)}),
            "task_token": row.task_token,
            "task_try": row.task_try,
            "expires_at": expiry(row.asked_at),
        }
        sets = ", ".join(f"{name} = :{name}" for name in values)
        self._table.update_if(
            cluster_key(row.cluster),
            _KEY,
            f"SET {sets} REMOVE told_at, answered_at, said",
            _FREE,
            {
                **{f":{name}": value for name, value in values.items()},
                ":waiting": "waiting",
                ":now": to_iso(row.asked_at),
                ":gone": instead_of or "-",
            },
        )

    def _update(self, row: ApprovalRow, expression: str, condition: str, values: Mapping[str, Any]) -> None:
        """Where the condition does not hold, a later try or an answer was there first: theirs stands."""
        given = {":run": row.run_id, ":waiting": "waiting", **values}
        try:
            self._table.update_if(cluster_key(row.cluster), _KEY, expression, condition, given)
        except ConditionFailed:
            return

    def _standing(self, row: ApprovalRow) -> ApprovalRow:
        """The row of this run. Raises ApprovalPending where it is another one's."""
        there = self.newest(row.cluster)
        if there is None or (there.run_id != row.run_id and not there.waits(row.asked_at)):
            raise Throttled(f"the approval of {row.cluster} changed hands just now; try again")
        if there.run_id != row.run_id:
            raise ApprovalPending(f"{row.cluster}: {there.text}")
        return there


def _row(cluster: str, item: Mapping[str, Any]) -> ApprovalRow:
    with understood(LedgerInconsistent, f"the ledger's approval of {cluster}"):
        answer = text_in(item, "answer")
        if answer not in ANSWERS:
            raise ValueError(f"{answer[:40]} is no answer")
        reasons = parsed_json(text_in(item, "reasons"))["reasons"]
        if not isinstance(reasons, list) or not all(isinstance(one, str) for one in reasons):
            raise TypeError("its reasons are no texts")
        return ApprovalRow(
            cluster=cluster,
            run_id=text_in(item, "run_id"),
            operation="scale_out",
            answer=cast(Answer, answer),
            asked_at=from_iso(item["asked_at"]),
            waits_until=from_iso(item["waits_until"]),
            what=text_in(item, "what"),
            reasons=tuple(reasons),
            task_token=text_in(item, "task_token"),
            task_try=int(item["task_try"]),
            told_at=_time(item.get("told_at")),
            answered_at=_time(item.get("answered_at")),
            said=text_in(item, "said") if "said" in item else "",
        )


def _time(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)
