"""Volumes of a parked replica that were brought up to date while it was parked: to its host they are a fresh copy.

What the root disk keeps of their first life is under the run that built the replica: that the copy has taken its
identity, what had to be warm, which blocks were measured, that the proof said warm. `start_database` and
`verify_storage` would believe it, and leave the copy its donor's identity.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Callable

from peaker_host.blocks.live_blocks import keep_live_blocks, kept_live_blocks
from peaker_host.machine.errors import DeviceInUse, InvalidArgument, PrewarmNotStarted
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.manifest import Manifest
from peaker_host.machine.settings import Settings

_FILE = "refilled.json"


def begin_anew(settings: Settings, manifest: Manifest, refilled_by: str, say: Callable[[str], None]) -> None:
    """Forget what is known of the volumes, once for each run that refills them; keep what its fill says must be warm.

    The mark of the run comes last: a call that was killed is made again whole, and one that comes after the database
    was started in the same run changes nothing. Raises InvalidArgument, PrewarmNotStarted for a fill that has not
    ended, and DeviceInUse where a database may be at work that another run has started.
    """
    mark = settings.run_path(manifest.run_id, _FILE)
    if (read_json(mark) or {}).get("by") == refilled_by:
        say(f"{refilled_by} has begun the volumes' life anew before")
        return
    if refilled_by == manifest.run_id:
        raise InvalidArgument("refilled-by: must be another run than the one that built the replica (run-id)")
    live = kept_live_blocks(settings, refilled_by)
    filled = (read_json(settings.run_path(refilled_by, "prewarm.json")) or {}).get("state") == "done"
    missing = sorted({one.volume_id for one in manifest.members} - set(live))
    if missing or not filled:
        of = f" of {', '.join(missing)}" if missing else ""
        raise PrewarmNotStarted(
            f"no fill{of} by {refilled_by} has ended on this host: the volumes are a mixture"
        )
    mounted = [point for point in manifest.mount_points if os.path.ismount(point)]
    if mounted:
        raise DeviceInUse(
            f"{', '.join(mounted)}: mounted, and not by {refilled_by}; unmounted volumes are refilled"
        )
    shutil.rmtree(os.path.dirname(mark))
    for path in settings.borrowed_paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    keep_live_blocks(settings, manifest.run_id, live)
    write_json(settings.run_path(manifest.run_id, _FILE), {"by": refilled_by})
    say(f"the volumes are a fresh copy since {refilled_by}: what was known of {manifest.run_id} is forgotten")
