"""Who calls: from the access key of a request, or as the service that acts for one of the account's resources."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localcloud.iam.account import Account
from localcloud.iam.context import CallContext, session_keys
from localcloud.iam.decision import Caller, Policies, decide
from localcloud.iam.need import Need
from localcloud.iam.policy import PolicyDocument, parse

ADMINISTRATOR_KEY = "local"
SESSION_SECONDS = 12 * 3600


class NotAuthenticated(Exception):
    """The request's credentials are nobody's: the message says what there is."""


class CannotAssume(Exception):
    """A role does not trust the service that was to act as it, or is not there."""


@dataclass(frozen=True)
class Credentials:
    """An access key; those of a role's session have a token."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None


@dataclass(frozen=True)
class Identity:
    """A caller with its session policy. The administrator may do everything, as the account's root user."""

    caller: Caller
    session_policy: PolicyDocument | None = None
    is_administrator: bool = False


class Identities:
    """The access keys of one account, and the sessions of roles that services act as."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._sessions: dict[tuple[str, str], Credentials] = {}
        self._known: dict[str, Identity] = {}
        self._lock = threading.Lock()

    @property
    def administrator(self) -> Identity:
        root = f"arn:aws:iam::{self._account.account_id}:root"
        return Identity(Caller(self._account.account_id, root, root), is_administrator=True)

    def by_key(self, access_key_id: str, session_token: str | None) -> Identity:
        """Raises NotAuthenticated for a key that nobody here has, and for another session's token."""
        if access_key_id == ADMINISTRATOR_KEY:
            return self.administrator
        known = self._known.get(access_key_id)
        session = self._assumed(access_key_id)
        if session is not None:
            if session.session_token != session_token:
                raise NotAuthenticated("The security token included in the request is invalid.")
            if known is None:
                policy = parse(session.policy) if session.policy else None
                known = Identity(self._of_session(session.role_arn, session.session_name), policy)
                self._known[access_key_id] = known
            return known
        user = self._user(access_key_id)
        if user is not None:
            return Identity(Caller(self._account.account_id, user, user))
        raise NotAuthenticated(
            f"The security token included in the request is invalid: the local cloud knows no access key "
            f"{access_key_id[:12]}. Use {ADMINISTRATOR_KEY}/{ADMINISTRATOR_KEY}, or the key of a role or user."
        )

    def service(self, name: str) -> Identity:
        """An AWS service, e.g. events.amazonaws.com."""
        return Identity(Caller(self._account.account_id, f"arn:aws:iam::aws:service/{name}", service=name))

    def credentials(self, role_arn: str, session_name: str, service: str, now: datetime) -> Credentials:
        """A session of the role for a service that acts as it, made once. Raises CannotAssume."""
        self.check_trust(role_arn, service, now)
        with self._lock:
            known = self._sessions.get((role_arn, session_name))
            if known is None:
                made = self._sts.assume_role(
                    self._account.region, session_name, role_arn, None, SESSION_SECONDS, None
                )
                known = Credentials(made.access_key_id, made.secret_access_key, made.session_token)
                self._sessions[role_arn, session_name] = known
        return known

    def role_session(self, role_arn: str, session_name: str, service: str, now: datetime) -> Identity:
        """As `credentials`, for a call that goes by no key."""
        self.check_trust(role_arn, service, now)
        return Identity(self._of_session(role_arn, session_name))

    def check_trust(self, role_arn: str, service: str, now: datetime) -> None:
        """Raises CannotAssume when the role is not there or its trust policy does not name the service."""
        trust = self._account.trusts(role_arn)
        if trust is None:
            raise CannotAssume(f"The role {role_arn} does not exist.")
        caller = self.service(service).caller
        context = CallContext(
            Need("sts:AssumeRole", role_arn, "role"), session_keys(caller, now, self._account.region)
        )
        policies = Policies(resource=trust, resource_speaks_first=True)
        if not decide(caller, policies, "sts:AssumeRole", role_arn, context).allowed:
            raise CannotAssume(
                f"The role {role_arn} cannot be assumed by {service}: its trust policy does not say so."
            )

    def _of_session(self, role_arn: str, session_name: str) -> Caller:
        account = self._account.account_id
        name = role_arn.rsplit("/", 1)[-1]
        return Caller(account, f"arn:aws:sts::{account}:assumed-role/{name}/{session_name}", role_arn)

    def _assumed(self, access_key_id: str) -> Any | None:
        sessions = list(self._sts.assumed_roles)
        return next((one for one in sessions if one.access_key_id == access_key_id), None)

    def _user(self, access_key_id: str) -> str | None:
        from moto.iam.models import iam_backends

        for user in list(iam_backends[self._account.account_id]["aws"].users.values()):
            if any(key.access_key_id == access_key_id for key in user.access_keys):
                return str(user.arn)
        return None

    @property
    def _sts(self) -> Any:
        from moto.sts.models import sts_backends

        return sts_backends[self._account.account_id]["aws"]
