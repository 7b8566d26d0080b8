"""A host in memory that answers the scripts of `peaker rehearse`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from localcloud.dataplane import RunResult
from localcloud.simulated.hosts import After

# What a rehearsal's scripts print: MiB a second of whole reads, milliseconds of a page's.
ON_A_DEVICE = {"preadv(disk, [space]": "118.5", "preadv(disk, [page]": "0.6"}


def rehearsal_answer(argv: Sequence[str], environment: Mapping[str, str]) -> RunResult | After:
    """Returns what a rehearsal's script says: one that only prints is run here, one that sleeps takes an hour."""
    script = " ".join(argv)
    if "# prints" in script:
        path = {"PATH": "/usr/bin:/bin"}
        done = subprocess.run(argv, env={**path, **environment}, capture_output=True, text=True, timeout=60)
        return RunResult(done.returncode, done.stdout, done.stderr)
    if script.endswith("sleep 600"):
        return After(3600.0, RunResult(0, "", ""))
    return RunResult(0, next((said for part, said in ON_A_DEVICE.items() if part in script), ""), "")
