"""What hosts know of volumes that an engine writes: empty ones, and older copies that are brought up to date.

All of it is on the account's record of the host: `fill` and `refill` (the run whose engine has begun), `filled` (whose
engine has ended), `whole` (who assembled a refilled copy as a fresh one).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bench.faults.world.account import Account, attachment_at, state_at
from lab.simulated_fills import NOT_WHOLE
from peaker_contract.tags import VOLUME_TAG

FILLING = ("start_fill", "start_clone")


def refusal(
    account: Account, document: str, host: str, parameters: Mapping[str, str], now: float
) -> Mapping[str, Any] | None:
    """Why the host's package does nothing now."""
    database = account.on_host(host, "database", now)
    at_work = database is not None and bool(database[1])
    if document == "start_fill":
        return _no_fill(account, host, parameters, now, at_work)
    if document == "assemble_storage":
        return _not_assembled(account, host, parameters, now, at_work)
    if document == "start_database" and is_a_mixture(account, host, now):
        return _refused("IdentityNotTaken", "the volumes are a mixture, or a copy that is not assembled yet")
    return None


def begun(account: Account, host: str, second: float, document: str, parameters: Mapping[str, str]) -> None:
    """What has happened on the host when this document ended there."""
    if document in FILLING:
        account.happened(host, second, "fill", parameters["RunId"])
    if document == "start_fill" and parameters.get("Changed"):
        account.happened(host, second, "refill", parameters["RunId"])
    by = parameters.get("RefilledBy")
    if document == "assemble_storage" and by and _last(account, host, "whole", second) != by:
        account.happened(host, second, "whole", by)


def copies(account: Account, host: str, second: float) -> int:
    """How many copies the host's volumes have been."""
    return 1 + sum(what == "whole" and at <= second for at, what, _ in account.hosts.get(host, []))


def is_a_mixture(account: Account, host: str, second: float) -> bool:
    """A refill has begun, and its copy is not assembled."""
    by = _last(account, host, "refill", second)
    return by is not None and _last(account, host, "whole", second) != by


def why_failed(account: Account, host: str, run_id: str, now: float) -> str | None:
    """Why the engine of this run, at work, gives up: AWS compares only complete snapshots of one lineage."""
    if _last(account, host, "filled", now) == run_id:
        return None
    sent = [
        one["parameters"]
        for one in account.commands.values()
        if (one["document"], one["instance"]) == ("start_fill", host) and one["parameters"]["RunId"] == run_id
    ]
    for first, second in _pairs(sent[-1]) if sent else ():
        missing = [one for one in (first, second) if not _is_complete(account, one, now)]
        if missing:
            return f"ebs:ListChangedBlocks: ResourceNotFoundException: {', '.join(missing)}"
        taken_of = account.volumes[account.snapshots[second]["volume"]]
        if account.snapshots[first]["volume"] != taken_of["id"] and taken_of["snapshot"] != first:
            return f"ebs:ListChangedBlocks: ValidationException: UNRELATED_SNAPSHOTS: {first}, {second}"
    return None


def _no_fill(
    account: Account, host: str, parameters: Mapping[str, str], now: float, at_work: bool
) -> Mapping[str, Any] | None:
    if _last(account, host, "fill", now) == parameters["RunId"]:
        return None
    if at_work:
        return _refused("DeviceInUse", "the volumes are mounted")
    if not parameters.get("Changed"):
        used = account.on_host(host, "database", now) is not None
        return _refused("DeviceNotEmpty", "only empty volumes are filled") if used else None
    wanted = sorted(json.loads(parameters["Snapshots"]).values())
    ends = {second for _, second in _pairs(parameters)}
    if not ends.issuperset(wanted):
        return _refused("InvalidArgument", f"changed: does not end with {wanted}")
    return None


def _not_assembled(
    account: Account, host: str, parameters: Mapping[str, str], now: float, at_work: bool
) -> Mapping[str, Any] | None:
    by = parameters.get("RefilledBy")
    if not by:
        return NOT_WHOLE if _is_empty(account, host, now) else None
    if _last(account, host, "whole", now) == by:
        return None
    if by == parameters["RunId"]:
        return _refused("InvalidArgument", "refilled-by: must be another run than the one that built it")
    if _last(account, host, "filled", now) != by:
        return _refused("PrewarmNotStarted", f"no fill by {by} has ended on this host")
    return _refused("DeviceInUse", "the volumes are mounted") if at_work else None


def _is_empty(account: Account, host: str, now: float) -> bool:
    """Whether volumes that were made without a snapshot are there that no engine has filled."""
    empty = any(
        one["snapshot"] is None
        and one["tags"].get(VOLUME_TAG) != "root"
        and (attachment_at(one, now) or {}).get("instance") == host
        for one in account.volumes.values()
    )
    return empty and account.on_host(host, "filled", now) is None


def _is_complete(account: Account, snapshot: str, now: float) -> bool:
    return snapshot in account.snapshots and state_at(account.snapshots[snapshot], now) == "completed"


def _pairs(parameters: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for of_volume in json.loads(parameters.get("Changed") or "{}").values():
        yield from ((first, second) for first, second in of_volume)


def _last(account: Account, host: str, what: str, second: float) -> Any:
    found = account.on_host(host, what, second)
    return None if found is None else found[1]


def _refused(error: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": error, "message": message}
