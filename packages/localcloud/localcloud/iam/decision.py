"""Whether a call is allowed: the caller's policies and the resource's, as AWS weighs them in one account.

"Policy evaluation logic" in the IAM User Guide: an explicit deny wins; a boundary and a session policy must allow
too; then either the caller's own policies or the resource's must allow. A KMS key and a role's trust are stricter:
their own policy must speak first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from localcloud.iam.policy import Context, PolicyDocument, Principal

Effect = Literal["allow", "deny", "none"]


@dataclass(frozen=True)
class Caller:
    """Who calls: an IAM role's session or user, an AWS service, or nobody known.

    `arn` is the caller's own (arn:aws:sts::...:assumed-role/role/session), `identity` its role's or user's.
    """

    account: str
    arn: str
    identity: str = ""
    service: str = ""

    def is_named(self, kind: str, name: str) -> bool:
        if kind == "AWS":
            if name == "*":
                return True
            return bool(self.identity) and (
                name in (self.arn, self.identity, self.account) or self.is_of_account(name)
            )
        return kind == "Service" and bool(self.service) and name == self.service

    def is_of_account(self, name: str) -> bool:
        """Whether the name is the caller's whole account, which leaves the choice to the caller's own policies."""
        return bool(self.identity) and (name == self.account or name.endswith(f"::{self.account}:root"))


@dataclass(frozen=True)
class Policies:
    """What bears on one call. `identity` is empty for a service; None in the others means that there is none."""

    identity: Sequence[PolicyDocument] = ()
    boundary: PolicyDocument | None = None
    session: PolicyDocument | None = None
    resource: PolicyDocument | None = None
    # The resource's own policy decides alone, or hands over to the account's (KMS keys, trust of roles).
    resource_speaks_first: bool = False


@dataclass(frozen=True)
class Decision:
    """`reason` is AWS's own end of the sentence: "because no identity-based policy allows the X action"."""

    allowed: bool
    reason: str = field(default="")


def decide(caller: Caller, policies: Policies, action: str, resource: str, context: Context) -> Decision:
    """Raises PolicyNotUnderstood when a policy asks what the local cloud does not know."""
    given = {
        "an identity-based policy": _effect(policies.identity, action, resource, context),
        "a permissions boundary": _effect(_one(policies.boundary), action, resource, context),
        "a session policy": _effect(_one(policies.session), action, resource, context),
        "a resource-based policy": _effect(_one(policies.resource), action, resource, context, caller),
    }
    for kind, effect in given.items():
        if effect == "deny":
            return Decision(False, f"with an explicit deny in {kind}")
    own, by_resource = (
        given["an identity-based policy"] == "allow",
        _grant(caller, policies, action, resource, context),
    )
    for kind, present in (
        ("a permissions boundary", policies.boundary),
        ("a session policy", policies.session),
    ):
        if present is not None and given[kind] != "allow":
            return Decision(False, f"because no {kind.removeprefix('a ')} allows the {action} action")
    if policies.resource_speaks_first:
        if by_resource == "direct" or (by_resource == "account" and own):
            return Decision(True)
        kind = "identity-based" if by_resource == "account" else "resource-based"
        return Decision(False, f"because no {kind} policy allows the {action} action")
    if own or by_resource == "direct":
        return Decision(True)
    kind = "identity-based" if caller.identity else "resource-based"
    return Decision(False, f"because no {kind} policy allows the {action} action")


def _one(document: PolicyDocument | None) -> Sequence[PolicyDocument]:
    return () if document is None else (document,)


def _effect(
    documents: Iterable[PolicyDocument],
    action: str,
    resource: str,
    context: Context,
    principal: Principal | None = None,
) -> Effect:
    effect: Effect = "none"
    for document in documents:
        for statement in document.statements:
            if effect == "allow" and statement.allows:
                continue  # one more allow changes nothing, only a deny does
            if principal is not None and not statement.names(principal):
                continue
            if statement.matches(action, resource, context):
                if not statement.allows:
                    return "deny"
                effect = "allow"
    return effect


def _grant(
    caller: Caller, policies: Policies, action: str, resource: str, context: Context
) -> Literal["direct", "account", "none"]:
    """What the resource's policy grants: to the caller, only to its account, or nothing."""
    found: Literal["account", "none"] = "none"
    for document in _one(policies.resource):
        for statement in document.statements:
            if not statement.allows or not statement.names(caller):
                continue
            if not statement.matches(action, resource, context):
                continue
            named = [name for kind, name in statement.principals or () if caller.is_named(kind, name)]
            if not named or any(not caller.is_of_account(name) for name in named):
                return "direct"
            found = "account"
    return found
