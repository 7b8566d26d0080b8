"""The cloud's clock at another speed, for what must not be over before a busy machine has looked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from localcloud.clock import CloudClock

# What takes minutes of the cloud's takes minutes.
REAL_TIME = 1.0
# For a request or two no time goes by; a scale of zero there is not.
ALL_BUT_STOPPED = 1e-6


@contextmanager
def at_scale(clock: CloudClock, scale: float) -> Iterator[None]:
    """So fast until the block ends, then as before."""
    usual = clock.scale
    clock.set(scale=scale)
    try:
        yield
    finally:
        clock.set(scale=usual)
