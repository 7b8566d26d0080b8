"""One IAM statement, and what the statements of an environment refer to.

Invariant I1 in IAM: whatever stops, detaches or deletes is conditioned on the tag `peaker:owner`, and
whatever creates must put that tag on. A resource with a wildcard carries the reason; a statement without one
is refused.
Sources: the Service Authorization Reference for EC2, SSM, ELBv2, Route 53, CloudWatch and DynamoDB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, LOAD_TAG, OWNER_TAG, ROLE_TAG
from stacks.naming import Names

# A tag's value that says something: a cluster is added without a word to the shared stack.
ANY_CLUSTER = "?*"
NO_RESOURCE_LEVEL = "AWS offers no resource-level permission for these read-only actions."
MAY_USE = "The environment's settings allow this pattern to all of its clusters (may_use)."
UNKNOWN_UNTIL_RUN = "The id exists only once the run has made it; the condition on the owner tag narrows it."


@dataclass(frozen=True)
class Statement:
    """One IAM allow statement. Raises ValueError for a wildcard action, or a wildcard without a reason."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    wildcard_reason: str = ""

    def __post_init__(self) -> None:
        if any("*" in action for action in self.actions):
            raise ValueError(f"an action must be named in full, got {', '.join(self.actions)}")
        if self.wildcards and not self.wildcard_reason:
            actions = ", ".join(self.actions)
            raise ValueError(f"{', '.join(self.wildcards)}: say why {actions} needs a wildcard")

    @property
    def wildcards(self) -> tuple[str, ...]:
        return tuple(resource for resource in self.resources if "*" in resource)


def read_only(*actions: str) -> Callable[[Names], list[Statement]]:
    return lambda _: [Statement(actions, ("*",), wildcard_reason=NO_RESOURCE_LEVEL)]


def owned(names: Names) -> dict[str, Mapping[str, object]]:
    return {"StringEquals": {f"aws:ResourceTag/{OWNER_TAG}": names.owner}}


def to_be_owned(names: Names) -> dict[str, Mapping[str, object]]:
    """All tags by which others tell whose it is: nothing can be made that passes for a base replica's, the source's,
    nobody's or another environment's."""
    wanted = {
        OWNER_TAG: names.owner,
        ENVIRONMENT_TAG: names.owner,
        ROLE_TAG: "replica",
        LOAD_TAG: "peak",
    }
    return {
        "StringEquals": {f"aws:RequestTag/{tag}": value for tag, value in wanted.items()},
        "StringLike": {f"aws:RequestTag/{CLUSTER_TAG}": ANY_CLUSTER},
    }


def tag_on_create(action: str, *resources: str) -> Statement:
    return Statement(
        ("ec2:CreateTags",),
        resources,
        {"StringEquals": {"ec2:CreateAction": action}},
        f"Tags may be set only by {action}, on what it creates; the id does not exist before.",
    )


def touch_owned(action: str, resource: Callable[[Names], str]) -> Callable[[Names], list[Statement]]:
    return lambda names: [Statement((action,), (resource(names),), owned(names), UNKNOWN_UNTIL_RUN)]


def listed(
    actions: tuple[str, ...],
    resources: tuple[str, ...],
    conditions: Mapping[str, Mapping[str, object]] | None = None,
) -> Statement:
    """Allows actions on the resources that the settings list; where `may_use` has a pattern, the settings are
    its reason.
    """
    return Statement(actions, resources, conditions or {}, MAY_USE)
