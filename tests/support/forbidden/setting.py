"""What the calls are tried on: own resources, nobody's, the cluster's owner's and another environment's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cloud_rig.resources import ResourceCloud
from stacks.naming import Names

OTHER = "prod"
FOREIGN_ROLE = "foreign-role"


@dataclass(frozen=True)
class Setting:
    """Ids by whose they are. `nobody's` has no tag; the source and the base replica are the cluster's owner's."""

    names: Names
    instances: dict[str, str]
    volumes: dict[str, str]
    snapshots: dict[str, str]
    group: str
    own_group: str
    own_listener: str
    foreign_key: str
    own_key: str
    foreign_zone: str
    own_zone: str
    record_name: str
    package_bucket: str

    @property
    def own_instance(self) -> str:
        return self.instances["own"]

    @property
    def environment(self) -> str:
        return self.names.environment.environment

    @property
    def account(self) -> str:
        return self.names.environment.account

    def not_own(self, what: str) -> dict[str, str]:
        """Foreign ids of `instances`, `volumes` or `snapshots`, by whose they are."""
        return {whose: one for whose, one in getattr(self, what).items() if whose != "own"}


def tags(kind: str, **given: str) -> list[dict[str, Any]]:
    return [
        {
            "ResourceType": kind,
            "Tags": [{"Key": f"peaker:{key}", "Value": value} for key, value in given.items()],
        }
    ]


@dataclass(frozen=True)
class BeforeDeployment:
    """What the environment's file names: it has to be there before the stacks are."""

    own_key: str
    own_zone: str

    @classmethod
    def make(cls, aws: ResourceCloud) -> BeforeDeployment:
        zone = aws.route53.create_hosted_zone(Name="shop.internal", CallerReference="shop.internal")
        key = aws.kms.create_key()["KeyMetadata"]["Arn"]
        return cls(key, zone["HostedZone"]["Id"].rsplit("/", 1)[-1])


def make_setting(aws: ResourceCloud, names: Names, before: BeforeDeployment, record_name: str) -> Setting:
    """Everything that is not deployed: made by the administrator of the account."""
    own = names.environment.environment
    aws.iam.create_role(RoleName=FOREIGN_ROLE, AssumeRolePolicyDocument="{}")
    aws.iam.create_instance_profile(InstanceProfileName=FOREIGN_ROLE)
    aws.iam.add_role_to_instance_profile(InstanceProfileName=FOREIGN_ROLE, RoleName=FOREIGN_ROLE)
    of_own = {"environment": own, "cluster": "orders"}
    instances = {
        "nobody's": {},
        "the source": {**of_own, "role": "source"},
        "a base replica": {**of_own, "role": "replica", "load": "base"},
        "another environment's": {
            "owner": OTHER, "environment": OTHER, "cluster": "orders", "role": "replica", "load": "peak",
        },
        "another environment's base replica": {"environment": OTHER, "cluster": "orders", "role": "replica"},
        "own": {**of_own, "owner": own, "role": "replica", "load": "peak"},
    }  # fmt: skip
    kept = {
        "nobody's": {},
        "a base replica's": {"environment": own, "cluster": "orders", "volume": "data"},
        "another environment's": {"owner": OTHER, "environment": OTHER, "cluster": "orders"},
        "own": {**of_own, "owner": own},
    }
    volumes = {whose: _volume(aws, given) for whose, given in kept.items()}
    probe = {"HealthCheckProtocol": "HTTP", "HealthCheckPort": "9200", "HealthCheckPath": "/"}
    group = aws.elbv2.create_target_group(
        Name="foreign", Protocol="TCP", Port=3306, VpcId="vpc-0a770000000000001", **probe
    )
    endpoint = names.read_endpoint("orders")
    [balancer] = aws.elbv2.describe_load_balancers(Names=[endpoint])["LoadBalancers"]
    listeners = aws.elbv2.describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])["Listeners"]
    zone = aws.route53.create_hosted_zone(Name="foreign.internal", CallerReference="foreign.internal")
    environment = names.environment
    return Setting(
        names=names,
        instances={whose: _instance(aws, given) for whose, given in instances.items()},
        volumes=volumes,
        snapshots={whose: _snapshot(aws, volumes[whose], given) for whose, given in kept.items()},
        group=group["TargetGroups"][0]["TargetGroupArn"],
        own_group=aws.elbv2.describe_target_groups(Names=[endpoint])["TargetGroups"][0]["TargetGroupArn"],
        own_listener=listeners[0]["ListenerArn"],
        foreign_key=aws.kms.create_key()["KeyMetadata"]["Arn"],
        own_key=before.own_key,
        foreign_zone=zone["HostedZone"]["Id"].rsplit("/", 1)[-1],
        own_zone=before.own_zone,
        record_name=record_name,
        package_bucket=f"cdk-{environment.bootstrap_qualifier}-assets-{environment.account}-{environment.region}",
    )


def _instance(aws: ResourceCloud, given: dict[str, str]) -> str:
    return aws.launch(**({"TagSpecifications": tags("instance", **given)} if given else {}))


def _volume(aws: ResourceCloud, given: dict[str, str]) -> str:
    return aws.available_volume(**({"TagSpecifications": tags("volume", **given)} if given else {}))


def _snapshot(aws: ResourceCloud, volume: str, given: dict[str, str]) -> str:
    more = {"TagSpecifications": tags("snapshot", **given)} if given else {}
    return str(aws.ec2.create_snapshot(VolumeId=volume, **more)["SnapshotId"])
