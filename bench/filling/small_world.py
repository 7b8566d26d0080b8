"""A plugin of the local cloud: the articles' 200 GB behind a store of 50 MB/s, as a model of a fifteenth of each rate.

The cluster's data is a 450th of theirs, and its clock runs 30 times as quick. So a store of a fifteenth of AWS's rates
is to this cluster, by its clock, what AWS's is to theirs: a volume is read in an hour.
"""

from __future__ import annotations

from dataclasses import replace

from localcloud.open_cloud import OpenCloud

SCALE = 15
# One block of 512 KiB in 150 ms: 3.3 MiB/s for a volume.
FETCH_PARALLEL, FETCH_LATENCY_MS = 1, 150.0
# Quotas of the EBS direct APIs (CloudSettings).
BLOCKS_OF_SNAPSHOT, BLOCKS_OF_ACCOUNT = 1000 / SCALE, 5000 / SCALE


def install(cloud: OpenCloud) -> None:
    """Volumes made from now on wait for it."""
    cloud.settings = replace(
        cloud.settings,
        fetch_parallel=FETCH_PARALLEL,
        fetch_latency_ms=FETCH_LATENCY_MS,
        block_requests_per_second_of_snapshot=BLOCKS_OF_SNAPSHOT,
        block_requests_per_second_of_account=BLOCKS_OF_ACCOUNT,
    )
