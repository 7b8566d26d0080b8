"""What hosts know of volumes that an engine writes: empty ones, and older copies that are brought up to date.

All of it is on the account's record of the host: `fill` and `refill` (the run whose engine has begun), `filled` (whose
engine has ended), `assembled` (whom the manifest names), `whole` (who assembled a refilled copy as a fresh one).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.faults.world.account import Account, attachment_at, state_at
from lab import host_volumes
from lab.host_volumes import HostVolumes, pairs
from peaker_contract.tags import VOLUME_TAG

FILLING = ("start_fill", "start_clone")


def refusal(
    account: Account, document: str, host: str, parameters: Mapping[str, str], now: float
) -> Mapping[str, Any] | None:
    """Why the host's package does nothing now."""
    database = account.on_host(host, "database", now)
    begun_by, filled_by = _last(account, host, "fill", now), _last(account, host, "filled", now)
    there = HostVolumes(
        at_work=database is not None and bool(database[1]),
        used=database is not None,
        empty=_is_empty(account, host, now),
        mixed=is_a_mixture(account, host, now),
        begun=() if begun_by is None else (begun_by,),
        filled=() if filled_by is None else (filled_by,),
        assembled=_last(account, host, "assembled", now),
        anew=_last(account, host, "whole", now),
    )
    return host_volumes.refusal(document, parameters, there)


def begun(account: Account, host: str, second: float, document: str, parameters: Mapping[str, str]) -> None:
    """What has happened on the host when this document ended there."""
    if document in FILLING:
        account.happened(host, second, "fill", parameters["RunId"])
    if document == "start_fill" and parameters.get("Changed"):
        account.happened(host, second, "refill", parameters["RunId"])
    if document == "assemble_storage":
        account.happened(host, second, "assembled", parameters["RunId"])
        by = parameters.get("RefilledBy")
        if by and _last(account, host, "whole", second) != by:
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
    for _, first, second in pairs(sent[-1]) if sent else ():
        missing = [one for one in (first, second) if not _is_complete(account, one, now)]
        if missing:
            return f"ebs:ListChangedBlocks: ResourceNotFoundException: {', '.join(missing)}"
        taken_of = account.volumes[account.snapshots[second]["volume"]]
        if account.snapshots[first]["volume"] != taken_of["id"] and taken_of["snapshot"] != first:
            return f"ebs:ListChangedBlocks: ValidationException: UNRELATED_SNAPSHOTS: {first}, {second}"
    return None


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


def _last(account: Account, host: str, what: str, second: float) -> Any:
    found = account.on_host(host, what, second)
    return None if found is None else found[1]
