"""In the storage machine: a run's reading order and what its journals say, as JSON; or the mounting of its storage.

order plan RUN      order journals RUN      order mount RUN
"""

import json
import os
import threading

from peaker_host.layouts.mounts import mount_at_place, open_mounts
from peaker_host.machine.manifest import load_manifest
from peaker_host.machine.settings import Machine, Processes, load_settings
from peaker_host.warm.journal import Journal
from peaker_host.warm.plan import Planner
from peaker_host.warm.reading_order import PrewarmRequest


def main(arguments: list) -> None:  # type: ignore[type-arg]
    """One look."""
    command, run_id = arguments
    settings = load_settings()
    manifest = load_manifest(settings, run_id)
    found: dict = {}  # type: ignore[type-arg]
    if command == "plan":
        request = PrewarmRequest(run_id)
        planned = Planner(Machine.of(settings, Processes()), request, threading.Event(), lambda _: None).plan(
            manifest
        )
        for one in planned:
            found[one.member.name] = {tier.name: tier.ranges for tier in one.tiers}
            one.journal.close()
    elif command == "journals":
        for member in manifest.members:
            path = os.path.join(settings.state_dir, "journals", member.volume_id + ".journal")
            journal = Journal(path, member.volume_id, member.uuid, -(-member.size_bytes // 524288))
            found[member.name] = journal.done.ranges()
            journal.close()
    else:
        for mount in open_mounts(Machine.of(settings, Processes()), manifest):
            found[mount.top.mount_point] = mount_at_place(Processes(), mount)
    print(json.dumps(found))
