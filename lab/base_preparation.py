"""The cluster's owner prepares a base replica: `peaker prepare-base`, typed as anybody types it.

The local cloud imports nothing of Peaker. It runs the command of the Python that it runs in, with the administrator's
key, which is no secret.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from lab.cluster import BringUpError

LIMIT_SECONDS = 480

PrepareBase = Callable[[str], None]


def by_command(
    endpoint_url: str, host_endpoint_url: str, environment: str, cluster: str, region: str
) -> PrepareBase:
    """Returns a function that prepares the base replica of an instance id. Hosts reach the cloud at
    `host_endpoint_url`.

    It raises BringUpError with what the command said.
    """

    def prepare(instance_id: str) -> None:
        command = [
            *(sys.executable, "-m", "peaker_cli.app", "prepare-base", cluster, instance_id),
            *("--env", environment, "--region", region, "--endpoint", endpoint_url),
        ]
        keys = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        surroundings |= {**keys, "AWS_ENDPOINT_URL_S3": host_endpoint_url, "COLUMNS": "200"}
        try:
            done = subprocess.run(
                command, env=surroundings, capture_output=True, text=True, timeout=LIMIT_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise BringUpError(f"peaker prepare-base has not ended after {LIMIT_SECONDS} s") from error
        if done.returncode:
            raise BringUpError(
                f"peaker prepare-base {cluster} {instance_id}: {done.stdout}{done.stderr}".strip()
            )

    return prepare
