"""What the host package refuses where an engine writes volumes: empty ones, or older copies brought up to date. Pure.

One set of rules for all simulated hosts; each keeps in its own way what has happened on a host.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# What looks for the manifest that assemble_storage has left, of the run that it is told.
_READ_THE_MANIFEST = frozenset({"start_prewarm", "start_database", "verify_storage", "check_mounts"})
# What assemble_storage says of a volume whose filesystem is not there yet.
NOT_WHOLE: Mapping[str, Any] = {
    "ok": False,
    "error": "UnreadableFilesystem",
    "message": "data: a volume that is being filled has no filesystem yet",
}


@dataclass(frozen=True)
class HostVolumes:
    """A host when a document comes. Of runs: which has `begun` to write, whose engines have `filled`, which the
    manifest names (`assembled`), which has begun the volumes' life anew (`anew`); None where there was none.

    `at_work`: a database is, on mounted volumes; `used`: one has written to them; `empty`: no engine has filled them;
    `mixed`: an older copy was begun to be written, and is not assembled.
    """

    at_work: bool
    used: bool
    empty: bool
    mixed: bool
    begun: Collection[str]
    filled: Collection[str]
    assembled: str | None
    anew: str | None


def refusal(document: str, parameters: Mapping[str, str], there: HostVolumes) -> Mapping[str, Any] | None:
    """Why the document does nothing now; `parameters` by the names that the document has for them."""
    run_id = parameters.get("RunId", "")
    if document in _READ_THE_MANIFEST and there.assembled not in (None, run_id):
        return _refused("StorageNotAssembled", f"storage.json belongs to run {there.assembled}, not {run_id}")
    if document == "start_fill" and run_id not in there.begun:
        return _no_fill(parameters, there)
    if document == "assemble_storage":
        return _not_assembled(run_id, parameters.get("RefilledBy", ""), there)
    if document == "start_database" and there.mixed:
        return _refused("IdentityNotTaken", "the volumes are a mixture, or a copy that is not assembled yet")
    return None


def pairs(parameters: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Of start_fill: a volume's name and two snapshots that are compared for it."""
    for name, of_volume in json.loads(parameters.get("Changed") or "{}").items():
        yield from ((name, first, second) for first, second in of_volume)


def _no_fill(parameters: Mapping[str, str], there: HostVolumes) -> Mapping[str, Any] | None:
    if there.at_work:
        return _refused("DeviceInUse", "the volumes are mounted")
    if not parameters.get("Changed"):
        return _refused("DeviceNotEmpty", "only empty volumes are filled") if there.used else None
    wanted = set(json.loads(parameters["Snapshots"]).items())
    ends = {(name, second) for name, _, second in pairs(parameters)}
    if not ends >= wanted or {name for name, _ in ends} != {name for name, _ in wanted}:
        return _refused("InvalidArgument", f"changed: does not end with {sorted(wanted)}")
    return None


def _not_assembled(run_id: str, refilled_by: str, there: HostVolumes) -> Mapping[str, Any] | None:
    if not refilled_by:
        return NOT_WHOLE if there.empty else None
    if there.anew == refilled_by:
        return None
    if refilled_by == run_id:
        return _refused("InvalidArgument", "refilled-by: must be another run than the one that built it")
    if refilled_by not in there.filled:
        return _refused("PrewarmNotStarted", f"no fill by {refilled_by} has ended on this host")
    return _refused("DeviceInUse", "the volumes are mounted") if there.at_work else None


def _refused(error: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": error, "message": message}
