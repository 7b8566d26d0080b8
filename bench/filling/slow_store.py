"""A plugin of the local cloud: a snapshot store of the articles' rate, 200 GB in an hour."""

from __future__ import annotations

from dataclasses import replace

from localcloud.open_cloud import OpenCloud

# Three blocks of 512 KiB in 30 ms: 50 MiB/s for a volume, as bench/prewarm/direct_fill.py has it.
FETCH_PARALLEL = 3


def install(cloud: OpenCloud) -> None:
    """Volumes made from now on wait for it."""
    cloud.settings = replace(cloud.settings, fetch_parallel=FETCH_PARALLEL)
