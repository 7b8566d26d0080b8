"""The state of the account in words that do not depend on ids and times, so that two of them can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from moto.backends import get_backend

from peaker_contract.names import RUN_TAG, VOLUME_TAG
from sim.explorer.account import ACCOUNT, REGION, TABLE, ec2, instances, records
from sim.explorer.world import tags_of

_ID = re.compile(r"\b(?:i|vol|snap)-[0-9a-f]{8,17}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.+:Z]*")
_COMMAND = re.compile(r"0{8}-0000-0000-0000-\d{12}")
# What only tells how often, when or in which order something was done.
_COUNTS = {"number", "fencing_token", "member_token", "expires_at", "checked_seconds"}
_COUNTED = re.compile(r'"(?:looks|alike|failed|times|serving)": ?\d+|\w*seconds": ?[\d.]+')
_NUMBERS = re.compile(r"(?:number|fencing_token|member_token)=\d+|datetime\.datetime\([^)]*\)")
State = tuple[str, ...]


def state_now() -> State:
    """Each thing that there is and each row of the ledger, in order; what is there twice stands there twice."""
    names = _names()
    things = [f"there is {name}" for _, name in sorted(names.items(), key=lambda one: one[1])]
    held = [
        f"{volume.id} is at {volume.attachment.instance.id}"
        for volume in ec2().volumes.values()
        if volume.attachment is not None
    ]
    # A host takes each command once, however often it is sent.
    found = [_plain(one, names) for one in (*held, *_endpoint(), *_rows())]
    return tuple(sorted([*things, *(one for one in found if " resource#command#" not in one)]))


def _names() -> dict[str, str]:
    """Each id with what it is: its run, and its name or what it was made of."""
    found: dict[str, str] = {}
    for one in instances().values():
        found[one.id] = f"instance of {tags_of(one).get(RUN_TAG, one.id)}, {one._state.name}"
    for volume in ec2().volumes.values():
        tags = tags_of(volume)
        found[volume.id] = f"volume {tags.get(VOLUME_TAG, '')} of {tags.get(RUN_TAG, volume.id)}"
    for snapshot in ec2().snapshots.values():
        tags = tags_of(snapshot)
        if RUN_TAG in tags:
            found[snapshot.id] = f"snapshot {tags.get(VOLUME_TAG, '')} of {tags[RUN_TAG]}"
    return found


def _endpoint() -> list[str]:
    balancers = get_backend("elbv2")[ACCOUNT][REGION]
    found = [
        f"target {name} in {group.name}"
        for group in balancers.target_groups.values()
        for name in group.targets
    ]
    found += [
        f"listener {[action.data for action in listener.default_actions]}"
        for balancer in balancers.load_balancers.values()
        for listener in balancer.listeners.values()
    ]
    for zone in records().zones.values():
        found += [
            f"record {one.set_identifier} weighs {one.weight}" for one in zone.rrsets if one.set_identifier
        ]
    alarms = get_backend("cloudwatch")[ACCOUNT][REGION].alarms
    # Of one replica there may be two, until it leaves.
    checks = {one.health_check_config["AlarmIdentifier"]["Name"] for one in records().health_checks.values()}
    found += [f"health check on {name}" for name in sorted(checks)]
    return [*found, *(f"alarm {name}" for name in alarms)]


def _items() -> list[dict[str, dict[str, str]]]:
    """All items of the ledger's table, as DynamoDB writes them."""
    table = get_backend("dynamodb")[ACCOUNT][REGION].tables[TABLE]
    return [one.to_json()["Attributes"] for items in table.items.values() for one in items.values()]


def _rows() -> list[str]:
    return [
        f"{one['pk']['S']} {one['sk']['S']} {'' if one['sk']['S'] == 'receipt' else _attributes(one)}"
        for one in _items()
    ]


def listed_runs(cluster: str) -> list[tuple[str, str]]:
    """The run ids of a cluster's list of runs, each with the outcome that stands there."""
    of_cluster = [one for one in _items() if one["pk"]["S"] == f"cluster#{cluster}"]
    return [
        (one["run_id"]["S"], one["outcome"]["S"]) for one in of_cluster if one["sk"]["S"].startswith("run#")
    ]


def _attributes(item: Mapping[str, Any]) -> str:
    told = {
        name: next(iter(value.values()))
        for name, value in item.items()
        if name not in _COUNTS and name not in ("pk", "sk")
    }
    return json.dumps(told, sort_keys=True)


def _plain(text: str, names: Mapping[str, str]) -> str:
    text = _ID.sub(lambda found: f"({names.get(found[0], 'something that is gone')})", text)
    return _COMMAND.sub("(command)", _COUNTED.sub("", _TIME.sub("(time)", text.replace('\\"', '"'))))


def plain(text: str) -> str:
    """A text without ids, times and tokens."""
    return _NUMBERS.sub("", _plain(text, _names()))


def difference(wanted: State, found: State) -> list[str]:
    """What is in one of them and not in the other."""
    left = list(found)
    missing = []
    for one in wanted:
        if one in left:
            left.remove(one)
        else:
            missing.append(f"missing: {one}")
    return [*missing, *(f"too much: {one}" for one in left)]
