"""Removes all that a rehearsal made, by its tag and its name, and says what AWS still shows."""

from __future__ import annotations

from contextlib import suppress

from peaker_cli.rehearse.named import named_leftovers, remove_named
from peaker_cli.rehearse.resources import Resources, absent


def remove(resources: Resources) -> list[str]:
    """Removes all that the rehearsal made and returns what is still there; a second call goes on.

    The instance goes first: it costs most, and whatever else is refused does not keep it.
    """
    ec2 = resources.client("ec2")
    if hosts := resources.instances():
        ec2.terminate_instances(InstanceIds=hosts)
    _remove_balancer(resources)
    remove_named(resources)
    resources.seconds_until("the end of the instance", lambda: not resources.instances())
    resources.seconds_until(
        "the detached volumes", lambda: all(one["State"] != "in-use" for one in resources.volumes())
    )
    for one in resources.volumes():
        absent(lambda one=one: ec2.delete_volume(VolumeId=one["VolumeId"]))  # type: ignore[misc]
    for one in resources.snapshots():
        absent(lambda one=one: ec2.delete_snapshot(SnapshotId=one["SnapshotId"]))  # type: ignore[misc]
    return leftovers(resources)


def leftovers(resources: Resources) -> list[str]:
    """Returns the ids of what AWS still shows with the rehearsal's tag or name."""
    return [
        *resources.instances(),
        *(str(one["VolumeId"]) for one in resources.volumes()),
        *(str(one["SnapshotId"]) for one in resources.snapshots()),
        *(arn for arn, _ in resources.balancers()),
        *resources.groups(),
        *named_leftovers(resources),
    ]


def _remove_balancer(resources: Resources) -> None:
    elb = resources.client("elbv2")
    for arn, listeners in resources.balancers():
        for listener in listeners:
            elb.delete_listener(ListenerArn=listener)
        elb.delete_load_balancer(LoadBalancerArn=arn)
    resources.seconds_until("the end of the load balancer", lambda: not resources.balancers())
    for arn in resources.groups():
        resources.seconds_until("the end of the target group", lambda arn=arn: _group_is_gone(resources, arn))  # type: ignore[misc]


def _group_is_gone(resources: Resources, arn: str) -> bool:
    with suppress(resources.client("elbv2").exceptions.ResourceInUseException):
        resources.client("elbv2").delete_target_group(TargetGroupArn=arn)
    return arn not in resources.groups()
