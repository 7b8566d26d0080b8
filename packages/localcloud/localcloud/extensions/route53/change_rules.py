"""Which change batches Route 53 refuses (botocore, route53:ResourceRecordSet and ChangeResourceRecordSets).

A batch is checked as a whole before any of it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moto.route53.exceptions import Route53ClientError

Key = tuple[str, str, str | None]
HEAVIEST = 255
ROUTING = ("Weight", "Region", "Failover", "GeoLocation", "MultiValueAnswer", "CidrRoutingConfig")


def check_batch(
    records: Iterable[Any], changes: Iterable[Mapping[str, Any]], health_checks: Mapping[str, Any]
) -> None:
    """Raises InvalidInput, NoSuchHealthCheck or InvalidChangeBatch; `records` are the zone's before the batch."""
    sets = {key_of(vars(record), "name", "type", "set_identifier"): _of_moto(record) for record in records}
    for change in changes:
        wanted = change["ResourceRecordSet"]
        _check_fields(wanted)
        key = key_of(wanted, "Name", "Type", "SetIdentifier")
        values = _values(wanted)
        if change["Action"] == "DELETE":
            _check_deletion(sets.pop(key, None), values, key)
            continue
        if change["Action"] == "CREATE" and key in sets:
            raise _refused(key, "create", "it already exists")
        if values["HealthCheckId"] not in (None, *health_checks):
            missing = f"No health check exists with the specified ID {values['HealthCheckId']}."
            raise Route53ClientError("NoSuchHealthCheck", missing)
        sets[key] = values
    _check_groups(sets)


def key_of(record: Mapping[str, Any], name: str, kind: str, identifier: str) -> Key:
    """What identifies a record in its zone; the arguments are the names of the three fields."""
    return str(record[name]).lower().rstrip("."), str(record[kind]), record.get(identifier)


def _check_fields(record: Mapping[str, Any]) -> None:
    place = (
        f"[Name={record['Name']}, Type={record['Type']}, SetIdentifier={record.get('SetIdentifier', 'null')}]"
    )
    weight = record.get("Weight")
    if weight is not None and not 0 <= int(weight) <= HEAVIEST:
        raise Route53ClientError("InvalidInput", f"Weight {weight} is not between 0 and {HEAVIEST}: {place}")
    routed = any(record.get(field) is not None for field in ROUTING)
    if routed and not record.get("SetIdentifier"):
        raise Route53ClientError("InvalidInput", f"Missing field 'SetIdentifier' in Change with {place}")
    if record.get("SetIdentifier") and not routed:
        raise Route53ClientError("InvalidInput", f"Expected one of {', '.join(ROUTING)}, found none: {place}")
    if weight is not None and len(record.get("ResourceRecords") or []) > 1:
        raise Route53ClientError("InvalidInput", f"A weighted record has one value: {place}")


def _check_deletion(present: Mapping[str, Any] | None, given: Mapping[str, Any], key: Key) -> None:
    if present is None:
        raise _refused(key, "delete", "it was not found")
    if present != given:
        raise _refused(key, "delete", "the values provided do not match the current values")


def _check_groups(sets: Mapping[Key, Mapping[str, Any]]) -> None:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for (name, kind, _), values in sets.items():
        groups.setdefault((name, kind), []).append(values)
    for (name, kind), members in groups.items():
        weighted = [one for one in members if one["Weight"] is not None]
        if weighted and len(weighted) < len(members):
            problem = (
                f"RRSet with DNS name {name}, type {kind} cannot be weighted and of another routing policy"
            )
            raise Route53ClientError("InvalidChangeBatch", f"[{problem}]")
        if len({one["TTL"] for one in weighted}) > 1:
            problem = f"RRSets with DNS name {name}, type {kind} must all have the same TTL"
            raise Route53ClientError("InvalidChangeBatch", f"[{problem}]")


def _refused(key: Key, action: str, why: str) -> Route53ClientError:
    name, kind, identifier = key
    which = f"name='{name}.', type='{kind}'" + (f", set identifier='{identifier}'" if identifier else "")
    return Route53ClientError(
        "InvalidChangeBatch", f"[Tried to {action} resource record set [{which}] but {why}]"
    )


def _values(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a deletion must repeat."""
    return {
        "TTL": _number(record.get("TTL")),
        "Weight": _number(record.get("Weight")),
        "HealthCheckId": record.get("HealthCheckId"),
        "Values": sorted(str(one["Value"]) for one in record.get("ResourceRecords") or []),
    }


def _of_moto(record: Any) -> dict[str, Any]:
    return {
        "TTL": _number(record.ttl),
        "Weight": _number(record.weight),
        "HealthCheckId": record.health_check_id,
        "Values": sorted(str(one["Value"] if isinstance(one, dict) else one) for one in record.records or []),
    }


def _number(given: Any) -> int | None:
    return None if given is None else int(given)
