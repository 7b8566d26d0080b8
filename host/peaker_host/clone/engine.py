"""The clone engine of one run: empty volumes, new filesystems, the donor's database in them, unmounted again.

It holds the lock of a prewarm and publishes the same progress (`report_prewarm`). An engine that was killed leaves
nothing that counts: the next one begins anew.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from typing import Any, Callable, Dict

from peaker_host.blocks.live_blocks import keep_live_blocks, live_blocks
from peaker_host.clone.moved_in import make_places, move_in
from peaker_host.clone.new_filesystems import NewFilesystems
from peaker_host.clone.recipient import FOLDER, Recipient
from peaker_host.clone.record import CloneRecord
from peaker_host.clone.request import CloneRequest
from peaker_host.clone.server_paths import ServerPaths, server_paths
from peaker_host.database.mysql_client import admin_client
from peaker_host.machine.errors import ReplicationNotConfigured, ToolMissing
from peaker_host.machine.processes import Processes
from peaker_host.machine.replication_login import ReplicationLogin, login_in
from peaker_host.machine.settings import Settings
from peaker_host.replicate.identity import stop_server
from peaker_host.warm.engine import under_lock

_LABEL_SECONDS = 900.0


class CloneEngine:
    """Clones onto the volumes of one request; one engine per host at a time."""

    def __init__(
        self, settings: Settings, processes: Processes, request: CloneRequest, say: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._processes = processes
        self._request = request
        self._say = say
        self._stop = threading.Event()
        self._record = CloneRecord(settings, request.run_id, say)
        self._volumes = NewFilesystems(settings, processes, request.run_id, request.members, say)

    def stop(self) -> None:
        """End soon: what was copied is thrown away by the next engine."""
        self._stop.set()

    def run(self) -> Dict[str, Any]:
        """Copy everything, unless an engine of the run has done so. Returns the final progress.

        Raises CloneRefused or what the checks raise.
        """
        if self._record.earlier.get("state") == "done":
            return self._record.earlier
        return under_lock(
            self._settings, self._request.run_id, self._record, self._run_locked, self._volumes.unmount
        )

    def _run_locked(self) -> Dict[str, Any]:
        self._record.publish("running")
        login = self._login()
        points = [member.mount_point for member in self._request.members]
        paths = server_paths(self._settings, self._processes, points)
        recipient = Recipient(self._settings, self._processes, paths.datadir, self._say)
        self._volumes.refuse_unless_empty()
        recipient.end_left_over()
        # Images often enable the service: it would write by path into what is mounted over its own files.
        stop_server(self._settings, self._processes, admin_client(self._settings, self._processes))
        self._volumes.make()
        try:
            self._copy(recipient, login, paths)
        finally:
            recipient.end()
        self._volumes.unmount()
        self._keep_live_blocks()
        progress = self._record.publish("done")
        self._volumes.finish()
        self._record.log(progress)
        return progress

    def _login(self) -> ReplicationLogin:
        path = self._settings.clone_credentials_file
        login = login_in(path)
        if login is None:
            raise ReplicationNotConfigured(
                f'no login for a clone: put {{"user": "...", "password": "..."}} into {path} in the image of the peak '
                "replicas, readable by root alone; the user needs BACKUP_ADMIN on the donors"
            )
        return login

    def _copy(self, recipient: Recipient, login: ReplicationLogin, paths: ServerPaths) -> None:
        user = self._settings.mysql_user
        make_places(paths, user)
        recipient.start()
        request = self._request
        recipient.clone(request.donor, login, request.rate_mib_per_s, self._stop, self._record.copied)
        recipient.end()
        self._say("the copy is moved to its places")
        move_in(recipient.copy, paths, user)
        shutil.rmtree(os.path.join(paths.datadir, FOLDER))
        self._label(paths)

    def _label(self, paths: ServerPaths) -> None:
        """For SELinux: a new filesystem has no labels, and what this engine's server wrote has none of a service's."""
        with contextlib.suppress(ToolMissing):
            self._processes.run(["restorecon", "-R", *paths.places], timeout_seconds=_LABEL_SECONDS)

    def _keep_live_blocks(self) -> None:
        """All that is used is what `verify_storage` samples: by then a database changes the filesystems' maps."""
        keep_live_blocks(
            self._settings,
            self._request.run_id,
            {
                member.volume_id: live_blocks(self._settings, self._processes, self._request.run_id, member)
                for member in self._volumes.as_found()
            },
        )
