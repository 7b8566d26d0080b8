"""The ledger, the read endpoint and the deployed settings of a cluster."""

from __future__ import annotations

import json
from typing import Any

from environments.schema import Cluster, load_environment
from peaker_contract.cluster import measured_load
from peaker_contract.names import cluster_stack
from tests.infrastructure.conftest import Assembly


def test_ledger_is_recoverable_encrypted_and_expires_rows(assembly: Assembly) -> None:
    [table] = assembly.properties("AWS::DynamoDB::Table")
    assert [(key["AttributeName"], key["KeyType"]) for key in table["KeySchema"]] == [
        ("pk", "HASH"),
        ("sk", "RANGE"),
    ]
    assert table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert table["SSESpecification"] == {"SSEEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}


def test_ledger_outlives_the_stack_where_state_is_kept(assembly: Assembly) -> None:
    [(_, table)] = assembly.resources("AWS::DynamoDB::Table")
    kept = assembly.environment == "prod"
    assert table["DeletionPolicy"] == ("Retain" if kept else "Delete")
    assert table["Properties"].get("DeletionProtectionEnabled", False) == kept


def test_a_first_deployment_that_fails_leaves_nothing_in_the_way_of_the_next(assembly: Assembly) -> None:
    """Names are fixed: what a failed creation retains, or what is protected, the next one meets."""
    kept_at_failure = [
        (kind, logical_id)
        for kind in ("AWS::Logs::LogGroup", "AWS::ElasticLoadBalancingV2::LoadBalancer")
        for logical_id, resource in assembly.resources(kind)
        if resource["DeletionPolicy"]
        != ("RetainExceptOnCreate" if assembly.environment == "prod" else "Delete")
    ]
    assert kept_at_failure == []
    [balancer] = assembly.properties("AWS::ElasticLoadBalancingV2::LoadBalancer")
    attributes = {pair["Key"]: pair["Value"] for pair in balancer["LoadBalancerAttributes"]}
    assert attributes.get("deletion_protection.enabled", "false") == "false"


def test_the_protected_ledger_is_alone_in_its_stack(prod: Assembly) -> None:
    """Nothing beside it can fail and roll it back."""
    [state] = [one for one in prod.templates.values() if "AWS::DynamoDB::Table" in json.dumps(one)]
    kinds = {resource["Type"] for resource in state["Resources"].values()}
    assert kinds - {"AWS::CDK::Metadata"} == {"AWS::DynamoDB::Table"}


def test_what_runs_hand_to_their_hosts_is_closed_and_vanishes(assembly: Assembly) -> None:
    [bucket] = [
        one for one in assembly.properties("AWS::S3::Bucket") if "run-files" in one.get("BucketName", "")
    ]
    assert all(bucket["PublicAccessBlockConfiguration"].values())
    [rule] = bucket["LifecycleConfiguration"]["Rules"]
    assert (rule["Status"], rule["ExpirationInDays"]) == ("Enabled", 4)
    assert assembly.environment in bucket["BucketName"]


def test_a_load_balancer_stays_where_its_own_subnets_say(wide: Assembly) -> None:
    """A person names a larger subnet for replicas: the load balancer's would be refused, and readers cut."""
    subnets = load_environment("prod").clusters[0].subnets
    [balancer] = wide.properties("AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert balancer["Subnets"] == [subnets[zone] for zone in sorted(subnets)]
    deployed = json.loads(resolved(settings_parameter(wide, "items")["Value"]))
    assert set(deployed["subnets"]) == set(subnets)
    assert not set(deployed["subnets"].values()) & set(subnets.values())
    assert "subnets" not in deployed["read_endpoint"]


def test_new_connections_go_to_the_proven_replicas_and_a_few_through_the_warming_group(
    assembly: Assembly,
) -> None:
    [listener] = assembly.properties("AWS::ElasticLoadBalancingV2::Listener")
    [action] = listener["DefaultActions"]
    weights = {
        group["TargetGroupArn"]["Ref"]: group["Weight"] for group in action["ForwardConfig"]["TargetGroups"]
    }
    groups = {
        logical_id: group["Properties"]["Name"]
        for logical_id, group in assembly.resources("AWS::ElasticLoadBalancingV2::TargetGroup")
    }
    named = {groups[logical_id]: weight for logical_id, weight in weights.items()}
    name = f"peaker-{assembly.environment}-orders"
    assert named == {name: 999, f"{name}-w": 1}


def resolved(value: Any) -> str:
    """The text of a property, with every reference replaced by its logical id."""
    if isinstance(value, str):
        return value
    separator, parts = value["Fn::Join"]
    return str(separator).join(part if isinstance(part, str) else str(part["Ref"]) for part in parts)


def settings_parameter(assembly: Assembly, cluster: str = "orders") -> dict[str, Any]:
    found = assembly.properties("AWS::SSM::Parameter")
    return next(one for one in found if one["Name"].endswith(f"/clusters/{cluster}"))


def test_cluster_settings_are_deployed_with_place_and_target_group(assembly: Assembly) -> None:
    parameter = settings_parameter(assembly)
    assert parameter["Name"] == f"/peaker/{assembly.environment}/clusters/orders"
    settings = json.loads(resolved(parameter["Value"]))
    assert (settings.pop("environment"), settings.pop("region")) == (assembly.environment, "us-east-1")
    endpoint = settings["read_endpoint"]
    assert endpoint.pop("target_group_arn").startswith("ReadEndpointTargets")
    assert endpoint.pop("warming_target_group_arn").startswith("ReadEndpointWarmingTargets")
    assert endpoint.pop("listener_arn").startswith("ReadEndpointLoadBalancerReads")
    [cluster] = load_environment(assembly.environment).clusters
    if cluster.load_metric is None:
        measured = measured_load(cluster, assembly.environment)
        assert settings.pop("load_metric") == measured.model_dump(mode="json")
    assert Cluster.model_validate(settings).model_dump() == cluster.model_dump()


def test_the_shared_stacks_know_no_cluster(assembly: Assembly) -> None:
    """A cluster that comes or goes, and names nothing of the account that no other names, does not change them."""
    for stack in ("State", "ControlPlane", "Observability"):
        assert "orders" not in json.dumps(assembly.templates[stack]), stack


def test_a_clusters_stack_takes_nothing_by_reference(assembly: Assembly) -> None:
    for template in assembly.templates.values():
        assert "Fn::ImportValue" not in json.dumps(template)
        assert not any("Export" in output for output in template.get("Outputs", {}).values())


def test_a_clusters_stack_is_protected_from_deletion_in_every_environment(assembly: Assembly) -> None:
    """CloudFormation deletes what it can of a stack: only protection refuses before anything is gone."""
    manifest = json.loads(
        (assembly.directory / f"assembly-Peaker-{assembly.environment}" / "manifest.json").read_text()
    )
    [properties] = [
        one["properties"]
        for one in manifest["artifacts"].values()
        if one.get("properties", {}).get("stackName") == cluster_stack(assembly.environment, "orders")
    ]
    assert properties["terminationProtection"] is True


def test_one_permission_and_one_role_serve_the_rules_of_all_clusters(assembly: Assembly) -> None:
    """A function's policy holds 20 KB, which the rules of sixty clusters would fill."""
    kinds = {one["Type"] for one in assembly.templates["orders"]["Resources"].values()}
    assert not {"AWS::Lambda::Permission", "AWS::IAM::Role", "AWS::IAM::Policy"} & kinds
    permissions = assembly.properties("AWS::Lambda::Permission")
    of_clusters = {
        str(one["SourceArn"]).rsplit("/", 1)[1] for one in permissions if "*" in str(one["SourceArn"])
    }
    prefix = f"peaker-{assembly.environment}"
    called = ("forecast", "replica-check", "sweep", "scheduled-check")
    assert of_clusters == {f"{prefix}-*-{rule}" for rule in called}
    assert not [one for one in permissions if "SourceAccount" in one]


def test_settings_fit_a_standard_parameter(assembly: Assembly) -> None:
    parameter = settings_parameter(assembly)
    arn_characters = 3 * 120
    assert len(resolved(parameter["Value"])) + arn_characters < 4096
