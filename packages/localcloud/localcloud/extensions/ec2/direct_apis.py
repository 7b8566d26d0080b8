"""The EBS direct API that lists a snapshot's blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult

from localcloud.extensions.ec2.ebs import BLOCK_BYTES
from localcloud.extensions.ec2.ebs_records import EbsSnapshot
from localcloud.extensions.ec2.state import Ec2State

BLOCK_TOKEN_LIFE = timedelta(days=7)


class DirectActions:
    """ebs:ListSnapshotBlocks over EC2's snapshots."""

    def __init__(self, state: Ec2State) -> None:
        self.state = state

    def list_snapshot_blocks(self, response: Any) -> ActionResult:
        snapshot = self._snapshot(response._get_param("SnapshotId"))
        indices, token = self._page(response, self._indices(snapshot))
        blocks = [{"BlockIndex": index, "BlockToken": _block_token(snapshot.id, index)} for index in indices]
        return ActionResult({"Blocks": blocks, "NextToken": token, **self._about(snapshot)})

    def _snapshot(self, snapshot_id: str) -> EbsSnapshot:
        snapshot = self.state.backend.snapshots.get(snapshot_id)
        if not isinstance(snapshot, EbsSnapshot):
            raise DirectError(
                "ResourceNotFoundException",
                "SNAPSHOT_NOT_FOUND",
                f"The snapshot {snapshot_id} does not exist.",
            )
        if snapshot.status != "completed":
            raise DirectError(
                "ValidationException", "INVALID_SNAPSHOT_ID", f"The snapshot {snapshot_id} is pending."
            )
        return snapshot

    def _indices(self, snapshot: EbsSnapshot) -> Sequence[int]:
        return self.state.dataplane.volumes.snapshot_blocks(snapshot.id)

    def _page(self, response: Any, indices: Iterable[int]) -> tuple[list[int], str | None]:
        size = int(response._get_param("MaxResults") or 10_000)
        if not 100 <= size <= 10_000:
            raise DirectError(
                "ValidationException", "INVALID_PARAMETER_VALUE", "MaxResults must be between 100 and 10000."
            )
        start = int(response._get_param("NextToken") or 0)
        rest = [index for index in indices if index >= start]
        return rest[:size], str(rest[size]) if len(rest) > size else None

    def _about(self, snapshot: EbsSnapshot) -> dict[str, Any]:
        return {
            "ExpiryTime": self.state.cloud.clock.now() + BLOCK_TOKEN_LIFE,
            "VolumeSize": snapshot.volume_size,
            "BlockSize": BLOCK_BYTES,
        }


def _block_token(snapshot_id: str, index: int) -> str:
    return hashlib.sha256(f"{snapshot_id}/{index}".encode()).hexdigest()


class DirectError(ServiceException):
    """An error of the EBS direct APIs, which has a reason besides its code."""

    def __init__(self, code: str, reason: str, message: str) -> None:
        super().__init__(code, message)
        self.Reason = reason
