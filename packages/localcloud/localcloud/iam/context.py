"""What the conditions of policies can ask about one call. A key that AWS would have and we do not know is no guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from localcloud.iam import reference
from localcloud.iam.decision import Caller
from localcloud.iam.need import Need
from localcloud.iam.policy import PolicyNotUnderstood, Tags

ENCRYPTION_CONTEXT = "kms:encryptioncontext:"
EVENTBRIDGE = "events.amazonaws.com"


class CallContext:
    """The condition keys of one need. `session` holds those of the caller and the connection."""

    def __init__(self, need: Need, session: Mapping[str, Sequence[str]]) -> None:
        self._need = need
        self._session = session

    def values(self, key: str) -> Sequence[str] | None:
        """None for a key that AWS has not in this call. Raises PolicyNotUnderstood for one that we do not know."""
        wanted, need = key.lower(), self._need
        if not reference.supports(need.action, need.kind, wanted):
            return None
        if wanted in reference.GLOBAL_KEYS or wanted.startswith("aws:principaltag/"):
            return self._session.get(wanted)
        if wanted in need.keys:
            return need.keys[wanted]
        name, _, tag = wanted.partition("/")
        if wanted == "aws:tagkeys" and need.request_tags is not None:
            return tuple(need.request_tags) or None
        if name == "aws:requesttag" and need.request_tags is not None:
            return _tag(need.request_tags, tag)
        if name.endswith(":resourcetag") and need.resource_tags is not None:
            return _tag(need.resource_tags, tag)
        if wanted.startswith(ENCRYPTION_CONTEXT) and need.encryption_context is not None:
            return _tag(need.encryption_context, wanted.removeprefix(ENCRYPTION_CONTEXT))
        raise PolicyNotUnderstood(
            f"a policy asks for {key}, which the local cloud does not know of {need.action}"
        )


def _tag(tags: Tags, wanted: str) -> Sequence[str] | None:
    found = [value for name, value in tags.items() if name.lower() == wanted]
    return tuple(found) or None


def session_keys(
    caller: Caller, now: datetime, region: str, *, source_ip: str = "", principal_tags: Tags | None = None
) -> dict[str, Sequence[str]]:
    """The global keys of a caller. Loopback and the hosts' bridge stand for TLS."""
    keys: dict[str, Sequence[str]] = {
        "aws:currenttime": (now.isoformat(),),
        "aws:epochtime": (str(int(now.timestamp())),),
        "aws:requestedregion": (region,),
        "aws:resourceaccount": (caller.account,),
        "aws:securetransport": ("true",),
        "aws:viaawsservice": ("false",),
        "aws:principalisawsservice": ("true" if caller.service else "false",),
    }
    if source_ip:
        keys["aws:sourceip"] = (source_ip,)
    if caller.identity:
        keys["aws:principalarn"] = (caller.identity,)
        keys["aws:principalaccount"] = (caller.account,)
        keys["aws:principaltype"] = ("AssumedRole" if ":role/" in caller.identity else "User",)
        keys["aws:sourceowner"] = (caller.account,)
        if ":user/" in caller.identity:
            keys["aws:username"] = (caller.identity.rsplit("/", 1)[-1],)
    for name, value in (principal_tags or {}).items():
        keys[f"aws:principaltag/{name.lower()}"] = (value,)
    return keys


def service_keys(
    caller: Caller, now: datetime, region: str, source_arn: str, action: str
) -> dict[str, Sequence[str]]:
    """The keys of an AWS service that does this for one of the account's resources.

    EventBridge names the rule alone, not its account (EventBridge User Guide, "My rule ran but my Lambda function
    wasn't invoked"), and to KMS neither (SNS Developer Guide, "Key management").
    """
    keys: dict[str, Sequence[str]] = {
        **session_keys(caller, now, region),
        "aws:principalservicename": (caller.service,),
    }
    is_eventbridge = caller.service == EVENTBRIDGE
    if not (is_eventbridge and action.startswith("kms:")):
        keys["aws:sourcearn"] = (source_arn,)
    if not is_eventbridge:
        keys |= {"aws:sourceaccount": (caller.account,), "aws:sourceowner": (caller.account,)}
    return keys
