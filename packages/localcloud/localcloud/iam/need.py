"""What one request needs: an action on a resource, and what conditions may ask about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcloud.iam.account import Account
from localcloud.iam.policy import Tags


@dataclass(frozen=True)
class Need:
    """`kind` is the resource type as the Service Authorization Reference calls it, "" for actions without one.

    `keys` are condition keys (lower case) with their values; None is a key that this request is known not to have.
    Tags and the encryption context (KMS) are None where they are not known, so that a condition on them cannot be
    judged. What is `asynchronous` is needed after the call was answered: a refusal shows in what becomes of the
    resource.
    """

    action: str
    resource: str = "*"
    kind: str = ""
    keys: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    request_tags: Tags | None = None
    resource_tags: Tags | None = None
    encryption_context: Mapping[str, str] | None = None
    asynchronous: bool = False


Params = Mapping[str, Any]
Needs = Callable[[Params, Account], Iterable[Need]]


class NeedNotKnown(Exception):
    """The local cloud does not know what this call needs: names the action and where to teach it."""

    def __init__(self, action: str, why: str = "") -> None:
        super().__init__(
            f"the local cloud does not know how to authorize {action}{f' ({why})' if why else ''}: "
            "see localcloud/iam/README.md"
        )
        self.action = action


def arn(look: Account, service: str, resource: str, *, account: str | None = None) -> str:
    owner = look.account_id if account is None else account
    return f"arn:aws:{service}:{look.region}:{owner}:{resource}"


def listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def named(action: str, kind: str, service: str, pattern: str, parameter: str) -> Needs:
    """One resource whose name, or whose whole ARN, a parameter gives."""

    def needs(params: Params, look: Account) -> list[Need]:
        name = str(params[parameter])
        whole = name if name.startswith("arn:") else arn(look, service, pattern.format(name))
        return [Need(action, whole, kind)]

    return needs


def for_each(make: Callable[[str], Needs], actions: Sequence[str], service: str) -> dict[str, Needs]:
    """What several actions of a service need, each made of its name."""
    return {f"{service}:{action}": make(action) for action in actions}
