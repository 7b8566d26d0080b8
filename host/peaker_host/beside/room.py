"""This decision sets the engine's share of its rate while a database works on its volume. Pure.

A volume with a limit answers in turn: what an engine has under way is what each read of the database waits for
(Little's law: bytes under way / throughput). An engine that asks for a little less than the volume gives leaves nothing
under way, and the database takes the rest at the volume's own speed. So what is decided is a rate, a share of the
engine's own where nobody held it back, by how long single reads of warm pages take against how long they took before
it read.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Optional, Sequence, Tuple

WINDOW_SECONDS = 1.0
# A reader that waits twice as long for each read gets half as many: what is slower than that is slow.
SLOW_RATIO = 2.0
# What a busy host adds to a read now and then is not the volume's.
_SLOW_BY_AT_LEAST_MS = 0.5
FIRST_SHARE = 0.9
MOST_SHARE = 0.95
LEAST_SHARE = 0.82
_LESS, _MORE = 0.05, 0.01
# Between "quick enough for more" and "slow" nothing is changed.
_QUICK_PART = 0.7
_REMEMBERED = 10
# The first window without a limit began under one.
_SETTLED_AFTER = 3
# Where nobody else was at work the engine takes all, and asks again; at once when somebody writes.
_NOBODY_AFTER, _ASKED_AGAIN_AFTER = 5, 30
_NOBODY_BYTES_PER_S = 256 * 1024
_NOBODY_WRITES_PER_S = 1.0
# What the volume gives may change, and under a limit nobody sees it.
_MEASURED_ANEW_AFTER = 120
_MISSED_SINCE = 30
_REACHED_PART = 0.95
_MISSED_PART = 0.9
# Under a limit reads are smaller, and each reader has one under way.
_FIRST_READERS, _MORE_READERS, _MOST_READERS = 2.0, 1.5, 64.0
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Look:
    """One window. Bytes and writes per second; of `others` is what reached the device and was not the engine's.

    `await_ms`: the median of single reads of warm pages, one after the other. `others_bytes_per_s` is read, and may be
    below 0 by what was just under way. None is unknown.
    """

    at_work: bool
    engine_bytes_per_s: float
    await_ms: Optional[float] = None
    others_bytes_per_s: Optional[float] = None
    others_writes_per_s: Optional[float] = None


@dataclass(frozen=True)
class Room:
    """A room is the engine's limit for the next window: `share` of `full_bytes_per_s`, None for all that the
    volume gives.

    `readers`: how many times the readers that the device has rewarded. `recent` and `windows` are of the time since the
    engine last began to take all, or to leave room. `held_windows` and `slowest_ms` are of the whole reading.
    """

    share: Optional[float] = None
    full_bytes_per_s: float = 0.0
    readers: float = 1.0
    recent: Tuple[Look, ...] = ()
    windows: int = 0
    asks_after: int = _SETTLED_AFTER
    held_windows: int = 0
    slowest_ms: float = 0.0
    reason: str = "no database is at work"

    @property
    def bytes_per_s(self) -> Optional[float]:
        """The limit of the engine's rate; None for none."""
        return None if self.share is None else self.share * self.full_bytes_per_s


def slow_above_ms(alone_ms: float) -> float:
    """Returns the limit above which a warm page's read is slow, from its time without the engine."""
    return max(SLOW_RATIO * alone_ms, alone_ms + _SLOW_BY_AT_LEAST_MS)


def decide(room: Room, look: Look, alone_ms: Optional[float]) -> Room:
    """Decides the room after this window. Where the look or `alone_ms` is unknown only the reason changes."""
    seen = _with(room, look)
    if not look.at_work:
        nobody = "no database is at work"
        return replace(seen, reason=nobody) if seen.share is None else _all(seen, nobody)
    if look.await_ms is None or alone_ms is None:
        return replace(seen, reason="unknown: no read of a warm page was timed")
    if seen.share is None:
        return _while_all(seen, look.await_ms, alone_ms)
    return _while_held(seen, look.await_ms, alone_ms)


def _with(room: Room, look: Look) -> Room:
    held = room.share is not None
    return replace(
        room,
        recent=(*room.recent, look)[-_REMEMBERED:],
        windows=room.windows + 1,
        held_windows=room.held_windows + held,
        slowest_ms=max(room.slowest_ms, look.await_ms or 0.0),
    )


def _while_all(room: Room, await_ms: float, alone_ms: float) -> Room:
    shown = _shown(await_ms, alone_ms)
    full = _full_bytes_per_s(room.recent)
    if await_ms <= slow_above_ms(alone_ms) or full <= 0:
        return replace(room, reason=f"all: {shown}")
    if room.asks_after > _SETTLED_AFTER and room.windows < room.asks_after and not _writes(room.recent[-1:]):
        return room
    if room.windows < _SETTLED_AFTER:
        return replace(room, reason=f"all, until it is known what the volume gives: {shown}")
    began = replace(room, full_bytes_per_s=full, readers=_FIRST_READERS, recent=(), windows=0)
    return _held(began, FIRST_SHARE, shown)


def _while_held(room: Room, await_ms: float, alone_ms: float) -> Room:
    share, limit = room.share or MOST_SHARE, room.bytes_per_s or 0.0
    rate = sum(one.engine_bytes_per_s for one in room.recent) / len(room.recent)
    if room.windows >= _NOBODY_AFTER and _is_nobody(room.recent[-_NOBODY_AFTER:]):
        return _all(room, "all: nobody else read or wrote in five seconds", _ASKED_AGAIN_AFTER)
    missed = room.windows >= _MISSED_SINCE and rate < _MISSED_PART * limit
    if missed or room.windows >= _MEASURED_ANEW_AFTER:
        return _all(room, "all: what the volume gives is measured anew")
    if await_ms > slow_above_ms(alone_ms):
        return _held(room, max(LEAST_SHARE, share - _LESS), _shown(await_ms, alone_ms))
    if rate < _REACHED_PART * limit:
        # Its reads are quick, so that it is not the volume that it waits for.
        room = replace(room, readers=min(_MOST_READERS, room.readers * _MORE_READERS))
    if await_ms < _QUICK_PART * slow_above_ms(alone_ms):
        share = min(MOST_SHARE, share + _MORE)
    return _held(room, share, _shown(await_ms, alone_ms))


def _held(room: Room, share: float, shown: str) -> Room:
    share = round(share, 4)
    held = f"{share * room.full_bytes_per_s / _MIB:.0f} of {room.full_bytes_per_s / _MIB:.0f} MiB/s"
    least = ", no less" if share <= LEAST_SHARE else ""
    return replace(room, share=share, reason=f"{held}{least}: {shown}")


def _all(room: Room, reason: str, asks_after: int = _SETTLED_AFTER) -> Room:
    return replace(room, share=None, readers=1.0, recent=(), windows=0, asks_after=asks_after, reason=reason)


def _full_bytes_per_s(looks: Sequence[Look]) -> float:
    """The engine's own rate; the first of several windows may have begun under a limit."""
    return statistics.median(one.engine_bytes_per_s for one in (looks[1:] or looks))


def _is_nobody(looks: Sequence[Look]) -> bool:
    """False also where it is unknown."""
    read = [one.others_bytes_per_s for one in looks if one.others_bytes_per_s is not None]
    if len(read) < len(looks) or any(one.others_writes_per_s is None for one in looks):
        return False
    return sum(read) / len(read) < _NOBODY_BYTES_PER_S and not _writes(looks)


def _writes(looks: Sequence[Look]) -> bool:
    """Tells whether somebody writes (the engine never does). False where it is unknown."""
    return sum(one.others_writes_per_s or 0.0 for one in looks) >= _NOBODY_WRITES_PER_S * len(looks)


def _shown(await_ms: float, alone_ms: float) -> str:
    return f"a warm read takes {await_ms:.1f} ms, {alone_ms:.1f} ms without the engine"
