"""The read endpoint as a DNS name: a weighted A record per replica, each with a health check.

The weight says which group a replica is in. All records are the warming group; those of FULL_WEIGHT are the serving
group too. A newcomer's weight is its share of that, which is what the share means: it gets so much of what it would
get as one of the proven. Weight 0 takes a record out of the answers and is left to operators.

Rules from botocore: weights are 0 to 255, all records of a set have one TTL (route53:ResourceRecordSet); a deletion
must repeat the record exactly (route53:ChangeResourceRecordSets); a list shows changes at once, before they are in DNS
(route53:ListResourceRecordSets). An account may send five requests per second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

from peaker.adapters.aws_errors import translated
from peaker.adapters.read_endpoint.health_checks import ReplicaHealthChecks
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.service.read_shares import shares_of_records
from peaker_contract.cluster import ClusterSettings
from peaker_contract.endpoint_settings import Route53EndpointSettings
from peaker_contract.errors import AwsCallRejected

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_route53 import Route53Client
    from mypy_boto3_route53.type_defs import ChangeTypeDef, ResourceRecordSetOutputTypeDef

FULL_WEIGHT = 100
LEAST_WEIGHT = 1
# Once for a lost answer or a change in between, and once more.
TRIES = 3
# An address that EC2 may still show goes to another instance.
ENDED = ("shutting-down", "terminated")

Record: TypeAlias = "ResourceRecordSetOutputTypeDef"


class Route53ReadEndpoint:
    """Port TrafficRouter; a record's SetIdentifier is the instance id, its value the private address."""

    def __init__(self, route53: Route53Client, ec2: EC2Client, checks: ReplicaHealthChecks) -> None:
        self._route53 = route53
        self._ec2 = ec2
        self._checks = checks

    def register(self, settings: ClusterSettings, instance_id: str) -> None:
        self._enter(settings, instance_id, LEAST_WEIGHT)

    def promote(self, settings: ClusterSettings, instance_id: str) -> None:
        self._enter(settings, instance_id, FULL_WEIGHT)

    def deregister(self, settings: ClusterSettings, instance_id: str) -> None:
        """The record goes first: without its health check it would be answered whatever the replica does.

        Somebody may have put it back meanwhile. It goes once more: Route 53 refuses a record whose check is gone.
        """
        self._delete(_endpoint(settings), instance_id)
        self._checks.remove(settings, instance_id)
        self._delete(_endpoint(settings), instance_id)

    def health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        records = self._records(_endpoint(settings))
        proven = {name: record for name, record in records.items() if record["Weight"] >= FULL_WEIGHT}
        return _targets(proven, self._checks.states(settings))

    def warming_health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        """Returns the newcomers' health; an alarm without a record, which is half registered, is UNUSED."""
        records = self._records(_endpoint(settings))
        alarms = self._checks.states(settings)
        half_done = TargetHealth(TargetState.UNUSED, "it has an alarm and no record")
        return {**dict.fromkeys(alarms, half_done), **_targets(records, alarms)}

    def set_share(self, settings: ClusterSettings, share: float) -> None:
        weight = min(FULL_WEIGHT - 1, max(LEAST_WEIGHT, round(FULL_WEIGHT * share)))

        def newcomers(known: Mapping[str, Record]) -> dict[str, Record]:
            return {
                name: {**record, "Weight": weight}
                for name, record in known.items()
                if LEAST_WEIGHT <= record["Weight"] < FULL_WEIGHT
            }

        self._write(_endpoint(settings), newcomers)

    def read_shares(self, settings: ClusterSettings) -> dict[str, float]:
        records = self._records(_endpoint(settings))
        targets = _targets(records, self._checks.states(settings))
        weights = {name: float(record["Weight"]) for name, record in records.items()}
        return shares_of_records(weights, targets)

    def _enter(self, settings: ClusterSettings, instance_id: str, weight: int) -> None:
        """Give it a record of that weight or keep a heavier one, with its health check."""
        endpoint = _endpoint(settings)
        address = self._address(instance_id)
        health_check_id = self._checks.ensure(settings, instance_id)

        def entered(known: Mapping[str, Record]) -> dict[str, Record]:
            present = known.get(instance_id)
            return {
                instance_id: {
                    "Name": f"{endpoint.record_name}.",
                    "Type": "A",
                    "SetIdentifier": instance_id,
                    "Weight": weight if present is None else max(weight, present["Weight"]),
                    "TTL": endpoint.ttl_seconds,
                    "ResourceRecords": [{"Value": address}],
                    "HealthCheckId": health_check_id,
                }
            }

        self._write(endpoint, entered)

    def _delete(self, endpoint: Route53EndpointSettings, instance_id: str) -> None:
        """Delete its record; one that is gone is not an error.

        Route 53 refuses to delete what is gone, as after a lost answer whose call was repeated, and what has changed
        since it was listed: it is listed again then, and what is still there is deleted as it is now.
        """
        record = self._records(endpoint).get(instance_id)
        for left in reversed(range(TRIES)):
            if record is None:
                return
            try:
                self._change(endpoint, [{"Action": "DELETE", "ResourceRecordSet": record}])
                return
            except AwsCallRejected:
                refused, record = record, self._records(endpoint).get(instance_id)
                if record == refused or (record is not None and not left):
                    raise

    def _records(self, endpoint: Route53EndpointSettings) -> dict[str, Record]:
        """The name's weighted A records by their SetIdentifier."""
        with translated("route53:ListResourceRecordSets"):
            ours = takewhile(lambda record: _is_of(endpoint, record), self._listed(endpoint))
            return {record["SetIdentifier"]: record for record in ours if "Weight" in record}

    def _listed(self, endpoint: Route53EndpointSettings) -> Iterator[Record]:
        """The records from the name's first A record on, in Route 53's order.

        A page that does not end within a weighted set names no identifier to go on from: the name's set has ended.
        """
        zone = endpoint.hosted_zone_id
        page = self._route53.list_resource_record_sets(
            HostedZoneId=zone, StartRecordName=endpoint.record_name, StartRecordType="A"
        )
        yield from page["ResourceRecordSets"]
        while page["IsTruncated"] and (following := page.get("NextRecordIdentifier")):
            page = self._route53.list_resource_record_sets(
                HostedZoneId=zone,
                StartRecordName=endpoint.record_name,
                StartRecordType="A",
                StartRecordIdentifier=following,
            )
            yield from page["ResourceRecordSets"]

    def _address(self, instance_id: str) -> str:
        with translated("ec2:DescribeInstances"):
            answer = self._ec2.describe_instances(InstanceIds=[instance_id])
        found = [one for reservation in answer["Reservations"] for one in reservation["Instances"]]
        if not found or found[0]["State"]["Name"] in ENDED or "PrivateIpAddress" not in found[0]:
            raise AwsCallRejected(
                f"{instance_id} has no address to register: it is terminated, or about to be"
            )
        return found[0]["PrivateIpAddress"]

    def _write(
        self,
        endpoint: Route53EndpointSettings,
        wanted: Callable[[Mapping[str, Record]], Mapping[str, Record]],
    ) -> None:
        """Put the records that are wanted, given those that are there, in one batch, and with them those whose TTL is
        not the settings' any more.

        Each change is the deletion of the record as it was listed and its creation: Route 53 refuses the batch where
        somebody promoted or removed one meanwhile. The records are listed again then, and it is decided anew.
        """
        changes = self._wanted_changes(endpoint, wanted)
        for left in reversed(range(TRIES)):
            if not changes:
                return
            try:
                self._change(endpoint, changes)
                return
            except AwsCallRejected:
                refused, changes = changes, self._wanted_changes(endpoint, wanted)
                if changes == refused or (changes and not left):
                    raise

    def _wanted_changes(
        self,
        endpoint: Route53EndpointSettings,
        wanted: Callable[[Mapping[str, Record]], Mapping[str, Record]],
    ) -> list[ChangeTypeDef]:
        known = self._records(endpoint)
        return _changes(known, {**known, **wanted(known)}, endpoint.ttl_seconds)

    def _change(self, endpoint: Route53EndpointSettings, changes: Sequence[ChangeTypeDef]) -> None:
        with translated("route53:ChangeResourceRecordSets"):
            self._route53.change_resource_record_sets(
                HostedZoneId=endpoint.hosted_zone_id, ChangeBatch={"Changes": changes}
            )


def _changes(
    known: Mapping[str, Record], wanted: Mapping[str, Record], ttl_seconds: int
) -> list[ChangeTypeDef]:
    """The change batch from the known records to the wanted ones, all with this TTL."""
    changes: list[ChangeTypeDef] = []
    for name, one in wanted.items():
        record: Record = {**one, "TTL": ttl_seconds}
        if record == known.get(name):
            continue
        if name in known:
            changes.append({"Action": "DELETE", "ResourceRecordSet": known[name]})
        changes.append({"Action": "CREATE", "ResourceRecordSet": record})
    return changes


def _endpoint(settings: ClusterSettings) -> Route53EndpointSettings:
    endpoint = settings.read_endpoint
    if not isinstance(endpoint, Route53EndpointSettings):
        raise AwsCallRejected(f"{settings.name}: read_endpoint.kind is {endpoint.kind}, not route53")
    return endpoint


def _is_of(endpoint: Route53EndpointSettings, record: Record) -> bool:
    return (str(record["Name"]).rstrip("."), record["Type"]) == (endpoint.record_name, "A")


def _targets(records: Mapping[str, Record], alarms: Mapping[str, TargetHealth]) -> dict[str, TargetHealth]:
    return {name: _health(record, alarms.get(name)) for name, record in records.items()}


def _health(record: Record, alarm: TargetHealth | None) -> TargetHealth:
    """A record without a health check is answered whatever its replica does: nothing is known of it (I4)."""
    if record["Weight"] == 0:
        return TargetHealth(TargetState.UNUSED, "its weight is 0")
    if "HealthCheckId" not in record:
        return TargetHealth(TargetState.INITIAL, "its record has no health check")
    return alarm or TargetHealth(TargetState.INITIAL, "its health check's alarm is missing")
