"""Access control of one local cloud: every call of everyone is looked at, and refused as AWS refuses."""

from __future__ import annotations

import base64
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from localcloud.iam import reference
from localcloud.iam.account import Account
from localcloud.iam.context import CallContext, service_keys, session_keys
from localcloud.iam.decision import Decision, Policies, decide
from localcloud.iam.identities import Identities, Identity
from localcloud.iam.need import Need, NeedNotKnown, Params
from localcloud.iam.policy import PolicyNotUnderstood, parse
from localcloud.iam.service_needs import IAM_PREFIX, NEEDS

log = logging.getLogger(__name__)

# Anybody may ask who they are, whatever policies say (its API reference).
ALWAYS_ALLOWED = {"sts:GetCallerIdentity"}


class Refused(Exception):
    """A call is not authorized. `message` is AWS's sentence, `need` what was missing."""

    def __init__(self, identity: Identity, need: Need, reason: str) -> None:
        self.need = need
        self.message = (
            f"User: {identity.caller.arn} is not authorized to perform: {need.action} "
            f"on resource: {need.resource} {reason}"
        )
        super().__init__(self.message)


class Access:
    """Decides for one account. Safe to use from many threads: it holds no state but sessions."""

    def __init__(self, account: Account, now: Callable[[], datetime]) -> None:
        self.account = account
        self.identities = Identities(account)
        self._now = now

    def check_request(
        self, identity: Identity, service: str, operation: str, params: Params, source_ip: str = ""
    ) -> tuple[Refused, ...]:
        """Whether this API call may go on. Raises Refused; returns what is refused after the answer."""
        later: list[Refused] = []
        if identity.is_administrator or f"{service}:{operation}" in ALWAYS_ALLOWED:
            return ()
        keys = session_keys(
            identity.caller,
            self._now(),
            self.account.region,
            source_ip=source_ip,
            principal_tags=self.account.principal_tags(identity.caller.identity),
        )
        action = f"{IAM_PREFIX.get(service, service)}:{operation}"
        try:
            for need in self.needs(service, operation, params):
                try:
                    self._check(identity, need, keys)
                except Refused as refused:
                    if not need.asynchronous:
                        raise
                    later.append(refused)
        except (NeedNotKnown, PolicyNotUnderstood) as error:
            log.error("%s by %s refused: %s", action, identity.caller.arn, error)
            raise Refused(identity, Need(action), f"because {error}") from error
        return tuple(later)

    def check_service(self, name: str, source_arn: str, need: Need) -> None:
        """Whether an AWS service may do this for one of the account's resources. Raises Refused."""
        identity = self.identities.service(name)
        keys = service_keys(identity.caller, self._now(), self.account.region, source_arn, need.action)
        self._checked(identity, need, keys)

    def check_role(self, role_arn: str, session_name: str, service: str, need: Need) -> None:
        """Whether a service that acts as this role may do this. Raises Refused and CannotAssume."""
        identity = self.identities.role_session(role_arn, session_name, service, self._now())
        self._checked(identity, need, session_keys(identity.caller, self._now(), self.account.region))

    def check_granted(self, role_arn: str, session_name: str, service: str, need: Need) -> None:
        """The same where a grant of a KMS key lets the role: then its boundary and every denial still count.

        Raises Refused and CannotAssume.
        """
        identity = self.identities.role_session(role_arn, session_name, service, self._now())
        grant = {
            "Effect": "Allow",
            "Principal": {"AWS": identity.caller.identity},
            "Action": need.action,
            "Resource": "*",
        }
        policies = replace(
            self.account.policies(identity.caller, need.resource, identity.session_policy),
            resource=parse(json.dumps({"Version": "2012-10-17", "Statement": [grant]})),
        )
        keys = session_keys(identity.caller, self._now(), self.account.region)
        decision = decide(identity.caller, policies, need.action, need.resource, CallContext(need, keys))
        if not decision.allowed:
            raise Refused(identity, need, decision.reason)

    def needs(self, service: str, operation: str, params: Params) -> Iterable[Need]:
        """What the call needs. Raises NeedNotKnown."""
        action = f"{IAM_PREFIX.get(service, service)}:{operation}"
        known = NEEDS.get(f"{service}:{operation}")
        if known is not None:
            return known(params, self.account)
        if action not in reference.actions() or reference.has_resources(action):
            raise NeedNotKnown(action)
        return [Need(action)]

    def _checked(self, identity: Identity, need: Need, keys: Mapping[str, Sequence[str]]) -> None:
        try:
            self._check(identity, need, keys)
        except (NeedNotKnown, PolicyNotUnderstood) as error:
            log.error("%s by %s refused: %s", need.action, identity.caller.arn, error)
            raise Refused(identity, need, f"because {error}") from error

    def _check(self, identity: Identity, need: Need, keys: Mapping[str, Sequence[str]]) -> None:
        decision = self._decide(identity, need, keys)
        if not decision.allowed:
            raise Refused(identity, need, decision.reason)

    def _decide(self, identity: Identity, need: Need, keys: Mapping[str, Sequence[str]]) -> Decision:
        if need.action not in reference.actions():
            raise NeedNotKnown(need.action, "it is not in service_reference.json")
        context = CallContext(need, keys)
        caller = identity.caller
        if need.action == "sts:AssumeRole":
            policies = Policies(
                identity=tuple(self.account.identity_policies(caller.identity)),
                session=identity.session_policy,
                resource=self.account.trusts(need.resource),
                resource_speaks_first=True,
            )
        else:
            policies = self.account.policies(caller, need.resource, identity.session_policy)
        return decide(caller, policies, need.action, need.resource, context)


def ec2_message(message: str) -> str:
    """EC2 adds an encoded text, which sts:DecodeAuthorizationMessage would read; here it encodes the same message."""
    encoded = base64.urlsafe_b64encode(f"{uuid.uuid4()} {message}".encode()).decode()
    refusal = f"You are not authorized to perform this operation. {message}."
    return f"{refusal} Encoded authorization failure message: {encoded}"


def error_of(service: str, protocol: str, error: Refused) -> tuple[str, str]:
    """(code, message) as the service says it."""
    if service == "ec2":
        return "UnauthorizedOperation", ec2_message(error.message)
    if service == "sns":
        return "AuthorizationError", error.message
    if service in ("sqs", "s3") or protocol in ("query", "rest-xml"):
        return "AccessDenied", error.message
    return "AccessDeniedException", error.message
