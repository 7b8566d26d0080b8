"""The ports of an approval in memory; the contract tests hold them to what ports.py states."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from peaker.domain.runs.approval import Answer, ApprovalRow

from peaker_contract.errors import ApprovalPending

_NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
WAITING = ApprovalRow(
    cluster="orders",
    run_id="scale-out-orders-20261121T120000-9f3a",
    operation="scale_out",
    answer="waiting",
    asked_at=_NOON,
    waits_until=_NOON + timedelta(minutes=60),
    what="build 1 x r6i.large in us-east-1a from i-1 at $0.1269/h",
    reasons=("budget: above", "ceiling: above"),
    task_token="AAAAKgAAAAIAAAAAAAAAAb" * 40,
    task_try=0,
)


@dataclass
class FakeApprovals:
    """The newest row of each cluster."""

    rows: dict[str, ApprovalRow] = field(default_factory=dict)

    def newest(self, cluster: str) -> ApprovalRow | None:
        return self.rows.get(cluster)

    def ask(self, row: ApprovalRow, instead_of: str | None = None) -> ApprovalRow:
        there = self.rows.get(row.cluster)
        if there is not None and there.run_id == row.run_id:
            if there.answer == "waiting" and there.task_try <= row.task_try:
                self.rows[row.cluster] = replace(there, task_token=row.task_token, task_try=row.task_try)
        elif there is not None and there.waits(row.asked_at) and there.run_id != instead_of:
            raise ApprovalPending(f"{row.cluster}: {there.text}")
        else:
            self.rows[row.cluster] = row
        return self.rows[row.cluster]

    def told(self, row: ApprovalRow, at: datetime) -> None:
        if self._waits(row.cluster, row.run_id):
            self.rows[row.cluster] = replace(self.rows[row.cluster], told_at=at)

    def close(self, cluster: str, run_id: str, answer: Answer, at: datetime, said: str) -> None:
        if self._waits(cluster, run_id):
            self.rows[cluster] = replace(self.rows[cluster], answer=answer, answered_at=at, said=said)

    def _waits(self, cluster: str, run_id: str) -> bool:
        row = self.rows.get(cluster)
        return row is not None and (row.run_id, row.answer) == (run_id, "waiting")


@dataclass
class FakeOperators:
    """What was sent; `refused` is raised instead."""

    sent: list[tuple[str, str]] = field(default_factory=list)
    refused: Exception | None = None

    def tell(self, subject: str, text: str) -> None:
        if self.refused is not None:
            raise self.refused
        self.sent.append((subject, text))
