"""What simulated hosts know of volumes that an engine writes: empty ones, and older copies brought up to date."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# What looks for the manifest that assemble_storage has left, of the run that it is told.
_READ_THE_MANIFEST = frozenset({"start_prewarm", "start_database", "verify_storage", "check_mounts"})
# What assemble_storage says of a volume whose filesystem is not there yet.
NOT_WHOLE: Mapping[str, Any] = {
    "ok": False,
    "error": "UnreadableFilesystem",
    "message": "data: a volume that is being filled has no filesystem yet",
}


class SimulatedFills:
    """Of all hosts; engines are known by the host and the run. What the host package refuses is refused."""

    def __init__(self) -> None:
        self._begun: set[tuple[str, str]] = set()
        # Those that were seen to have ended.
        self._ended: set[tuple[str, str]] = set()
        # By host, the run that brings its volumes up to date, until they are assembled as its fresh copy.
        self._refills: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._lives: dict[str, int] = {}
        self._used: set[str] = set()
        # By host, the run that its manifest names.
        self._manifests: dict[str, str] = {}

    def lives(self, instance_id: str) -> int:
        """How many copies the host's volumes have been."""
        return self._lives.get(instance_id, 1)

    def is_of(self, instance_id: str, run_id: str) -> bool:
        """Whether the run's engine on this host fills."""
        return (instance_id, run_id) in self._begun

    def begun(self, instance_id: str, run_id: str, changed: bool) -> None:
        """An engine of the run fills, older copies where anything has changed."""
        self._begun.add((instance_id, run_id))
        if changed and self._marks.get(instance_id) != run_id:
            self._refills[instance_id] = run_id

    def ended(self, instance_id: str, run_id: str) -> None:
        """It was seen to be done."""
        self._ended.add((instance_id, run_id))

    def started(self, instance_id: str) -> None:
        """A database has written to the volumes."""
        self._used.add(instance_id)

    def assembled(self, instance_id: str, environment: Mapping[str, str]) -> None:
        """The volumes are a fresh copy, once for each run that has refilled them."""
        self._manifests[instance_id] = environment.get("SSM_RunId", "")
        by = environment.get("SSM_RefilledBy", "")
        if by and self._marks.get(instance_id) != by:
            self._marks[instance_id] = by
            self._refills.pop(instance_id, None)
            self._lives[instance_id] = self.lives(instance_id) + 1

    def refusal(
        self, document: str, instance_id: str, environment: Mapping[str, str], at_work: bool
    ) -> Mapping[str, Any] | None:
        """Why the document does nothing now; `at_work`: a database is, on mounted volumes."""
        run_id = environment.get("SSM_RunId", "")
        assembled_by = self._manifests.get(instance_id, run_id)
        if document in _READ_THE_MANIFEST and assembled_by != run_id:
            return _refused(
                "StorageNotAssembled", f"storage.json belongs to run {assembled_by}, not {run_id}"
            )
        if document == "start_fill" and not self.is_of(instance_id, run_id):
            return self._no_fill(instance_id, environment, at_work)
        if document == "assemble_storage":
            return self._not_assembled(instance_id, environment, at_work)
        if document == "start_database" and instance_id in self._refills:
            return _refused(
                "IdentityNotTaken", "the volumes are a mixture, or a copy that is not assembled yet"
            )
        return None

    def _no_fill(
        self, instance_id: str, environment: Mapping[str, str], at_work: bool
    ) -> Mapping[str, Any] | None:
        if at_work:
            return _refused("DeviceInUse", "the volumes are mounted")
        changed = environment.get("SSM_Changed", "")
        if not changed:
            if instance_id in self._used:
                return _refused("DeviceNotEmpty", "only empty volumes are filled")
            return None
        snapshots, pairs = json.loads(environment["SSM_Snapshots"]), json.loads(changed)
        ends = {name: [second for _, second in of] for name, of in pairs.items()}
        if set(ends) != set(snapshots) or any(one not in ends[name] for name, one in snapshots.items()):
            return _refused("InvalidArgument", f"changed: {changed} does not end with {snapshots}")
        return None

    def _not_assembled(
        self, instance_id: str, environment: Mapping[str, str], at_work: bool
    ) -> Mapping[str, Any] | None:
        by, run_id = environment.get("SSM_RefilledBy", ""), environment.get("SSM_RunId", "")
        if not by:
            unfilled = (instance_id, run_id) in self._begun - self._ended
            return NOT_WHOLE if unfilled else None
        if self._marks.get(instance_id) == by:
            return None
        if by == run_id:
            return _refused("InvalidArgument", "refilled-by: must be another run than the one that built it")
        if (instance_id, by) not in self._ended:
            return _refused("PrewarmNotStarted", f"no fill by {by} has ended on this host")
        return _refused("DeviceInUse", "mounted") if at_work else None


def _refused(error: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": error, "message": message}
