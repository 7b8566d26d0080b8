"""The local cloud notices when the moto that it hooks into has changed."""

from __future__ import annotations

import pytest

from localcloud.extensions.ec2.resource_hooks import HookMoved, check_resource_hooks


def test_the_pinned_moto_has_every_hook() -> None:
    check_resource_hooks()


@pytest.mark.parametrize(
    ("hook", "parameters"),
    [
        ("moto.ec2.models:EC2Backend.launch_instances", "self"),
        ("moto.ec2.instances_of_today:Instance.start", "self"),
        ("moto.ec2.models.instances:Instance.start", "self force"),
    ],
)
def test_a_hook_that_is_gone_or_changed_is_named(hook: str, parameters: str) -> None:
    with pytest.raises(HookMoved, match=hook.split(":")[1]):
        check_resource_hooks({hook: parameters})
