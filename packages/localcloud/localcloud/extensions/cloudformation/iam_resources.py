"""Roles and policies."""

from __future__ import annotations

import json

from localcloud.extensions.cloudformation.resource_type import (
    Made,
    Request,
    ResourceType,
    gone,
    named,
    tag_list,
)


def _create_role(request: Request) -> Made:
    name, client = request.name("RoleName"), request.client("iam")
    boundary = request.properties.get("PermissionsBoundary")
    role = client.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps(request.properties["AssumeRolePolicyDocument"]),
        **({"PermissionsBoundary": boundary} if boundary else {}),
        Path=request.properties.get("Path", "/"),
        Description=request.properties.get("Description", ""),
        Tags=tag_list(request) or [],
    )["Role"]
    _put_role_policies(request, name)
    return Made(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})


def _put_role_policies(request: Request, name: str) -> None:
    client = request.client("iam")
    for policy in request.properties.get("Policies", []):
        document = json.dumps(policy["PolicyDocument"])
        client.put_role_policy(RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)
    for arn in request.properties.get("ManagedPolicyArns", []):
        client.attach_role_policy(RoleName=name, PolicyArn=arn)


def _update_role(request: Request, made: Made) -> Made:
    document = json.dumps(request.properties["AssumeRolePolicyDocument"])
    client, boundary = request.client("iam"), request.properties.get("PermissionsBoundary")
    client.update_assume_role_policy(RoleName=made.physical_id, PolicyDocument=document)
    if boundary:
        client.put_role_permissions_boundary(RoleName=made.physical_id, PermissionsBoundary=boundary)
    else:
        client.delete_role_permissions_boundary(RoleName=made.physical_id)
    _put_role_policies(request, made.physical_id)
    return made


@gone("NoSuchEntity")
def _delete_role(request: Request, made: Made) -> None:
    client, name = request.client("iam"), made.physical_id
    for policy in client.list_role_policies(RoleName=name)["PolicyNames"]:
        client.delete_role_policy(RoleName=name, PolicyName=policy)
    for attached in client.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        client.detach_role_policy(RoleName=name, PolicyArn=attached["PolicyArn"])
    client.delete_role(RoleName=name)


def _put_policy(request: Request, name: str) -> Made:
    document = json.dumps(request.properties["PolicyDocument"])
    for role in request.properties.get("Roles", []):
        request.client("iam").put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=document)
    return Made(name, {"roles": list(request.properties.get("Roles", []))})


@gone("NoSuchEntity")
def _delete_policy(request: Request, made: Made) -> None:
    for role in made.attributes["roles"]:
        request.client("iam").delete_role_policy(RoleName=role, PolicyName=made.physical_id)


def _create_managed_policy(request: Request) -> Made:
    document = json.dumps(request.properties["PolicyDocument"])
    name = request.name("ManagedPolicyName")
    arn = request.client("iam").create_policy(PolicyName=name, PolicyDocument=document)["Policy"]["Arn"]
    for role in request.properties.get("Roles", []):
        request.client("iam").attach_role_policy(RoleName=role, PolicyArn=arn)
    return Made(arn, {"roles": list(request.properties.get("Roles", []))})


def _update_managed_policy(request: Request, made: Made) -> Made:
    """As a new version; of the old ones, which are five at most, none is kept."""
    client, arn = request.client("iam"), made.physical_id
    versions = client.list_policy_versions(PolicyArn=arn)["Versions"]
    document = json.dumps(request.properties["PolicyDocument"])
    client.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
    for version in versions:
        client.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
    return made


@gone("NoSuchEntity")
def _delete_managed_policy(request: Request, made: Made) -> None:
    client = request.client("iam")
    for role in made.attributes["roles"]:
        client.detach_role_policy(RoleName=role, PolicyArn=made.physical_id)
    client.delete_policy(PolicyArn=made.physical_id)


TYPES: dict[str, ResourceType] = {
    "AWS::IAM::ManagedPolicy": ResourceType(
        _create_managed_policy,
        _delete_managed_policy,
        _update_managed_policy,
        ("ManagedPolicyName", "Description", "Path"),
    ),
    "AWS::IAM::Policy": ResourceType(delete=_delete_policy, **named(_put_policy, "PolicyName")),
    "AWS::IAM::Role": ResourceType(_create_role, _delete_role, _update_role, ("RoleName", "Path")),
}
