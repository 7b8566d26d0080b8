"""An AWS account on moto in this process, as strict as AWS where Peaker relies on it, and with hosts that answer.

What moto lacks is added at the one place through which boto3 makes a call: ClientTokens, hosts behind Systems Manager,
executions. Every instance runs, every volume is there and every command has ended at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import boto3
from botocore.client import BaseClient
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.backends import get_backend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.ec2.exceptions import InvalidVolumeIdError
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.models.elastic_block_store import EBSBackend
from moto.ec2.models.instances import Instance
from moto.elbv2.models import FakeTargetGroup
from moto.moto_api._internal import mock_random
from moto.route53.models import Route53Backend, route53_backends
from peaker.adapters.aws_clients import CLIENT_CONFIG

from lab.simulated_hosts import HEALTHY, own
from localcloud.extensions import dynamodb, moto_clock, shorter_ways
from localcloud.extensions.ec2 import network
from localcloud.extensions.route53 import health_checks
from localcloud.extensions.route53.change_rules import check_batch, key_of
from sim.explorer.accesses import access_of
from sim.explorer.strands import scheduled
from sim.workflows.virtual_time import VirtualTime

ACCOUNT, REGION, TABLE = "123456789012", "us-east-1", "ledger"
_TOKENS = {"RunInstances": "ClientToken", "CreateVolume": "ClientToken"}
_KEYS = {"aws_access_key_id": "explorer", "aws_secret_access_key": "explorer", "region_name": REGION}


@dataclass
class Hosts:
    """Systems Manager and the hosts behind it. `answers`: what a document prints instead of what a healthy one does."""

    time: VirtualTime
    commands: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def SendCommand(self, given: Mapping[str, Any]) -> dict[str, Any]:
        [host] = given["InstanceIds"]
        if not _runs(host):
            raise refused("InvalidInstanceId", "SendCommand")
        document = given["DocumentName"].split("-", 2)[2]
        result = {"version": 1, "command": document, "ok": True, **own(HEALTHY.get(document, {}), host)}
        command = {
            "CommandId": f"00000000-0000-0000-0000-{len(self.commands):012d}",
            "Comment": given["Comment"],
            "RequestedDateTime": self.time.now(),
            "host": host,
            "document": document,
            "result": {**result, **self.answers.get(document, {})},
        }
        self.commands.append(command)
        return {"Command": command}

    def ListCommands(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"Commands": [one for one in self.commands if one["host"] == given["InstanceId"]]}

    def GetCommandInvocation(self, given: Mapping[str, Any]) -> dict[str, Any]:
        found = [one for one in self.commands if one["CommandId"] == given["CommandId"]]
        if not found:
            raise refused("InvocationDoesNotExist", "GetCommandInvocation")
        result = found[0]["result"]
        status = "Success" if result["ok"] else "Failed"
        return {"Status": status, "StatusDetails": status, "StandardOutputContent": json.dumps(result)}

    def CancelCommand(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def DescribeInstanceInformation(self, given: Mapping[str, Any]) -> dict[str, Any]:
        [host] = given["Filters"][0]["Values"]
        known = [{"PingStatus": "Online", "AgentVersion": "3.3.2746.0"}] if _runs(host) else []
        return {"InstanceInformationList": known}


class Account:
    """The account. `executions` answers the calls to Step Functions by their names in boto3.

    `refusals` has the codes with which the next calls of an operation are refused, in their order.
    """

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.hosts = Hosts(self.time)
        self.executions: Any = None
        self.refusals: dict[str, list[str]] = {}
        self._tokens: dict[tuple[str, str], tuple[str, Any]] = {}
        self._clients: dict[tuple[str, bool], Any] = {}

    @contextmanager
    def open(self) -> Iterator[None]:
        """The account of this process until the end of the block; its table, network and images are there."""
        mock_random.seed(7)
        with ExitStack() as ends, mock_aws():
            self._strict(ends)

            def call(client: Any, operation: str, given: dict[str, Any]) -> Any:
                return self._call(client, operation, given)

            ends.enter_context(patch.object(BaseClient, "_make_api_call", call))
            self.client("iam").create_instance_profile(InstanceProfileName="peaker-replica")
            settings = SimpleNamespace(account_id=ACCOUNT, region=REGION)
            # Where moto puts the first disk.
            ends.enter_context(patch.object(network, "ROOT_DEVICE", "/dev/sda1"))
            network.seed_network_and_images(cast("Any", SimpleNamespace(settings=settings)))
            key = [("pk", "HASH"), ("sk", "RANGE")]
            self.client("dynamodb").create_table(
                TableName=TABLE,
                KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in key],
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in key],
                BillingMode="PAY_PER_REQUEST",
            )
            yield

    def client(self, service: str, config: Config = CLIENT_CONFIG) -> Any:
        """A client as the functions have it: one that tries again, or with SINGLE_TRY_CONFIG one that does not."""
        asked = (service, config is CLIENT_CONFIG)
        if asked not in self._clients:
            self._clients[asked] = _MAKE_CLIENT(service, config=config, **_KEYS)
        return self._clients[asked]

    def _strict(self, ends: ExitStack) -> None:
        """Replace what moto does and AWS does not."""

        def replace(owner: Any, name: str, value: Any) -> Any:
            before = getattr(owner, name)
            ends.enter_context(patch.object(owner, name, value))
            return before

        cloud: Any = SimpleNamespace(
            clock=SimpleNamespace(now=lambda: self.time.now()),
            patch=replace,
            closing=SimpleNamespace(wait=lambda _: None),
            settings=SimpleNamespace(transaction_seconds=0, account_id=ACCOUNT),
        )
        ends.enter_context(patch.object(moto_clock, "MODULES", ("moto.core.utils",)))
        for extension in (moto_clock, dynamodb, shorter_ways, health_checks):
            extension.install(cloud)
        for billed in (Ami, Instance):
            ends.enter_context(patch.object(billed, "platform_details", "Linux/UNIX", create=True))
        ends.enter_context(patch.object(Instance, "terminate", _and_detached(Instance.terminate)))
        ends.enter_context(patch.object(EBSBackend, "create_snapshots", _snapshots_of_instance))
        ends.enter_context(patch.object(FakeTargetGroup, "deregister", _deregistered))
        attach = _to_one_instance(EBSBackend.attach_volume)
        ends.enter_context(patch.object(EBSBackend, "attach_volume", attach))
        ends.enter_context(patch.object(Route53Backend, "change_resource_record_sets", _change_records))

    def _call(self, client: Any, operation: str, given: dict[str, Any]) -> Any:
        """The place through which every call of boto3 goes."""
        service = client.meta.service_model.service_name
        send: Callable[[], Any] = partial(self._send, client, service, operation, given)
        if operation == "CreateTable":
            return send()
        if operation == "TransactWriteItems":
            # boto3 gives every transaction a token: one that is sent again is the same.
            send = cache(send)
        again = (client.meta.config.retries or {}).get("total_max_attempts") != 1
        access = access_of(service, operation, given)
        places = access.writes if service == "dynamodb" else ()
        return scheduled(access, again, send, lambda: {one: _at(*one.split("|")) for one in places})

    def _send(self, client: Any, service: str, operation: str, given: dict[str, Any]) -> Any:
        if service == "stepfunctions":
            name = {"ListExecutions": "list_executions", "StartExecution": "start_execution"}.get(operation)
            return getattr(self.executions, name or "describe_execution")(**given)
        answer = getattr(self.hosts, operation, None) if service == "ssm" else None
        if answer is not None:
            return answer(given)
        if self.refusals.get(operation):
            raise refused(self.refusals[operation].pop(0), operation)
        if operation == "DescribeCapacityReservations":
            return {"CapacityReservations": []}
        if operation == "PutMetricAlarm":
            _MAKE_API_CALL(client, operation, given)
            told = {"AlarmName": given["AlarmName"], "StateValue": "OK", "StateReason": "it serves"}
            return _MAKE_API_CALL(client, "SetAlarmState", told)
        token = given.get(_TOKENS.get(operation, ""))
        if token is None:
            return _MAKE_API_CALL(client, operation, given)
        asked = repr(given)
        if (operation, token) not in self._tokens:
            self._tokens[operation, token] = (asked, _MAKE_API_CALL(client, operation, given))
        before, made = self._tokens[operation, token]
        if before != asked:
            raise refused("IdempotentParameterMismatch", operation)
        return made


_MAKE_CLIENT: Any = boto3.client
_MAKE_API_CALL = BaseClient._make_api_call  # type: ignore[attr-defined]


def refused(code: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "refused"}}, operation)


def ec2() -> Any:
    """moto's own EC2: all that there is."""
    return ec2_backends[ACCOUNT][REGION]


def _at(pk: str, sk: str, attribute: str) -> Any:
    """An attribute of an item of the ledger's table, or with "" the item, as DynamoDB writes it; None without it."""
    items = get_backend("dynamodb")[ACCOUNT][REGION].tables[TABLE].items
    found = items.get(DynamoType({"S": pk}), {}).get(DynamoType({"S": sk}))
    item = {} if found is None else found.to_json()["Attributes"]
    return item.get(attribute) if attribute else item


def records() -> Any:
    """moto's own Route 53."""
    return route53_backends[ACCOUNT]["aws"]


def instances() -> dict[str, Any]:
    return {one.id: one for group in ec2().reservations.values() for one in group.instances}


def _runs(instance_id: str) -> bool:
    found = instances().get(instance_id)
    return found is not None and found._state.name == "running"


def _and_detached(terminate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Volumes that outlive their instance are free once it has ended."""

    def ended(instance: Any) -> Any:
        if instance._state.name == "terminated":
            return instance._state
        before = terminate(instance)
        for volume in ec2().volumes.values():
            if volume.attachment is not None and volume.attachment.instance is instance:
                volume.attachment, volume.status = None, "available"
        return before

    return ended


def _deregistered(group: Any, targets: list[dict[str, Any]]) -> None:
    """A target that is not registered is not an error."""
    for target in targets:
        group.targets.pop(target["Id"], None)


def _to_one_instance(attach: Callable[..., Any]) -> Callable[..., Any]:
    def attached(backend: Any, volume_id: str, instance_id: str, *more: Any, **named: Any) -> Any:
        volume = backend.volumes.get(volume_id)
        if volume is None:
            raise InvalidVolumeIdError(volume_id)
        if volume.attachment is not None:
            raise refused("VolumeInUse", "AttachVolume")
        return attach(backend, volume_id, instance_id, *more, **named)

    return attached


def _snapshots_of_instance(
    backend: Any, instance_spec: Mapping[str, Any], description: str, tags: dict[str, str]
) -> list[Any]:
    """Of all volumes but those that the call leaves out."""
    out = set(instance_spec.get("ExcludeDataVolumeIds", ()))
    instance = backend.get_instance(instance_spec["InstanceId"])
    if str(instance_spec.get("ExcludeBootVolume")).lower() == "true":
        out.add(instance.block_device_mapping[instance.root_device_name].volume_id)
    volumes = [one.volume_id for one in instance.block_device_mapping.values() if one.volume_id not in out]
    made: list[Any] = [backend.create_snapshot(one, description=description) for one in volumes]
    for snapshot in made:
        snapshot.add_tags(tags)
        snapshot.state = "completed"
    return made


def _change_records(backend: Any, zone_id: str, change_list: list[dict[str, Any]]) -> None:
    """Route 53 checks a batch as a whole, and deletes only what is as the change says."""
    zone = backend.get_hosted_zone(zone_id)
    check_batch(zone.rrsets, change_list, backend.health_checks)
    for one in change_list:
        wanted = one["ResourceRecordSet"]
        if one["Action"] != "CREATE":
            key = key_of(wanted, "Name", "Type", "SetIdentifier")
            zone.rrsets = [
                there for there in zone.rrsets if key_of(vars(there), "name", "type", "set_identifier") != key
            ]
        if one["Action"] != "DELETE":
            values = [value["Value"] for value in wanted["ResourceRecords"]]
            zone.add_rrset({**wanted, "ResourceRecords": values})
