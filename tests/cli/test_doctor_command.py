"""`peaker doctor` against the deployed product: a healthy cluster, faults in every area, an AWS that does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest
from peaker_cli.control_plane import ControlPlane
from peaker_cli.doctor.command import diagnose
from peaker_cli.doctor.finding import Finding, Verdict
from peaker_cli.status.gather import StatusReader

from tests.support.deployed_product import DeployedProduct

BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
GROUP = "sg-0a770000000000001"
VCPUS = ("ec2", "L-1216C47A")
RULE = "peaker-local-orders-forecast"
ALARM = "peaker-local-orders-undo-incomplete"
NOT_A_DONOR = {
    "ok": False,
    "error": "BaseNotPrepared",
    "message": "1 refused",
    "steps": [
        {"name": "gtid", "state": "refused", "detail": "gtid_mode is OFF", "remedy": "turn GTIDs on"},
        {"name": "binary logs", "state": "warning", "detail": "kept for 3600 s", "remedy": "SET PERSIST"},
    ],
}
Findings = Mapping[tuple[str, str], Finding]


def found(product: DeployedProduct) -> Findings:
    control = ControlPlane("local", "us-east-1", product.cloud.endpoint_url)
    diagnosis = diagnose(control, StatusReader(control).settings("orders"))
    return {(one.area, one.check): one for one in diagnosis.findings}


@contextmanager
def a_broken_account(product: DeployedProduct) -> Iterator[None]:
    """Not bootstrapped, too few processors; the profile holds a role that nobody may pass; volumes get a strange
    key."""
    ssm, iam, ec2 = (product.cloud.client(service) for service in ("ssm", "iam", "ec2"))
    ec2.enable_ebs_encryption_by_default()
    strange = product.cloud.client("kms").create_key()["KeyMetadata"]["KeyId"]
    ec2.modify_ebs_default_kms_key_id(KmsKeyId=strange)
    profile = {"InstanceProfileName": "peaker-replica"}
    ssm.delete_parameter(Name=BOOTSTRAP)
    before = product.cloud.quotas.value(*VCPUS)
    product.cloud.quotas.give(*VCPUS, 5)
    iam.create_role(RoleName="mysql-hosts", AssumeRolePolicyDocument="{}")
    iam.remove_role_from_instance_profile(**profile, RoleName="peaker-replica")
    iam.add_role_to_instance_profile(**profile, RoleName="mysql-hosts")
    try:
        yield
    finally:
        iam.remove_role_from_instance_profile(**profile, RoleName="mysql-hosts")
        iam.add_role_to_instance_profile(**profile, RoleName="peaker-replica")
        iam.delete_role(RoleName="mysql-hosts")
        ec2.disable_ebs_encryption_by_default()
        product.cloud.quotas.give(*VCPUS, before)
        ssm.put_parameter(Name=BOOTSTRAP, Value="28", Type="String", Overwrite=True)


@contextmanager
def a_closed_network(product: DeployedProduct) -> Iterator[None]:
    """Health is open to the group itself only, and nothing goes out."""
    ec2 = product.cloud.client("ec2")
    health = [
        {"IpProtocol": "tcp", "FromPort": 9200, "ToPort": 9200, "IpRanges": [{"CidrIp": "10.77.0.0/16"}]}
    ]
    own = [{**health[0], "IpRanges": [], "UserIdGroupPairs": [{"GroupId": GROUP}]}]
    out = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    ec2.revoke_security_group_ingress(GroupId=GROUP, IpPermissions=health)
    ec2.authorize_security_group_ingress(GroupId=GROUP, IpPermissions=own)
    ec2.revoke_security_group_egress(GroupId=GROUP, IpPermissions=out)
    try:
        yield
    finally:
        ec2.authorize_security_group_egress(GroupId=GROUP, IpPermissions=out)
        ec2.revoke_security_group_ingress(GroupId=GROUP, IpPermissions=own)
        ec2.authorize_security_group_ingress(GroupId=GROUP, IpPermissions=health)


@contextmanager
def a_sick_host(product: DeployedProduct) -> Iterator[None]:
    """The base replica's server has no GTIDs; nobody is tagged as the source."""
    ec2, source = product.cloud.client("ec2"), product.cluster.source_id
    ec2.delete_tags(Resources=[source], Tags=[{"Key": "peaker:role"}])
    product.answers.script("prepare_base", NOT_A_DONOR)
    try:
        yield
    finally:
        ec2.create_tags(Resources=[source], Tags=[{"Key": "peaker:role", "Value": "source"}])


@contextmanager
def another_endpoint(product: DeployedProduct) -> Iterator[None]:
    """Somebody changed the health check; the replica left the group."""
    elbv2, base = product.cloud.client("elbv2"), product.cluster.base_replica_id
    group, targets = product.cluster.target_group_arn, [{"Id": base, "Port": 3306}]
    elbv2.modify_target_group(TargetGroupArn=group, HealthCheckPath="/status")
    product.cloud.faults.add("elbv2:DescribeListeners", "ListenerNotFound", times=-1)
    try:
        yield
    finally:
        elbv2.modify_target_group(TargetGroupArn=group, HealthCheckPath="/health")
        elbv2.register_targets(TargetGroupArn=group, Targets=targets)


@contextmanager
def a_pause(product: DeployedProduct) -> Iterator[None]:
    """The schedule of the forecast is off, and an alarm's actions are."""
    events, cloudwatch = product.cloud.client("events"), product.cloud.client("cloudwatch")
    events.disable_rule(Name=RULE)
    cloudwatch.disable_alarm_actions(AlarmNames=[ALARM])
    try:
        yield
    finally:
        cloudwatch.enable_alarm_actions(AlarmNames=[ALARM])
        events.enable_rule(Name=RULE)


@pytest.fixture(scope="module")
def sick(deployed: DeployedProduct) -> Findings:
    """What is found where something is wrong in every area."""
    wrong = {
        "image_id": "ami-0a770000000000098",
        "instance_type": "r6i.large",
        "subnets": {"us-east-1a": "subnet-0a77000000000001b", "us-east-1b": "subnet-0a7700000000000ff"},
        "load_metric": {"namespace": "Peaker/local", "name": "ReadQueriesPerSecond", "statistic": "Average",
                        "period_seconds": 600, "dimensions": {"Cluster": "ordres", "service": "peaker"}},
        "kms_key_arns": ["arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"],
    }  # fmt: skip
    with ExitStack() as planted:
        planted.callback(deployed.cloud.faults.clear)
        planted.callback(deployed.answers.healthy)
        # First and last: no forecast may be made, and remembered, from what is wrong.
        planted.enter_context(a_pause(deployed))
        planted.enter_context(deployed.other_settings(**wrong))
        for plant in (a_broken_account, a_closed_network, a_sick_host, another_endpoint):
            planted.enter_context(plant(deployed))
        return found(deployed)


@pytest.mark.parametrize(
    ("area", "check", "verdict", "detail", "remedy"),
    [
        ("account", "bootstrap", "refuse", "not bootstrapped in us-east-1", "cdk bootstrap -c env=local"),
        ("account", "image", "refuse", "no ami-0a770000000000098", "image_id"),
        ("account", "vCPUs", "refuse", "4 in use, 4 more needed, the quota is 5", "L-1216C47A"),
        ("account", "key 1234abcd-12ab-34cd-56ef-1234567890ab", "refuse", "NotFound", "kms_key_arns"),
        ("account", "default encryption", "refuse", "default key of EBS", "modify-ebs-default"),
        ("account", "instance profile", "pass", "role/mysql-hosts", ""),
        ("account", "PassRole", "refuse", "may pass arn:aws:iam::123456789012:role/peaker-replica,", "role_arn"),
        ("network", "subnet subnet-0a77000000000001b", "refuse", "in us-east-1b, the settings say us-east-1a", ""),
        ("network", "subnet subnet-0a7700000000000ff", "refuse", "there is no", "subnets"),
        ("network", "health port of peak replicas", "refuse", "the load balancer asks from 10.77.", "--port 9200"),
        ("network", "way out to Systems Manager and S3", "refuse", "lets TCP 443 out", "egress"),
        ("hosts", "source", "refuse", "no instance is tagged as the source", "peaker:role,Value=source"),
        ("hosts", "BASE: gtid", "refuse", "gtid_mode is OFF", "turn GTIDs on"),
        ("hosts", "BASE: binary logs", "warn", "kept for 3600 s", "SET PERSIST"),
        ("read endpoint", "target group", "refuse", "asks for health at /status", "cdk deploy"),
        ("read endpoint", "warming target group", "pass", "HTTP 9200/health", ""),
        ("read endpoint", "listener", "refuse", "no listener", "cdk deploy"),
        ("metrics", "load metric", "refuse", "Cluster=ordres, service=peaker has no point; that name is there", ""),
        ("deployed", "who is paged", "warn", ALARM, "enable-alarm-actions"),
        ("deployed", "rules and schedules", "warn", f"paused: {RULE}", f"enable-rule --name {RULE}"),
    ],
)  # fmt: skip
def test_each_fault_has_its_line_with_its_number_and_its_remedy(
    deployed: DeployedProduct, sick: Findings, area: str, check: str, verdict: str, detail: str, remedy: str
) -> None:
    line = sick[area, check.replace("BASE", deployed.cluster.base_replica_id)]
    assert line.verdict == verdict, line
    assert detail in line.detail
    assert remedy in line.remedy


def test_what_is_sound_passes_beside_it(sick: Findings) -> None:
    for sound in (
        ("account", "instance type"),
        ("account", "EBS storage"),
        ("network", "VPC"),
        ("deployed", "alarms"),
    ):
        assert sick[sound].verdict == Verdict.PASS, sick[sound]


class TestTheCommand:
    def test_a_healthy_cluster_passes_without_a_refusal(self, product: DeployedProduct) -> None:
        said = product.peaker("doctor", "orders")
        assert said.status == 0, said.out
        assert "nothing found that a run of orders would fail on" in said.out
        assert "refuse" not in said.out
        assert "looking at the account" in said.err

    def test_a_refusal_is_status_1_and_the_document_is_whole(self, product: DeployedProduct) -> None:
        product.hosts_are_bare()
        said = product.peaker("doctor", "orders", "--json")
        assert said.status == 1
        document = said.document
        assert (document["cluster"], document["verdict"]) == ("orders", "refuse")
        assert sum(document["counts"].values()) == len(document["findings"]) > 30
        base = product.cluster.base_replica_id
        [line] = [one for one in document["findings"] if one["verdict"] == "refuse"]
        assert line["check"] == f"{base}: host package"
        assert line["remedy"] == f"peaker prepare-base orders {base} --env local"
        assert "a run of orders would fail: 1 refused (hosts: " in said.err

    def test_the_source_is_asked_nothing(self, product: DeployedProduct) -> None:
        product.answers.asked.clear()
        found(product)
        # What a schedule started while the clock was fast may ask the base replica as well.
        asked = [one for one in product.answers.asked if one[0] == "prepare_base"]
        assert asked == [("prepare_base", product.cluster.base_replica_id)]
        assert product.cluster.source_id not in {host for _, host in product.answers.asked}

    def test_what_aws_refuses_to_tell_is_unknown_with_the_permission(self, product: DeployedProduct) -> None:
        denied = {
            "service-quotas:GetServiceQuota": ("account", "vCPUs", "servicequotas:GetServiceQuota"),
            "ec2:DescribeSecurityGroups": ("network", "security groups", "ec2:DescribeSecurityGroups"),
            "iam:GetInstanceProfile": ("account", "instance profile", "iam:GetInstanceProfile"),
            "cloudwatch:GetMetricData": ("metrics", "load metric", "cloudwatch:GetMetricData"),
            "elbv2:DescribeTargetGroups": ("read endpoint", "target group", "cing:DescribeTargetGroups"),
            "events:ListRules": ("deployed", "rules and schedules", "events:ListRules"),
        }  # fmt: skip
        for target in denied:
            product.cloud.faults.add(target, "AccessDenied", times=-1)
        findings = found(product)
        for area, check, permission in denied.values():
            line = findings[area, check]
            assert (line.verdict, permission in line.remedy) == (Verdict.UNKNOWN, True), line
            assert "AccessDenied" in line.detail
        assert not [one for one in findings.values() if one.verdict == Verdict.REFUSE]
