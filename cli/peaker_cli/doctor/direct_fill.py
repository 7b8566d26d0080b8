"""Whether the replicas' role may read the blocks of Peaker's snapshots, where `prewarm.direct_fill` is on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Volume

from peaker_cli.doctor.finding import Area, Finding
from peaker_contract.cluster import ClusterSettings
from peaker_contract.tags import OWNER_TAG

CHECK = "direct fill"
READ_BLOCKS = ("ebs:ListSnapshotBlocks", "ebs:GetSnapshotBlock")
DECRYPT = "kms:Decrypt"
ALLOWED = "allowed"
# IAM simulates resources that are not there; a run's snapshots are made when it runs.
_ANY_SNAPSHOT = "snap-0123456789abcdef0"
_REMEDY = (
    "give the replicas' role the permission set `host` again: python -m stacks.people_statements {environment} host "
    "> host.json; aws iam put-role-policy --role-name {role} --policy-name peaker-{environment}-host "
    "--policy-document file://host.json"
)


@dataclass(frozen=True)
class FillRights:
    """IAM's decisions (`allowed`, `implicitDeny`, `explicitDeny`) about a role: of each action on a snapshot that
    Peaker owns, and of kms:Decrypt by the key's ARN."""

    role_arn: str
    on_snapshots: Mapping[str, str]
    on_keys: Mapping[str, str]


def simulated_fill_rights(
    client: Callable[[str], Any], settings: ClusterSettings, role_arn: str
) -> FillRights:
    """What IAM's simulator says of the role's policies and its boundary; it does not look at a key's own policy."""
    simulator = client("iam").get_paginator("simulate_principal_policy")
    partition = role_arn.split(":")[1]
    owner = {
        "ContextKeyName": f"aws:ResourceTag/{OWNER_TAG}",
        "ContextKeyValues": [settings.environment],
        "ContextKeyType": "string",
    }
    blocks = simulator.paginate(
        PolicySourceArn=role_arn,
        ActionNames=list(READ_BLOCKS),
        ResourceArns=[f"arn:{partition}:ec2:{settings.region}::snapshot/{_ANY_SNAPSHOT}"],
        ContextEntries=[owner],
    )
    keys = (
        simulator.paginate(
            PolicySourceArn=role_arn, ActionNames=[DECRYPT], ResourceArns=list(settings.kms_key_arns)
        )
        if settings.kms_key_arns
        else []
    )
    # A result is of an action; its own name is no resource's, and those that were asked of are within.
    return FillRights(
        role_arn,
        {str(one["EvalActionName"]): str(one["EvalDecision"]) for one in _results(blocks)},
        {
            str(each["EvalResourceName"]): str(each["EvalResourceDecision"])
            for one in _results(keys)
            for each in one.get("ResourceSpecificResults", ())
        },
    )


def _results(pages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for page in pages for one in page["EvaluationResults"]]


def look_at_fill_rights(
    area: Area, settings: ClusterSettings, rights: FillRights | Unknown | None, like: Mapping[str, Volume]
) -> Iterable[Finding]:
    """One line where the setting is on; `rights` is None where no role is known. `like` are a base replica's data
    volumes: a key that none of them is under keeps no fill from its blocks today."""
    if not settings.prewarm.direct_fill:
        return
    if isinstance(rights, Unknown):
        yield area.unknown(CHECK, rights)
        return
    if rights is None:
        yield area.refuses(
            CHECK,
            "prewarm.direct_fill is true, and the replicas have no role to read blocks of snapshots with",
            "set instance_profile to one with the permission set `host`, and deploy; or set prewarm.direct_fill: false",
        )
        return
    yield _judged(area, settings, rights, like)


def _judged(area: Area, settings: ClusterSettings, rights: FillRights, like: Mapping[str, Volume]) -> Finding:
    remedy = _REMEDY.format(environment=settings.environment, role=rights.role_arn.rsplit("/", 1)[-1])
    denied = {name: said for name in READ_BLOCKS if (said := _said(rights.on_snapshots, name)) != ALLOWED}
    keys = {arn: said for arn in settings.kms_key_arns if (said := _said(rights.on_keys, arn)) != ALLOWED}
    used = sorted(arn for arn in keys if any(one.kms_key_id == arn for one in like.values()))
    told = [f"{name} of snapshots that Peaker owns ({said})" for name, said in denied.items()]
    told += [f"{DECRYPT} with {arn} ({said})" for arn, said in keys.items()]
    detail = f"{rights.role_arn} may not use {', '.join(told)}"
    if denied or used:
        lost = "a run that fills is refused its blocks and takes the next method of its plan, that much later"
        return area.refuses(CHECK, f"{detail}: {lost}", remedy, denied=[*denied, *keys])
    if keys:
        return area.warns(
            CHECK, f"{detail}; no data volume that was seen is under it", remedy, denied=list(keys)
        )
    with_keys = f" and {DECRYPT} with {len(settings.kms_key_arns)} keys" if settings.kms_key_arns else ""
    return area.passes(
        CHECK, f"{rights.role_arn} may use {', '.join(READ_BLOCKS)}{with_keys}, by its own policies"
    )


def _said(decisions: Mapping[str, str], name: str) -> str:
    """IAM answers for all that it is asked; what it left out is not allowed."""
    return decisions.get(name, "no decision")
