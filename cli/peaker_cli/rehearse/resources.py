"""The resources of a rehearsal: each is looked for by its tag or name before it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from peaker_cli.failures import ControlPlaneError
from peaker_contract.cluster import ClusterSettings

REHEARSAL_TAG, ENDS_TAG = "peaker:rehearsal", "peaker:ends"
DEVICES = {"filled": "/dev/sdf", "cold": "/dev/sdg", "paid": "/dev/sdh"}
METRIC_NAMESPACE = "PeakerRehearsal"
EVENT_SOURCE = "peaker.rehearsal"
LASTS_HOURS = 6
_MOST_SECONDS = 5400.0
_SHOWN_WITHIN_SECONDS = 10.0


@dataclass(frozen=True)
class Resources:
    """One rehearsal on one account. `rehearsal` names its resources; `sleep` waits, in real seconds.

    `now` is the time by AWS's answers, so that a fast clock of a local cloud measures its own seconds.
    """

    rehearsal: str
    settings: ClusterSettings
    gib: int
    client_of: Callable[[str], Any]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    clients: dict[str, Any] = field(default_factory=dict)
    answers: dict[Callable[[Resources], Mapping[str, str]], Mapping[str, str] | Exception] = field(
        default_factory=dict
    )

    def client(self, service: str) -> Any:
        if service not in self.clients:
            self.clients[service] = self.client_of(service)
        return self.clients[service]

    def gathered(self, ask: Callable[[Resources], Mapping[str, str]]) -> Mapping[str, str]:
        """Returns what `ask` found; it asks once, and what it raised is raised again."""
        if ask not in self.answers:
            try:
                self.answers[ask] = ask(self)
            except (ClientError, ControlPlaneError) as error:
                self.answers[ask] = error
        found = self.answers[ask]
        if isinstance(found, Exception):
            raise found
        return found

    # -- waiting -------------------------------------------------------------------------------------------

    def seconds_until(
        self,
        what: str,
        holds: Callable[[], object],
        since: datetime | None = None,
        at_most: float = _MOST_SECONDS,
    ) -> float:
        """Returns the seconds until `holds`, on AWS's clock. Raises ControlPlaneError after `at_most`."""
        begin = since or self.now()
        while not holds():
            waited = (self.now() - begin).total_seconds()
            if waited > at_most:
                raise ControlPlaneError(f"{what} did not come within {waited / 60:.0f} min")
            self.sleep(2.0)
        return max(0.0, (self.now() - begin).total_seconds())

    # -- making, once each ---------------------------------------------------------------------------------

    def tags(self, kind: str, name: str) -> list[dict[str, Any]]:
        wanted = {
            REHEARSAL_TAG: self.rehearsal,
            ENDS_TAG: end_of(self.rehearsal),
            "Name": self.name_tag(name),
        }
        return [
            {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in wanted.items()]}
        ]

    def name_tag(self, name: str) -> str:
        return f"peaker-rehearsal-{name}"

    def token(self, name: str) -> str:
        return f"{self.rehearsal}-{name}"

    @property
    def health_port(self) -> int:
        """Returns the port that the cluster's security groups let a load balancer in at."""
        return self.settings.read_endpoint.health_port

    @property
    def subnet(self) -> str:
        return next(iter(self.settings.subnets.values()))

    @property
    def zone(self) -> str:
        return next(iter(self.settings.subnets))

    @property
    def launch_request(self) -> dict[str, Any]:
        settings = self.settings
        request: dict[str, Any] = {
            "ImageId": settings.image_id,
            "InstanceType": settings.instance_type,
            "SubnetId": self.subnet,
            "SecurityGroupIds": list(settings.security_group_ids),
            "MinCount": 1,
            "MaxCount": 1,
            "ClientToken": self.token("instance"),
            "TagSpecifications": [*self.tags("instance", "host"), *self.tags("volume", "root")],
            "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled"},
            # It ends by itself where nobody takes the rehearsal up again.
            "InstanceInitiatedShutdownBehavior": "terminate",
            "UserData": f"#!/bin/sh\nshutdown -h +{60 * LASTS_HOURS}\n",
        }
        if settings.instance_profile:
            request["IamInstanceProfile"] = {"Name": settings.instance_profile}
        return request

    def instance(self) -> str:
        """Returns the instance, launched if it is not there."""
        if found := self.instances():
            return found[0]
        return str(self.client("ec2").run_instances(**self.launch_request)["Instances"][0]["InstanceId"])

    def volume_request(self, name: str) -> dict[str, Any]:
        return {
            "AvailabilityZone": self.zone,
            "Size": self.gib,
            "VolumeType": "gp3",
            "Throughput": 125,
            "Iops": 3000,
            "ClientToken": self.token(name),
            "TagSpecifications": self.tags("volume", name),
        }

    def volume(self, name: str, **more: Any) -> str:
        """Returns the volume of that name: empty, or of a snapshot with SnapshotId in `more`."""
        if found := self.volumes(name):
            return str(found[0]["VolumeId"])
        return str(self.client("ec2").create_volume(**self.volume_request(name), **more)["VolumeId"])

    def attach(self, name: str) -> None:
        (volume,) = self.volumes(name)
        if not volume.get("Attachments"):
            # An attachment that was just made may not show yet: then EC2 says that the volume is in use.
            asked = {"VolumeId": volume["VolumeId"], "InstanceId": self.instance(), "Device": DEVICES[name]}
            unless(("VolumeInUse", "IncorrectState"), lambda: self.client("ec2").attach_volume(**asked))

    def snapshot(self) -> str:
        """Returns the snapshot of the filled volume.

        CreateSnapshot takes no token, so it is looked for twice: one that was just made shows some seconds later.
        """
        for pause in (_SHOWN_WITHIN_SECONDS, 0.0):
            if found := self.snapshots("whole"):
                return str(found[0]["SnapshotId"])
            self.sleep(pause)
        (volume,) = self.volumes("filled")
        answer = self.client("ec2").create_snapshot(
            VolumeId=volume["VolumeId"], TagSpecifications=self.tags("snapshot", "whole")
        )
        return str(answer["SnapshotId"])

    def target_group(self) -> str:
        """Returns the target group; its load balancer and listener are made with it."""
        elb = self.client("elbv2")
        group = next(iter(self.groups()), None) or self._make_group()
        balancer, listeners = next(iter(self.balancers()), None) or (self._make_balancer(), [])
        self.seconds_until("the load balancer", lambda: self._balancer_state(balancer) == "active")
        if not listeners:
            forward = [{"Type": "forward", "TargetGroupArn": group}]
            asked = {"LoadBalancerArn": balancer, "Protocol": "TCP", "Port": 3306, "DefaultActions": forward}
            unless(("DuplicateListener",), lambda: elb.create_listener(**asked))
        return group

    def _make_group(self) -> str:
        vpc = self.client("ec2").describe_subnets(SubnetIds=[self.subnet])["Subnets"][0]["VpcId"]
        made = self.client("elbv2").create_target_group(
            Name=self.own_name,
            Protocol="TCP",
            Port=self.health_port,
            VpcId=vpc,
            TargetType="instance",
            HealthCheckProtocol="HTTP",
            HealthCheckPath="/",
            HealthCheckIntervalSeconds=10,
            Tags=self.plain_tags,
        )
        return str(made["TargetGroups"][0]["TargetGroupArn"])

    def _make_balancer(self) -> str:
        made = self.client("elbv2").create_load_balancer(
            Name=self.own_name,
            Type="network",
            Scheme="internal",
            Subnets=[self.subnet],
            Tags=self.plain_tags,
        )
        return str(made["LoadBalancers"][0]["LoadBalancerArn"])

    @property
    def plain_tags(self) -> list[dict[str, str]]:
        return [{"Key": REHEARSAL_TAG, "Value": self.rehearsal}]

    def _balancer_state(self, arn: str) -> str:
        found = self.client("elbv2").describe_load_balancers(LoadBalancerArns=[arn])["LoadBalancers"]
        return str(found[0].get("State", {}).get("Code", "active"))

    @property
    def own_name(self) -> str:
        """Returns the name of what has one: load balancer, target group, queue and rule; 32 characters at most."""
        return f"peaker-rehearsal-{self.rehearsal[-12:]}"

    # -- asking --------------------------------------------------------------------------------------------

    def send(self, document: str, parameters: Mapping[str, list[str]]) -> str:
        sent = self.client("ssm").send_command(
            DocumentName=document, InstanceIds=[self.instance()], Parameters=dict(parameters)
        )
        return str(sent["Command"]["CommandId"])

    def invocation(self, command: str) -> Mapping[str, Any]:
        """Returns the command on the host; {} where it does not show yet."""
        ssm = self.client("ssm")
        with suppress(ssm.exceptions.InvocationDoesNotExist):
            return dict(ssm.get_command_invocation(CommandId=command, InstanceId=self.instance()))
        return {}

    def ended(self, command: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def has_ended() -> bool:
            found.update(self.invocation(command))
            return found.get("Status") in {"Success", "Failed", "TimedOut", "Cancelled"}

        self.seconds_until("the answer of the host", has_ended)
        return found

    def command(self, document: str, parameters: Mapping[str, list[str]]) -> dict[str, Any]:
        return self.ended(self.send(document, parameters))

    def run(self, script: str) -> str:
        """Runs a script on the host and returns what it printed. Raises ControlPlaneError with its last words."""
        found = self.command("AWS-RunShellScript", {"commands": [script], "executionTimeout": ["5400"]})
        if found["Status"] != "Success":
            said = str(found.get("StandardErrorContent") or found["Status"]).strip()[-300:]
            raise ControlPlaneError(f"the host {self.instance()} could not run the probe: {said}")
        return str(found["StandardOutputContent"])

    def instance_state(self) -> str:
        """Returns the state of the instance, or absent: one that was just made may not show yet."""
        return str(next((one["State"]["Name"] for one in self._described()), "absent"))

    def launched_at(self) -> datetime:
        """Returns EC2's time of the launch; now, where EC2 does not show the instance yet."""
        return next((one["LaunchTime"] for one in self._described()), self.now())

    def agent_is_online(self) -> bool:
        filters = [{"Key": "InstanceIds", "Values": [self.instance()]}]
        found = self.client("ssm").describe_instance_information(Filters=filters)["InstanceInformationList"]
        return bool(found) and found[0]["PingStatus"] == "Online"

    def volume_state(self, name: str) -> str:
        found = self.volumes(name)
        attached = found[0].get("Attachments") if found else None
        return str(attached[0]["State"] if attached else found[0]["State"] if found else "absent")

    def snapshot_state(self) -> str:
        return str(next((one["State"] for one in self.snapshots("whole")), "absent"))

    @property
    def targets(self) -> list[dict[str, Any]]:
        return [{"Id": self.instance(), "Port": self.health_port}]

    def target_state(self, group: str) -> str:
        """Returns the target's state; unused before it is registered, and once it is deregistered."""
        return str(self.target_health(group)["State"])

    def target_health(self, group: str) -> Mapping[str, Any]:
        found = self.client("elbv2").describe_target_health(TargetGroupArn=group, Targets=self.targets)
        return dict(found["TargetHealthDescriptions"][0]["TargetHealth"])

    def _filters(self, name: str | None = None, **more: str) -> list[dict[str, Any]]:
        named = {} if name is None else {"tag:Name": self.name_tag(name)}
        wanted = {f"tag:{REHEARSAL_TAG}": self.rehearsal, **named, **more}
        return [{"Name": name, "Values": value.split(",")} for name, value in wanted.items()]

    def instances(self) -> list[str]:
        return [str(one["InstanceId"]) for one in self._described()]

    def _described(self) -> list[dict[str, Any]]:
        """Returns EC2's descriptions of its instances that have not ended."""
        alive = self._filters(**{"instance-state-name": "pending,running,stopping,stopped,shutting-down"})
        pages = self.client("ec2").get_paginator("describe_instances").paginate(Filters=alive)
        return [one for page in pages for group in page["Reservations"] for one in group["Instances"]]

    def volumes(self, name: str | None = None) -> list[dict[str, Any]]:
        filters = self._filters(name)
        found = self.client("ec2").describe_volumes(Filters=filters)["Volumes"]
        return [one for one in found if one["State"] not in {"deleting", "deleted"}]

    def snapshots(self, name: str | None = None) -> list[dict[str, Any]]:
        filters = self._filters(name)
        found = self.client("ec2").describe_snapshots(Filters=filters, OwnerIds=["self"])
        return list(found["Snapshots"])

    def balancers(self) -> list[tuple[str, list[str]]]:
        elb = self.client("elbv2")
        found = absent(lambda: elb.describe_load_balancers(Names=[self.own_name])["LoadBalancers"]) or []
        return [
            (
                one["LoadBalancerArn"],
                [
                    each["ListenerArn"]
                    for each in elb.describe_listeners(LoadBalancerArn=one["LoadBalancerArn"])["Listeners"]
                ],
            )
            for one in found
        ]

    def groups(self) -> list[str]:
        elb = self.client("elbv2")
        found = absent(lambda: elb.describe_target_groups(Names=[self.own_name])["TargetGroups"]) or []
        return [one["TargetGroupArn"] for one in found]


def absent(ask: Callable[[], Any]) -> Any:
    """Returns the answer, None where AWS says that the thing is not there (any more)."""
    return unless(("NotFound", "NoSuchEntity", "NonExistentQueue"), ask)


def unless(codes: tuple[str, ...], ask: Callable[[], Any]) -> Any:
    """Returns the answer, None where AWS refuses with a code that has one of these words."""
    try:
        return ask()
    except ClientError as error:
        if any(code in error.response["Error"]["Code"] for code in codes):
            return None
        raise


def answer_of(call: Callable[[], object]) -> str:
    """Returns the code with which AWS refuses the call, or `taken`."""
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "taken"


def same(first: str, second: str) -> str:
    return "the same one" if first == second else "another one"


def begun_before(ec2: Any, cluster: str) -> str | None:
    """Returns the newest rehearsal of the cluster of which AWS shows an instance, a volume or a snapshot."""
    filters = [{"Name": "tag-key", "Values": [REHEARSAL_TAG]}]
    groups = ec2.describe_instances(Filters=filters)["Reservations"]
    shown = [one for group in groups for one in group["Instances"] if one["State"]["Name"] != "terminated"]
    shown += ec2.describe_volumes(Filters=filters)["Volumes"]
    shown += ec2.describe_snapshots(Filters=filters, OwnerIds=["self"])["Snapshots"]
    names = {tag["Value"] for one in shown for tag in one.get("Tags", []) if tag["Key"] == REHEARSAL_TAG}
    return max((name for name in names if name[:-13] == cluster), default=None)


def rehearsal_name(cluster: str, now: datetime) -> str:
    """Returns the name of a rehearsal that begins now; its last twelve characters are the time."""
    return f"{cluster}-{now:%y%m%d%H%M%S}"


def begin_of(rehearsal: str) -> datetime:
    """Returns when it began. Raises ControlPlaneError for what is no rehearsal's name."""
    try:
        return datetime.strptime(rehearsal[-12:], "%y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise ControlPlaneError(f"{rehearsal} is no rehearsal's name: they end in their time") from None


def end_of(rehearsal: str) -> str:
    """Returns the time after which a rehearsal's resources may be removed by anybody."""
    return (begin_of(rehearsal) + timedelta(hours=LASTS_HOURS)).isoformat(timespec="minutes")
