"""Instances, volumes, snapshots, tags and launches that a role must not touch, and keys that it must not use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cloud_rig.resources import IMAGE, SUBNET_A
from peaker_contract.permissions import Permission as P
from tests.support.forbidden.cell import Cell
from tests.support.forbidden.roles import Role
from tests.support.forbidden.setting import FOREIGN_ROLE, OTHER, Setting, tags

Jobs = tuple[P, ...]
OnOne = Callable[[Any, str], object]
ZONE = "us-east-1a"
GROUP = "sg-0a770000000000001"

# What is done to one, and the permissions whose job it is on what Peaker made.
ON_INSTANCE: dict[str, tuple[OnOne, Jobs]] = {
    "terminate": (lambda c, one: c.terminate_instances(InstanceIds=[one]), (P.TERMINATE_INSTANCES,)),
    "stop": (lambda c, one: c.stop_instances(InstanceIds=[one]), (P.STOP_INSTANCES,)),
    "start": (lambda c, one: c.start_instances(InstanceIds=[one]), (P.START_INSTANCES,)),
    "give other user data to": (
        lambda c, one: c.modify_instance_attribute(InstanceId=one, UserData={"Value": b"id"}), ()),
}  # fmt: skip
ON_VOLUME: dict[str, tuple[OnOne, Jobs]] = {
    "delete": (lambda c, one: c.delete_volume(VolumeId=one), (P.DELETE_VOLUMES,)),
    "snapshot alone": (lambda c, one: c.create_snapshot(VolumeId=one), ()),
}
ON_SNAPSHOT: dict[str, tuple[OnOne, Jobs]] = {
    "delete": (lambda c, one: c.delete_snapshot(SnapshotId=one), (P.DELETE_SNAPSHOTS,)),
    "make a volume of": (
        lambda c, one: c.create_volume(
            AvailabilityZone=ZONE, SnapshotId=one, TagSpecifications=tags("volume", owner="local")),
        (P.CREATE_VOLUMES,)),
}  # fmt: skip


def cells(role: Role, s: Setting) -> Iterator[Cell]:
    yield from _touched(role, "ec2", "instance", ON_INSTANCE, s.instances)
    yield from _touched(role, "ec2", "volume", ON_VOLUME, s.volumes)
    yield from _touched(role, "ec2", "snapshot", ON_SNAPSHOT, s.snapshots)
    yield from _started(s)
    yield from _beside(s)
    yield from _blocks(role, s)
    yield from _attached(role, s)
    yield from _tagged(s)
    yield from _snapshotted(role, s)
    yield from _launched(role, s)
    yield from _made(role, s)
    yield from _keys(s)


def _touched(
    role: Role, api: str, kind: str, actions: dict[str, tuple[OnOne, Jobs]], known: dict[str, str]
) -> Iterator[Cell]:
    """Each action on each: on the own ones by everybody whose job it is not."""
    for verb, (call, jobs) in actions.items():
        for whose, one in known.items():
            if whose != "own" or not role.holds(*jobs):
                yield Cell(
                    f"{verb} {kind}: {whose}",
                    api,
                    lambda c, call=call, one=one: call(c, one),
                    whose == "own" and bool(jobs),
                )


def _beside(s: Setting) -> Iterator[Cell]:
    """One refused id refuses the call, however good the others are."""
    for whose, one in s.not_own("instances").items():
        both = [s.own_instance, one]
        yield Cell(
            f"terminate an own instance beside: {whose}",
            "ec2",
            lambda c, both=both: c.terminate_instances(InstanceIds=both),
        )


def _blocks(role: Role, s: Setting) -> Iterator[Cell]:
    for whose, one in s.snapshots.items():
        if whose != "own" or not role.holds(P.LIST_SNAPSHOT_BLOCKS):
            yield Cell(
                f"list the blocks of a snapshot: {whose}",
                "ebs",
                lambda c, one=one: c.list_snapshot_blocks(SnapshotId=one),
                whose == "own",
            )


def _attached(role: Role, s: Setting) -> Iterator[Cell]:
    def attach(volume: str, instance: str) -> Callable[[Any], object]:
        return lambda c: c.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdp")

    for whose, volume in s.not_own("volumes").items():
        yield Cell(f"attach to an own instance a volume: {whose}", "ec2", attach(volume, s.own_instance))
    for whose, instance in s.not_own("instances").items():
        yield Cell(f"attach an own volume to an instance: {whose}", "ec2", attach(s.volumes["own"], instance))
    if not role.holds(P.ATTACH_VOLUMES):
        yield Cell("attach an own volume", "ec2", attach(s.volumes["own"], s.own_instance), True)


def _tagged(s: Setting) -> Iterator[Cell]:
    """Whoever may tag may make anything its own, and then end it."""
    foreign = {
        **{f"instance: {whose}": one for whose, one in s.not_own("instances").items()},
        **{f"volume: {whose}": one for whose, one in s.not_own("volumes").items()},
        **{f"snapshot: {whose}": one for whose, one in s.not_own("snapshots").items()},
        "security group: nobody's": GROUP,
        "subnet: nobody's": SUBNET_A,
    }
    own = {"instance": s.own_instance, "volume": s.volumes["own"], "snapshot": s.snapshots["own"]}

    def put(one: str, **given: str) -> Callable[[Any], object]:
        given_tags = [{"Key": f"peaker:{key}", "Value": value} for key, value in given.items()]
        return lambda c: c.create_tags(Resources=[one], Tags=given_tags)

    for what, one in foreign.items():
        yield Cell(f"make its own, by the owner tag, {what}", "ec2", put(one, owner=s.environment))
        yield Cell(f"call a replica {what}", "ec2", put(one, role="replica"))
        yield Cell(f"name the volume of {what}", "ec2", put(one, volume="data"))
    for what, one in own.items():
        yield Cell(f"give an own {what} to another environment", "ec2", put(one, owner=OTHER))
        yield Cell(
            f"give an own {what} another owner beside a volume's name",
            "ec2",
            put(one, owner=OTHER, volume="data"),
        )
        yield Cell(f"move an own {what} to another environment", "ec2", put(one, environment=OTHER))


def _snapshotted(role: Role, s: Setting) -> Iterator[Cell]:
    def snapshot(instance: str, **given: str) -> Callable[[Any], object]:
        return lambda c: c.create_snapshots(
            InstanceSpecification={"InstanceId": instance},
            **({"TagSpecifications": tags("snapshot", **given)} if given else {}),
        )

    donors = ("own", "a base replica")
    as_replica = {"owner": s.environment, "environment": s.environment, "cluster": "orders"}
    for whose, one in s.instances.items():
        if whose not in donors or not role.holds(P.CREATE_SNAPSHOTS):
            yield Cell(
                f"snapshot all volumes of an instance: {whose}",
                "ec2",
                snapshot(one, **as_replica),
                not whose.startswith(("nobody", "the source")),
            )
    donor = s.instances["a base replica"]
    yield Cell("snapshot without the owner tag", "ec2", snapshot(donor))
    yield Cell("snapshot with another environment's owner tag", "ec2", snapshot(donor, owner=OTHER))
    yield Cell(
        "snapshot what passes for another environment's",
        "ec2",
        snapshot(donor, owner=s.environment, environment=OTHER),
        True,
    )


def _launched(role: Role, s: Setting) -> Iterator[Cell]:
    own = {
        "owner": s.environment, "environment": s.environment, "cluster": "orders", "role": "replica",
        "load": "peak",
    }  # fmt: skip

    def launch(given: dict[str, str], **changes: Any) -> Callable[[Any], object]:
        request = {
            "ImageId": IMAGE,
            "InstanceType": "r6i.large",
            "MinCount": 1,
            "MaxCount": 1,
            "SubnetId": SUBNET_A,
            "SecurityGroupIds": [GROUP],
            "TagSpecifications": [*tags("instance", **given), *tags("volume", **given)],
            **changes,
        }
        return lambda c: c.run_instances(**request)

    if not role.holds(P.LAUNCH_INSTANCES):
        yield Cell("launch a replica", "ec2", launch(own), True)
    for key, value, what in (
        ("owner", OTHER, "another environment's owner tag"),
        ("environment", OTHER, "the look of another environment's replica"),
        ("role", "source", "the look of a source"),
        ("load", "base", "the look of a base replica"),
    ):
        told_by_policy = key != "owner"
        yield Cell(f"launch with {what}", "ec2", launch({**own, key: value}), told_by_policy)
    for key in ("owner", "environment", "cluster", "role", "load"):
        less = {name: value for name, value in own.items() if name != key}
        yield Cell(f"launch without the tag {key}", "ec2", launch(less), key != "owner")
    yield Cell("launch without a tag", "ec2", launch(own, TagSpecifications=[]))
    yield Cell(
        "launch with an untagged volume", "ec2", launch(own, TagSpecifications=tags("instance", **own))
    )
    yield Cell("launch another image", "ec2", launch(own, ImageId="ami-0b0d000000000000f"), True)
    yield Cell(
        "launch into another security group",
        "ec2",
        launch(own, SecurityGroupIds=["sg-0b0d000000000000f"]),
        True,
    )
    yield Cell("launch into another subnet", "ec2", launch(own, SubnetId="subnet-0b0d00000000000ff"), True)
    yield Cell("launch with another role", "ec2", launch(own, IamInstanceProfile={"Name": FOREIGN_ROLE}))
    yield Cell("launch with a key pair", "ec2", launch(own, KeyName="mine"), True)
    mapping = [{"DeviceName": "/dev/sdz", "Ebs": {"SnapshotId": s.snapshots["nobody's"]}}]
    yield Cell("launch from a foreign snapshot", "ec2", launch(own, BlockDeviceMappings=mapping))


def _made(role: Role, s: Setting) -> Iterator[Cell]:
    own = {"owner": s.environment, "environment": s.environment, "cluster": "orders"}

    def volume(**given: str) -> Callable[[Any], object]:
        more = {"TagSpecifications": tags("volume", **given)} if given else {}
        return lambda c: c.create_volume(AvailabilityZone=ZONE, Size=1, **more)

    if not role.holds(P.CREATE_VOLUMES):
        yield Cell("make a volume", "ec2", volume(**own), True)
    yield Cell("make a volume without the owner tag", "ec2", volume())
    yield Cell("make a volume with another environment's owner tag", "ec2", volume(**{**own, "owner": OTHER}))
    yield Cell(
        "make a volume that passes for another environment's",
        "ec2",
        volume(**{**own, "environment": OTHER}),
        True,
    )


def _started(s: Setting) -> Iterator[Cell]:
    for whose, one in s.not_own("instances").items():
        yield Cell(
            f"tell where to start an instance: {whose}",
            "ec2",
            lambda c, one=one: c.modify_instance_capacity_reservation_attributes(
                InstanceId=one, CapacityReservationSpecification={"CapacityReservationPreference": "none"}
            ),
        )


def _keys(s: Setting) -> Iterator[Cell]:
    """Nobody reads with a key or hands it on; EC2 uses it for a role."""
    for whose, key in (("the volumes'", s.own_key), ("a foreign", s.foreign_key)):
        yield Cell(
            f"decrypt with {whose} key", "kms", lambda c, key=key: c.decrypt(KeyId=key, CiphertextBlob=b"x")
        )
        yield Cell(
            f"grant {whose} key to somebody",
            "kms",
            lambda c, key=key: c.create_grant(
                KeyId=key, GranteePrincipal=f"arn:aws:iam::{s.account}:root", Operations=["Decrypt"]
            ),
        )
        yield Cell(
            f"make a data key with {whose} key",
            "kms",
            lambda c, key=key: c.generate_data_key(KeyId=key, KeySpec="AES_256"),
        )
