"""What one request needs: an action on a resource, and what conditions may ask about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Tags = Mapping[str, str]


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


class Lookup(Protocol):
    """What needs are worked out from besides the request: one account in one region."""

    account_id: str
    region: str

    def ec2_tags(self, resource_id: str) -> Tags: ...

    def volumes_of(self, instance_id: str) -> list[tuple[str, bool]]:
        """(volume id, whether it is the root volume) of each attached volume."""

    def default_subnet(self, zone: str | None) -> str: ...

    def default_security_group(self, subnet_id: str) -> str: ...

    def role_of_profile(self, name_or_arn: str) -> str | None: ...

    def snapshot_of_image(self, image_id: str) -> str | None:
        """The snapshot that a root volume is made from."""

    def key_of_snapshot(self, snapshot_id: str) -> str | None: ...

    def customer_key(self, key_id: str | None) -> str | None: ...

    def hash_key(self, table: str) -> str | None: ...

    def key_of_table(self, table_arn: str) -> str | None: ...

    def key_of_object(self, bucket: str, key: str) -> str | None: ...

    def key_of_bucket(self, bucket: str) -> str | None: ...

    def key_of_topic(self, topic_arn: str) -> str | None: ...

    def key_of_queue(self, queue_arn: str) -> str | None: ...


Params = Mapping[str, Any]
Needs = Callable[[Params, Lookup], Iterable[Need]]


class NeedNotKnown(Exception):
    """The local cloud does not know what this call needs: names the action and where to teach it."""

    def __init__(self, action: str, why: str = "") -> None:
        super().__init__(
            f"the local cloud does not know how to authorize {action}{f' ({why})' if why else ''}: "
            "see localcloud/iam/README.md"
        )
        self.action = action


def arn(look: Lookup, service: str, resource: str, *, account: str | None = None) -> str:
    owner = look.account_id if account is None else account
    return f"arn:aws:{service}:{look.region}:{owner}:{resource}"


def listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def for_each(make: Callable[[str], Needs], actions: Sequence[str], service: str) -> dict[str, Needs]:
    """What several actions of a service need, each made of its name."""
    return {f"{service}:{action}": make(action) for action in actions}
