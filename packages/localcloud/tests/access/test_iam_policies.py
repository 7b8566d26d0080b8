"""Policies: what a statement matches, which conditions hold, and how caller's and resource's policies are weighed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from localcloud.iam.decision import Caller, Policies, decide
from localcloud.iam.policy import PolicyNotUnderstood, parse

ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/worker"
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/worker/one"
CALLER = Caller(ACCOUNT, SESSION, ROLE)
VOLUME = f"arn:aws:ec2:us-east-1:{ACCOUNT}:volume/vol-1"


class Keys:
    """A context of exactly these keys."""

    def __init__(self, keys: Mapping[str, Sequence[str]]) -> None:
        self._keys = {key.lower(): value for key, value in keys.items()}

    def values(self, key: str) -> Sequence[str] | None:
        return self._keys.get(key.lower())


def document(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(action: Any = "ec2:DeleteVolume", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(action: Any = "ec2:DeleteVolume", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {**allow(action, resource, **more), "Effect": "Deny"}


def allowed(
    *statements: Mapping[str, Any],
    action: str = "ec2:DeleteVolume",
    resource: str = VOLUME,
    **keys: Sequence[str],
) -> bool:
    policies = Policies(identity=(parse(document(*statements)),))
    context = Keys({key.replace("__", ":").replace("_S_", "/"): value for key, value in keys.items()})
    return decide(CALLER, policies, action, resource, context).allowed


def condition(operator: str, key: str, wanted: Any, keys: Mapping[str, Sequence[str]]) -> bool:
    policies = Policies(identity=(parse(document(allow(Condition={operator: {key: wanted}}))),))
    return decide(CALLER, policies, "ec2:DeleteVolume", VOLUME, Keys(keys)).allowed


# -- actions and resources ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (allow("ec2:DeleteVolume"), True),
        (allow("EC2:deletevolume"), True),
        (allow("ec2:Delete*"), True),
        (allow("ec2:DeleteVolum"), False),
        (allow(["ec2:A", "ec2:DeleteVolume"]), True),
        (allow(resource=VOLUME), True),
        (allow(resource=VOLUME.replace("vol-1", "vol-?")), True),
        (allow(resource=VOLUME.replace("vol-1", "vol-2")), False),
        (allow(resource=VOLUME.upper()), False),
        ({"Effect": "Allow", "NotAction": "ec2:*", "Resource": "*"}, False),
        ({"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"}, True),
        ({"Effect": "Allow", "Action": "*", "NotResource": VOLUME}, False),
    ],
)
def test_a_statement_matches_actions_in_any_case_and_resources_as_written(
    statement: dict[str, Any], expected: bool
) -> None:
    assert allowed(statement) is expected


def test_a_deny_whose_condition_does_not_hold_denies_nothing() -> None:
    insecure = deny("*", Condition={"Bool": {"aws:SecureTransport": "false"}})
    assert allowed(allow(), insecure, aws__SecureTransport=["true"])
    assert not allowed(allow(), insecure, aws__SecureTransport=["false"])


# -- conditions -----------------------------------------------------------------------------------------------

TAG = "aws:ResourceTag/peaker:owner"


@pytest.mark.parametrize(
    ("operator", "wanted", "found", "expected"),
    [
        ("StringEquals", "prod", ["prod"], True),
        ("StringEquals", ["dev", "prod"], ["prod"], True),
        ("StringEquals", "prod", ["Prod"], False),
        ("StringEquals", "prod", None, False),
        ("StringEqualsIfExists", "prod", None, True),
        ("StringEqualsIfExists", "prod", ["dev"], False),
        ("StringNotEquals", "prod", ["dev"], True),
        ("StringNotEquals", "prod", None, True),
        ("StringNotEquals", ["dev", "prod"], ["prod"], False),
        ("StringLike", "pr*", ["prod"], True),
        ("StringNotLike", "pr*", ["prod"], False),
        ("Null", "true", None, True),
        ("Null", "true", ["x"], False),
        ("Null", "false", None, False),
        ("Bool", "true", ["true"], True),
        (
            "ArnLike",
            "arn:aws:events:*:123456789012:rule/*",
            ["arn:aws:events:us-east-1:123456789012:rule/a"],
            True,
        ),
        ("ArnLike", "arn:aws:events:*:rule/*", ["arn:aws:events:us-east-1:123456789012:rule/a"], False),
        ("ArnEquals", "arn:aws:sns:us-east-1:1:a*", ["arn:aws:sns:us-east-1:1:abc"], True),
    ],
)
def test_a_condition_on_one_value(
    operator: str, wanted: Any, found: list[str] | None, expected: bool
) -> None:
    assert condition(operator, TAG, wanted, {} if found is None else {TAG: found}) is expected


@pytest.mark.parametrize(
    ("operator", "found", "expected"),
    [
        ("ForAllValues:StringEquals", ["a", "b"], True),
        ("ForAllValues:StringEquals", ["a", "c"], False),
        ("ForAllValues:StringEquals", None, True),  # the trap: nothing is in every set
        ("ForAnyValue:StringEquals", ["c", "a"], True),
        ("ForAnyValue:StringEquals", ["c"], False),
        ("ForAnyValue:StringEquals", None, False),
        ("ForAnyValue:StringNotEquals", None, False),
    ],
)
def test_a_condition_on_a_set(operator: str, found: list[str] | None, expected: bool) -> None:
    keys = {} if found is None else {"aws:TagKeys": found}
    assert condition(operator, "aws:TagKeys", ["a", "b"], keys) is expected


def test_all_conditions_must_hold() -> None:
    both = {
        "StringEquals": {TAG: "prod", "aws:RequestedRegion": "us-east-1"},
        "Null": {"aws:TokenIssueTime": "true"},
    }
    statement = allow(Condition=both)
    policies = Policies(identity=(parse(document(statement)),))
    full = {TAG: ["prod"], "aws:requestedregion": ["us-east-1"]}
    assert decide(CALLER, policies, "ec2:DeleteVolume", VOLUME, Keys(full)).allowed
    assert not decide(CALLER, policies, "ec2:DeleteVolume", VOLUME, Keys({TAG: ["prod"]})).allowed


def test_a_variable_takes_its_value_from_the_request_and_never_widens() -> None:
    statement = allow("s3:GetObject", "arn:aws:s3:::b/${aws:PrincipalTag/team}/*")
    inside, outside = "arn:aws:s3:::b/red/x", "arn:aws:s3:::b/blue/x"
    policies = Policies(identity=(parse(document(statement)),))
    keys = Keys({"aws:PrincipalTag/team": ["red"]})
    assert decide(CALLER, policies, "s3:GetObject", inside, keys).allowed
    assert not decide(CALLER, policies, "s3:GetObject", outside, keys).allowed
    assert not decide(CALLER, policies, "s3:GetObject", inside, Keys({})).allowed


@pytest.mark.parametrize(
    "statement",
    [
        allow(Condition={"NumericLessThan": {TAG: "1"}}),
        allow(Condition={"ForSomeValues:StringEquals": {TAG: "x"}}),
        {"Effect": "Allow", "Action": "*", "Resource": "*", "Conditions": {}},
        {"Effect": "allow", "Action": "*", "Resource": "*"},
    ],
)
def test_what_is_not_understood_is_no_policy(statement: dict[str, Any]) -> None:
    with pytest.raises(PolicyNotUnderstood):
        parse(document(statement))


# -- whose policies -------------------------------------------------------------------------------------------

TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:t"
CLOUDWATCH = Caller(ACCOUNT, "", service="cloudwatch.amazonaws.com")


def of_resource(principal: Any, effect: str = "Allow", **more: Any) -> Policies:
    statement = {"Effect": effect, "Principal": principal, "Action": "sns:Publish", "Resource": TOPIC, **more}
    return Policies(resource=parse(document(statement)))


@pytest.mark.parametrize(
    ("principal", "caller", "expected"),
    [
        ({"Service": "cloudwatch.amazonaws.com"}, CLOUDWATCH, True),
        ({"Service": "events.amazonaws.com"}, CLOUDWATCH, False),
        ("*", CLOUDWATCH, True),
        ({"AWS": ROLE}, CALLER, True),
        ({"AWS": SESSION}, CALLER, True),
        ({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, CALLER, False),  # leaves it to the caller's own policies
        ({"AWS": ACCOUNT}, CALLER, False),
        ({"AWS": f"arn:aws:iam::{ACCOUNT}:role/other"}, CALLER, False),
    ],
)
def test_a_resource_lets_in_whom_its_policy_names(principal: Any, caller: Caller, expected: bool) -> None:
    assert decide(caller, of_resource(principal), "sns:Publish", TOPIC, Keys({})).allowed is expected


def test_a_service_needs_the_policy_of_the_resource() -> None:
    decision = decide(CLOUDWATCH, Policies(), "sns:Publish", TOPIC, Keys({}))
    assert decision.reason == "because no resource-based policy allows the sns:Publish action"


def test_a_key_opens_only_by_its_own_policy() -> None:
    key = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/1"
    own = (parse(document(allow("kms:Decrypt", key))),)
    to_account = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "kms:*"}
    delegated = parse(document({**to_account, "Resource": "*"}))
    closed = parse(document({**to_account, "Resource": "*", "Principal": {"AWS": f"{ROLE}-other"}}))
    speaks_first = {"resource_speaks_first": True}
    assert decide(
        CALLER, Policies(own, resource=delegated, **speaks_first), "kms:Decrypt", key, Keys({})
    ).allowed
    assert not decide(
        CALLER, Policies(own, resource=closed, **speaks_first), "kms:Decrypt", key, Keys({})
    ).allowed
    assert not decide(
        CALLER, Policies((), resource=delegated, **speaks_first), "kms:Decrypt", key, Keys({})
    ).allowed


@pytest.mark.parametrize("which", ["boundary", "session"])
def test_a_boundary_and_a_session_policy_take_away(which: str) -> None:
    narrow = parse(document(allow("s3:*")))
    policies = Policies(identity=(parse(document(allow("*"))),), **{which: narrow})  # type: ignore[arg-type]
    assert decide(CALLER, policies, "s3:GetObject", "arn:aws:s3:::b/k", Keys({})).allowed
    assert not decide(CALLER, policies, "ec2:DeleteVolume", VOLUME, Keys({})).allowed
