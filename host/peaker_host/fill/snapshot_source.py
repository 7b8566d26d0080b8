"""The content of one snapshot, block by block: paced, tried again, each block held against its checksum."""

from __future__ import annotations

import random
import threading
import time
from functools import partial
from typing import Callable, List, TypeVar

from peaker_host.aws.direct_api import DirectApi
from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.fill.block_tokens import BlockTokens
from peaker_host.fill.request_pace import RequestPace
from peaker_host.machine.errors import (
    BlockDamaged,
    BlockTokenRefused,
    DirectApiBusy,
    DirectApiRefused,
    Interrupted,
    SnapshotTooLarge,
)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 20.0
PATIENCE_SECONDS = 300.0
"""A request that nobody answers for so long ends the fill: the run takes another method, or starts it again."""
_ZEROS = bytes(BLOCK_BYTES)
_Answer = TypeVar("_Answer")


class SnapshotSource:
    """Safe to use from several threads. `requests` counts what was sent, `again` what had to be sent again."""

    def __init__(
        self,
        api: DirectApi,
        snapshot_id: str,
        pace: RequestPace,
        stop: threading.Event,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Lists the snapshot. Raises DirectApiRefused, DirectApiBusy, NoInstanceRole."""
        self.snapshot_id = snapshot_id
        self._api = api
        self._pace = pace
        self._stop = stop
        self._patience = patience_seconds
        self._lock = threading.Lock()
        self.requests = self.again = 0
        self.tokens = BlockTokens(
            lambda page: self._patiently(lambda: api.snapshot_blocks(snapshot_id, page))
        )

    def changed(self, first: str, second: str) -> List[int]:
        """Numbers of the blocks that differ between two snapshots, ascending.

        Raises DirectApiRefused, also for snapshots that AWS does not compare; SnapshotTooLarge where the second one is
        of a larger volume than this source's; DirectApiBusy when patience ends.
        """
        found: List[int] = []
        page = ""
        while True:
            said = self._patiently(partial(self._api.changed_blocks, first, second, page))
            if said.volume_bytes > self.tokens.volume_bytes:
                raise SnapshotTooLarge(
                    f"{second} is of a volume of {said.volume_bytes} bytes, {self.snapshot_id} of one of "
                    f"{self.tokens.volume_bytes}"
                )
            for index in said.blocks:
                if found and index <= found[-1]:
                    raise DirectApiRefused(
                        f"the list of changed blocks is not ascending: {index} after {found[-1]}"
                    )
                if index * BLOCK_BYTES >= said.volume_bytes:
                    raise DirectApiRefused(f"a changed block {index} lies behind the end of its volume")
                found.append(index)
            if not said.next_token:
                return found
            if said.next_token == page:
                raise DirectApiRefused("a page of the list of changed blocks names itself as the next")
            page = said.next_token

    def fetch(self, index: int, into: memoryview) -> None:
        """Fill `into`, a whole block; zeros where the snapshot has none.

        Raises DirectApiRefused, BlockTokenRefused after a new list, BlockDamaged and DirectApiBusy when patience ends.
        """
        generation, token = self.tokens.token(index)
        if token is None:
            into[:BLOCK_BYTES] = _ZEROS
            return
        try:
            self._patiently(lambda: self._api.block(self.snapshot_id, index, token, into))
        except BlockTokenRefused:
            self.tokens.renew(generation)
            fresh = self.tokens.token(index)[1]
            if fresh is None:
                raise
            self._patiently(lambda: self._api.block(self.snapshot_id, index, fresh, into))

    def _patiently(self, ask: Callable[[], _Answer]) -> _Answer:
        """With pauses that double, at random within each (AWS: exponential backoff and jitter)."""
        pause, until = FIRST_PAUSE_SECONDS, time.monotonic() + self._patience
        while True:
            self._pace.wait(self._stop)
            if self._stop.is_set():
                raise Interrupted("stopped before the end; start again to resume")
            with self._lock:
                self.requests += 1
            try:
                return ask()
            except (DirectApiBusy, BlockDamaged) as error:
                if error.numbers.get("throttled"):
                    self._pace.refused()
                if time.monotonic() + pause > until:
                    raise
            with self._lock:
                self.again += 1
            self._stop.wait(random.uniform(0, pause))
            pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
