"""peaker doctor on the rights of a direct fill: only where the setting is on, and by what IAM decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Volume
from peaker_cli.doctor.direct_fill import FillRights, look_at_fill_rights
from peaker_cli.doctor.finding import Area, Finding, NotTold

from tests.support.builders import BASE, data_volumes_of, orders

ROLE = "arn:aws:iam::123456789012:role/mysql-hosts"
KEY, OTHER_KEY = (f"arn:aws:kms:us-east-1:123456789012:key/{name}" for name in ("ab", "cd"))
BLOCKS = {"ebs:ListSnapshotBlocks": "allowed", "ebs:GetSnapshotBlock": "allowed"}
UNDER_KEY = {str(one.name): replace(one, kms_key_id=KEY) for one in data_volumes_of(BASE)}
ON = {"prewarm": {"direct_fill": True}}


def looked(
    rights: FillRights | Unknown | None, like: dict[str, Volume] | None = None, **settings: Any
) -> list[Finding]:
    given = orders(**{**ON, **settings})
    return list(look_at_fill_rights(Area("account"), given, rights, UNDER_KEY if like is None else like))


def test_where_no_run_may_fill_nothing_is_said() -> None:
    assert looked(None, prewarm={"direct_fill": False}) == []


def test_a_role_with_both_rights_and_no_key_to_use_passes() -> None:
    [line] = looked(FillRights(ROLE, BLOCKS, {}))
    assert (line.check, line.verdict.value) == ("direct fill", "pass")
    assert line.detail == f"{ROLE} may use ebs:ListSnapshotBlocks, ebs:GetSnapshotBlock, by its own policies"


def test_a_role_that_may_use_the_keys_of_the_settings_passes() -> None:
    [line] = looked(FillRights(ROLE, BLOCKS, {KEY: "allowed"}), kms_key_arns=[KEY])
    assert (line.verdict.value, "kms:Decrypt with 1 keys" in line.detail) == ("pass", True)


@pytest.mark.parametrize("said", ["implicitDeny", "explicitDeny"])
@pytest.mark.parametrize("action", sorted(BLOCKS))
def test_a_right_on_blocks_that_is_missing_is_refused_by_its_name(action: str, said: str) -> None:
    [line] = looked(FillRights(ROLE, {**BLOCKS, action: said}, {}))
    assert (line.verdict.value, line.numbers) == ("refuse", {"denied": [action]})
    assert f"{action} of snapshots that Peaker owns ({said})" in line.detail
    assert "takes the next method" in line.detail
    assert "python -m stacks.people_statements local host" in line.remedy
    assert "--role-name mysql-hosts" in line.remedy


def test_an_action_that_iam_did_not_decide_is_not_allowed() -> None:
    [line] = looked(FillRights(ROLE, {}, {}))
    assert line.numbers["denied"] == list(BLOCKS)


def test_the_key_of_a_data_volume_that_the_role_may_not_use_is_refused() -> None:
    [line] = looked(FillRights(ROLE, BLOCKS, {KEY: "implicitDeny"}), kms_key_arns=[KEY])
    assert (line.verdict.value, line.numbers) == ("refuse", {"denied": [KEY]})
    assert f"kms:Decrypt with {KEY} (implicitDeny)" in line.detail


def test_a_key_that_no_data_volume_is_under_only_warns() -> None:
    rights = FillRights(ROLE, BLOCKS, {KEY: "allowed", OTHER_KEY: "implicitDeny"})
    [line] = looked(rights, kms_key_arns=[KEY, OTHER_KEY])
    assert (line.verdict.value, line.numbers) == ("warn", {"denied": [OTHER_KEY]})
    assert "no data volume that was seen is under it" in line.detail
    assert "people_statements" in line.remedy


def test_replicas_without_a_role_can_fill_nothing() -> None:
    [line] = looked(None)
    assert (line.verdict.value, "no role" in line.detail) == ("refuse", True)
    assert "instance_profile" in line.remedy


def test_what_iam_does_not_tell_is_unknown_with_the_permission() -> None:
    [line] = looked(NotTold("refused", "iam:SimulatePrincipalPolicy"))
    assert line.verdict.value == "unknown"
    assert "iam:SimulatePrincipalPolicy" in line.remedy
