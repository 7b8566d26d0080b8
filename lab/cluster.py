"""Brings up the cluster that Peaker then finds: a source and a base replica, with data, behind the endpoint.

Everything goes through the AWS APIs of the local cloud. Both servers come up as their owner builds them, by plain
scripts and without a file of Peaker's; what Peaker needs on the base replica comes by `peaker prepare-base`, and on the
source it needs nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lab import seed
from lab.servers import SERVERS, DatabaseServer
from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, LOAD_TAG, ROLE_TAG, VOLUME_TAG

SCRIPT_DOCUMENT = "LocalCloud-RunScript"
SOURCE_ADDRESS, BASE_REPLICA_ADDRESS = "10.77.1.10", "10.77.2.10"
AS_ROOT = "mysql --user=root --socket=/run/mysqld/mysqld.sock"
HEALTH_USER, HEALTH_PASSWORD = "peaker_health", "local-health"
_AFTER_CREATE = (
    "InvalidInstanceID.NotFound",
    "InvalidVolume.NotFound",
    "InvalidInstanceId",
    "IncorrectState",
)
# A load balancer takes up to 5 minutes of the cloud's clock for a registration, and then looks a few times.
REGISTRATION_SECONDS = 600.0
_HASTE = 150.0
LIMIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.1

Admin = Callable[[str, Mapping[str, Any] | None], dict[str, Any]]


class BringUpError(Exception):
    """The cluster did not come up; the message names the host, the step and what it said."""


@dataclass(frozen=True)
class RunningCluster:
    """The cluster as it stands before Peaker acts."""

    name: str
    source_id: str
    source_address: str
    base_replica_id: str
    target_group_arn: str
    listener_port: int


class Hosts:
    """Commands on hosts through SSM, as an operator sends them."""

    def __init__(self, ssm: Any) -> None:
        self._ssm = ssm

    def ensure_script_document(self) -> None:
        """The one document of our own: it runs a script."""
        content = {
            "schemaVersion": "2.2",
            "description": "Run a script on a host of the local cloud",
            "parameters": {"Script": {"type": "String", "interpolationType": "ENV_VAR"}},
            "mainSteps": [
                {
                    "action": "aws:runShellScript",
                    "name": "run",
                    "inputs": {"timeoutSeconds": "300", "runCommand": ['exec bash -euc "$SSM_Script"']},
                }
            ],
        }
        if not _exists(lambda: self._ssm.describe_document(Name=SCRIPT_DOCUMENT), "InvalidDocument"):
            self._ssm.create_document(
                Name=SCRIPT_DOCUMENT,
                Content=json.dumps(content),
                DocumentType="Command",
                DocumentFormat="JSON",
            )

    def await_online(self, instance_id: str) -> None:
        """Waits until the host takes commands."""
        filters = [{"Key": "InstanceIds", "Values": [instance_id]}]

        def online() -> bool:
            found = self._ssm.describe_instance_information(Filters=filters)["InstanceInformationList"]
            return any(entry["PingStatus"] == "Online" for entry in found)

        eventually(f"{instance_id} is online in SSM", online)

    def script(self, instance_id: str, script: str) -> str:
        """Run a script as root; returns its output."""
        command_id = self._ssm.send_command(
            InstanceIds=[instance_id], DocumentName=SCRIPT_DOCUMENT, Parameters={"Script": [script]}
        )["Command"]["CommandId"]
        while True:
            time.sleep(0.2)
            try:
                found = self._ssm.get_command_invocation(CommandId=command_id, InstanceId=instance_id)
            except self._ssm.exceptions.InvocationDoesNotExist:
                continue
            if found["Status"] == "Success":
                return str(found["StandardOutputContent"])
            if found["Status"] in ("Failed", "TimedOut", "Cancelled"):
                said = found["StandardErrorContent"] or found["StandardOutputContent"]
                raise BringUpError(
                    f"{SCRIPT_DOCUMENT} on {instance_id} ended {found['StatusDetails']}: {said.strip()}"
                )


def bring_up(
    client: Callable[[str], Any],
    admin: Admin,
    settings: Mapping[str, Any],
    kept: seed.Seed,
    prepare_base: Callable[[str], None],
    progress: Callable[[str], None],
) -> RunningCluster:
    """Make the source and the base replica, prepare and register the replica, return when reads are served.

    `settings` is the cluster's deployed block (SSM parameter), `client` makes boto3 clients, `admin(path, body)` calls
    an endpoint under /_peaker/, `prepare_base` does with an instance id what `peaker prepare-base` does.
    """
    ec2, elbv2 = client("ec2"), client("elbv2")
    ensure_instance_profile(client("iam"), settings["instance_profile"])
    hosts = Hosts(client("ssm"))
    hosts.ensure_script_document()
    server = SERVERS[settings["engine"]]
    zones = sorted(settings["subnets"])
    progress("launching source and base replica")
    source = launch(ec2, settings, zones[0], "source", PrivateIpAddress=SOURCE_ADDRESS)
    replica = launch(ec2, settings, zones[-1], "replica", PrivateIpAddress=BASE_REPLICA_ADDRESS)
    progress("restoring their volumes, starting MySQL as their owner does")
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(_start_server, client, hosts, settings, kept, *host)
            for host in (
                (source, zones[0], _source_server(server)),
                (replica, zones[-1], _configured(2, server.replica_options)),
            )
        ]
        for job in jobs:
            job.result()
    progress("replication")
    hosts.script(replica, _follow_source(server))
    progress(f"peaker prepare-base {settings['name']} {replica}")
    prepare_base(replica)
    endpoint = settings["read_endpoint"]
    serve(elbv2, admin, endpoint, replica, progress)
    return RunningCluster(
        str(settings["name"]), source, SOURCE_ADDRESS, replica, str(endpoint["target_group_arn"]),
        int(endpoint["listener_port"]),
    )  # fmt: skip


def ensure_instance_profile(iam: Any, name: str) -> None:
    """The hosts' profile, with a role of the same name, as an account has it before Peaker comes."""
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    if _exists(lambda: iam.get_instance_profile(InstanceProfileName=name), "NoSuchEntity"):
        return
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)


def launch(ec2: Any, settings: Mapping[str, Any], zone: str, role: str, **more: Any) -> str:
    """RunInstances of a host of the cluster, tagged as the product's users tag theirs; returns its id."""
    named = {
        "Name": f"{settings['name']}-{role}",
        ENVIRONMENT_TAG: settings["environment"],
        CLUSTER_TAG: settings["name"],
        ROLE_TAG: role,
    }
    if role == "replica":
        named[LOAD_TAG] = "base"
    answer = ec2.run_instances(
        ImageId=settings["image_id"], InstanceType=settings["instance_type"], MinCount=1, MaxCount=1,
        SubnetId=settings["subnets"][zone], SecurityGroupIds=list(settings["security_group_ids"]),
        TagSpecifications=[{"ResourceType": "instance", "Tags": aws_tags(named)}], **more,
    )  # fmt: skip
    return str(answer["Instances"][0]["InstanceId"])


def _start_server(
    client: Callable[[str], Any],
    hosts: Hosts,
    settings: Mapping[str, Any],
    kept: seed.Seed,
    instance_id: str,
    zone: str,
    script: str,
) -> None:
    hosts.await_online(instance_id)
    _attach_seed(client("ec2"), settings, kept, instance_id, zone)
    hosts.script(instance_id, _own_server(settings["volumes"], script))


def _attach_seed(ec2: Any, settings: Mapping[str, Any], kept: seed.Seed, instance_id: str, zone: str) -> None:
    snapshots = {snapshot.name: snapshot for snapshot in kept.snapshots}
    for volume in settings["volumes"]:
        origin = snapshots[volume["name"]].snapshot_id
        attach_volume(ec2, settings, volume, instance_id, zone, SnapshotId=origin)


def attach_volume(
    ec2: Any, settings: Mapping[str, Any], volume: Mapping[str, Any], instance_id: str, zone: str, **more: Any
) -> None:
    """Makes one of the cluster's volumes and attaches it; `more` says what it is made of."""
    named = {CLUSTER_TAG: settings["name"], VOLUME_TAG: volume["name"]}
    volume_id = ec2.create_volume(
        AvailabilityZone=zone, VolumeType=volume["volume_type"], Iops=volume["iops"],
        Throughput=volume["throughput_mib_per_s"],
        TagSpecifications=[{"ResourceType": "volume", "Tags": aws_tags(named)}], **more,
    )["VolumeId"]  # fmt: skip
    _retried(ec2.attach_volume, Device=volume["device"], InstanceId=instance_id, VolumeId=volume_id)


def _own_server(volumes: Sequence[Mapping[str, Any]], then: str) -> str:
    """A server as its owner builds it: volumes in fstab, its own configuration, its image's own unit.

    Nothing of Peaker's is on the host, also nothing that the image has for replicas that Peaker launches. What the
    files hold is read once, as it is on a server that has run for months.
    """
    mounts = [
        f"for _ in $(seq 100); do [ -b {volume['device']} ] && break; sleep 0.1; done\n"
        f"mkdir -p {volume['mount_point']}\n"
        # nouuid: all hosts share the kernel of this machine, which lets no filesystem be mounted twice.
        f"echo '{volume['device']} {volume['mount_point']} {volume['filesystem']} "
        f"{'nouuid,' if volume['filesystem'] == 'xfs' else ''}noatime 0 0' >>/etc/fstab\n"
        f"mount {volume['mount_point']}\nchown mysql:mysql {volume['mount_point']}\n"
        for volume in volumes
    ]
    places = " ".join(volume["mount_point"] for volume in volumes)
    read = f"find {places} -type f -size +0 -print0 | xargs -0 -r -P 16 -I FILE dd if=FILE"
    return (
        f"rm -rf /etc/peaker /opt/peaker\n{''.join(mounts)}"
        f"{read} of=/dev/null bs=512k iflag=direct status=none\n{then}"
    )


def _source_server(server: DatabaseServer) -> str:
    """The owner makes the accounts of the health responders here, from where every replica has them
    (docs/base-replica.md)."""
    name = f"'{HEALTH_USER}'@'localhost'"
    grants = "".join(f"GRANT {right} TO {name};\n" for right in server.health_grants)
    return (
        f"{_configured(1, server.source_options)}{AS_ROOT} <<'SQL'\n"
        f"CREATE USER {name} IDENTIFIED BY '{HEALTH_PASSWORD}' WITH MAX_USER_CONNECTIONS 5;\n{grants}SQL\n"
    )


def _configured(server_id: int, options: Sequence[str]) -> str:
    lines = "\\n".join(["[mysqld]", f"server_id={server_id}", *options])
    return (
        f"printf '{lines}\\n' >/etc/mysql/conf.d/server.cnf\nsystemctl enable mysql\nsystemctl start mysql\n"
    )


def _follow_source(server: DatabaseServer) -> str:
    """Replication, and the file with the health account's login, when the account has come."""
    known = f"SELECT COUNT(*) FROM mysql.user WHERE user = '{HEALTH_USER}'"
    follow = server.follow_source.format(
        host=SOURCE_ADDRESS, user=seed.REPLICATION_USER, password=seed.REPLICATION_PASSWORD
    )
    login = {"user": seed.REPLICATION_USER, "password": seed.REPLICATION_PASSWORD}
    of_replication = (
        f"printf '%s' '{json.dumps(login)}' >/etc/peaker/replication.json\n"
        if server.replication_login_file
        else ""
    )
    return (
        f'{AS_ROOT} -e "{follow}"\n'
        f'for _ in $(seq 300); do [ "$({AS_ROOT} -NBe "{known}")" = 1 ] && break; sleep 0.2; done\n'
        "umask 077\nmkdir -p /etc/peaker\n"
        f"printf '[client]\\nuser={HEALTH_USER}\\npassword={HEALTH_PASSWORD}\\n' >/etc/peaker/health.cnf\n"
        f"{of_replication}"
    )


@contextmanager
def _hastened(admin: Admin) -> Iterator[None]:
    """Let the cloud's clock run at least 150 times as fast as the real one, and as before in the end."""
    scale = float(admin("clock", None)["scale"])
    admin("clock", {"scale": max(scale, _HASTE)})
    try:
        yield
    finally:
        admin("clock", {"scale": scale})


def serve(
    elbv2: Any, admin: Admin, endpoint: Mapping[str, Any], instance_id: str, progress: Callable[[str], None]
) -> None:
    """Registers the replica in both groups, as every serving replica is: neither may ever be empty."""
    groups = [
        str(endpoint[one]) for one in ("target_group_arn", "warming_target_group_arn") if endpoint.get(one)
    ]
    for arn in groups:
        elbv2.register_targets(TargetGroupArn=arn, Targets=[{"Id": instance_id, "Port": endpoint["port"]}])

    def healthy(arn: str) -> bool:
        found = elbv2.describe_target_health(TargetGroupArn=arn)["TargetHealthDescriptions"]
        return any(
            one["Target"]["Id"] == instance_id and one["TargetHealth"]["State"] == "healthy" for one in found
        )

    progress("waiting for the load balancer, which takes 3 to 5 minutes of the cloud's clock")
    with _hastened(admin):
        limit = LIMIT_SECONDS + REGISTRATION_SECONDS / float(admin("clock", None)["scale"])
        eventually("the base replica is healthy", lambda: all(healthy(arn) for arn in groups), limit)


def eventually(what: str, look: Callable[[], Any], limit_seconds: float = LIMIT_SECONDS) -> None:
    """Waits until a look finds it true. Raises BringUpError at the limit."""
    deadline = time.monotonic() + limit_seconds
    while not look():
        if time.monotonic() > deadline:
            raise BringUpError(f"not true after {limit_seconds:.0f} s: {what}")
        time.sleep(_PAUSE_SECONDS)


def _retried(call: Callable[..., Any], **arguments: Any) -> Any:
    """Calls again while EC2 does not see yet what was just created."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return call(**arguments)
        except Exception as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code")
            if code not in _AFTER_CREATE or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _exists(describe: Callable[[], Any], absent: str) -> bool:
    try:
        describe()
    except Exception as error:
        if getattr(error, "response", {}).get("Error", {}).get("Code") != absent:
            raise
        return False
    return True


def aws_tags(tags: Mapping[str, str]) -> Sequence[dict[str, str]]:
    """Tags as the AWS APIs take them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]
