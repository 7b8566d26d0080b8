"""IAM's SimulatePrincipalPolicy, which moto does not have: what a role may do, by the policies it has.

As on AWS (its API reference): the principal's own policies and its boundary are weighed, policies of resources are not;
resources need not be there; a condition sees what ContextEntries give and nothing of the account, and what it asks for
beyond that is listed as missing. The answer has a result for each action, under no resource's name; what each resource
is decided as stands in its ResourceSpecificResults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult
from moto.iam.exceptions import NotFoundException, ValidationError
from moto.iam.responses import IamResponse

from localcloud.iam import reference
from localcloud.iam.account import Account
from localcloud.iam.context import session_keys
from localcloud.iam.decision import Caller, Policies, decide

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

_MOST_RESTRICTIVE_FIRST = ("explicitDeny", "implicitDeny", "allowed")
# Beyond these the answer would not be AWS's.
_UNDERSTOOD = frozenset({"PolicySourceArn", "ActionNames", "ResourceArns", "ContextEntries"})


class _GivenContext:
    """The condition keys of a simulation; what was asked for and not given stays in `missing`."""

    def __init__(self, given: Mapping[str, Sequence[str]], always: Mapping[str, Sequence[str]]) -> None:
        self._given = given
        self._always = always
        self.missing: list[str] = []

    def values(self, key: str) -> Sequence[str] | None:
        """None for a key that nobody gave."""
        found = self._given.get(key.lower(), self._always.get(key.lower()))
        if found is None and key not in self.missing:
            self.missing.append(key)
        return found


def install(cloud: OpenCloud) -> None:
    """Answer for roles and users of the account."""

    def simulate_principal_policy(self: Any) -> ActionResult:
        asked = {name: self._get_param(name) for name in _members(cloud)}
        beyond = sorted(name for name, value in asked.items() if value and name not in _UNDERSTOOD)
        if beyond:
            raise ValidationError(f"the local cloud does not simulate with {', '.join(beyond)}")
        principal = str(asked["PolicySourceArn"])
        _refuse_unknown(cloud.access.account, principal)
        entries = asked["ContextEntries"] or []
        given = {str(one["ContextKeyName"]).lower(): tuple(one["ContextKeyValues"] or ()) for one in entries}
        always = _always(cloud, principal)
        results = [
            _of_action(
                action,
                [
                    _result(cloud.access.account, principal, action, resource, _GivenContext(given, always))
                    for resource in asked["ResourceArns"] or ["*"]
                ],
            )
            for action in asked["ActionNames"]
        ]
        return ActionResult({"EvaluationResults": results, "IsTruncated": False})

    cloud.add_action(IamResponse, "simulate_principal_policy", simulate_principal_policy)


def _members(cloud: OpenCloud) -> Iterator[str]:
    model = cloud.client("iam").meta.service_model.operation_model("SimulatePrincipalPolicy")
    yield from model.input_shape.members


def _refuse_unknown(account: Account, principal: str) -> None:
    """Groups are simulated on AWS and not here."""
    if account.role(principal) is None and not any(account.identity_policies(principal)):
        raise NotFoundException(f"{principal} cannot be found.")


def _always(cloud: OpenCloud, principal: str) -> Mapping[str, Sequence[str]]:
    """Those of the caller and its account that the simulator sets itself."""
    account = cloud.access.account
    keys = session_keys(Caller(account.account_id, principal, principal), cloud.clock.now(), account.region)
    return {name: keys[name] for name in ("aws:principalarn", "aws:principalaccount", "aws:principaltype")}


def _result(
    account: Account, principal: str, action: str, resource: str, context: _GivenContext
) -> dict[str, Any]:
    if action not in reference.actions():
        raise ValidationError(f"the local cloud does not know the action {action}")
    policies = Policies(tuple(account.identity_policies(principal)), account.boundary(principal))
    caller = Caller(account.account_id, principal, principal)
    decision = decide(caller, policies, action, resource, context)
    denied = "explicitDeny" if "explicit deny" in decision.reason else "implicitDeny"
    return {
        "EvalResourceName": resource,
        "EvalResourceDecision": "allowed" if decision.allowed else denied,
        "MissingContextValues": context.missing,
    }


def _of_action(action: str, decided: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The most restrictive decision of all resources; the name is a template of their ARNs, or `*`."""
    decisions = {str(one["EvalResourceDecision"]) for one in decided}
    named = [str(one["EvalResourceName"]) for one in decided]
    service = named[0].split(":")[2] if named != ["*"] else ""
    return {
        "EvalActionName": action,
        "EvalResourceName": f"arn:${{Partition}}:{service}:${{Region}}:${{Account}}:*" if service else "*",
        "EvalDecision": next(one for one in _MOST_RESTRICTIVE_FIRST if one in decisions),
        "MissingContextValues": sorted({key for one in decided for key in one["MissingContextValues"]}),
        "ResourceSpecificResults": [] if named == ["*"] else list(decided),
    }
