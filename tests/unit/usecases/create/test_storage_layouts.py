"""Filesystems on several volumes: refused in the plan or before the snapshots, and told to the replica as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.document.plan import ScaleOutPlan, Way
from peaker.domain.planning.plan_decision import plan_scale_out
from peaker.domain.runs.ledger import Donor
from peaker.domain.runs.run import PlanStep
from peaker.domain.storage.set_manifest import SetManifest, why_not_as_planned
from peaker.usecases.create.assemble_storage import assemble_storage
from peaker.usecases.create.attach_volumes import attach_volumes
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.create_volumes import create_volumes
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.create.prepare_donor import prepare_donor
from peaker.usecases.plan.plan_scale_out import plan_scale_out as plan_step
from peaker.usecases.run.kept_snapshots import keep_set

from peaker_contract import errors
from peaker_contract.names import VOLUME_TAG
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import (
    BASE,
    RUN_ID,
    data_volumes_of,
    fleet_with,
    leased,
    orders,
    plan_facts,
    replica,
    with_cluster,
)
from tests.support.peak import answers

PLACE = "/var/lib/mysql"


def striped(layout: str, count: int) -> list[dict[str, Any]]:
    """A set of so many volumes for the data directory."""
    return [
        {
            "name": f"data-{number}",
            "device": f"/dev/sd{'fghijk'[number - 1]}",
            "mount_point": PLACE,
            "filesystem": "xfs",
            "layout": layout,
            "volume_type": "gp3",
            "iops": 3000,
            "throughput_mib_per_s": 125,
        }
        for number in range(1, count + 1)
    ]


def volumes_of(sizes: list[int]) -> tuple[Any, ...]:
    """A replica's volumes of these sizes, named and placed like those of `striped`."""
    like = data_volumes_of(BASE)[0]
    return tuple(
        replace(
            like,
            volume_id=f"vol-0{number:016x}",
            tags={**like.tags, VOLUME_TAG: f"data-{number}"},
            device=f"/dev/sd{'fghijk'[number - 1]}",
            size_gib=size,
        )
        for number, size in enumerate(sizes, start=1)
    )


def plan(layout: str, count: int, sizes: list[int]) -> ScaleOutPlan:
    fleet = fleet_with(replica(BASE, volumes=volumes_of(sizes)))
    return plan_scale_out(plan_facts(fleet, orders(volumes=striped(layout, count))), [Way()])


def test_raid5_with_one_wrong_size_is_refused_by_the_members_name() -> None:
    [refusal] = plan("raid5", 4, [70, 70, 80, 70]).refusals
    assert refusal.code == "layout"
    assert refusal.reason.startswith(f"data-3 has 80 GiB, the other members of raid5 at {PLACE} have 70")


def test_a_striped_set_with_a_member_missing_is_refused_by_the_members_name() -> None:
    [refusal] = plan("lvm_striped", 4, [70, 70, 70]).refusals
    assert refusal.code == "no_donor"
    assert "has no volume data-4" in refusal.reason


def stack(ports: CalmPorts, **changes: Any) -> dict[str, Any]:
    """What the host says of the donor's data directory."""
    volumes = ports.ledger.run(RUN_ID).required(Donor, "PrepareDonor").volumes
    return {
        "mount_point": PLACE,
        "filesystem": "xfs",
        "uuid": "5a0e",
        "size_bytes": 8 * 1024**3,
        "kind": "raid0",
        "volumes": [{"volume_id": one, "size_bytes": 4 * 1024**3, "label": "x"} for one in volumes.values()],
        "arrays": [{"uuid": "68ba530e:a5a8ae46", "level": "raid0"}],
        "logical_volume": None,
        **changes,
    }


@pytest.fixture
def ports() -> CalmPorts:
    """A run with its donor, of a cluster whose data directory is striped over the volumes that `local` has."""
    settings = orders(
        volumes=[
            {**one, "name": name, "device": device}
            for one, name, device in zip(
                striped("raid0", 2), ("data", "log"), ("/dev/sdf", "/dev/sdg"), strict=True
            )
        ]
    )
    made = with_cluster(calm_ports(settings))
    plan_step(made, PlanStep(**leased(made, "PlanScaleOut").model_dump()))
    choose_donor(made, leased(made, "ChooseDonor"))
    return made


def prepare(ports: CalmPorts, *layout: dict[str, Any]) -> None:
    said = {
        "gtid_set": "a:1-9",
        "lag_seconds": 0,
        "server_uuid": "u",
        "buffer_pool_pages": 1,
        "data_bytes": 1,
    }
    answers(ports, "prepare_donor", **said, **({"layout": list(layout)} if layout else {}))
    prepare_donor(ports, leased(ports, "PrepareDonor"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "raid1"}, f"{PLACE} is raid1 on the donor, raid0 in the settings"),
        ({"filesystem": "ext4"}, f"{PLACE} is ext4 on the donor, xfs in the settings"),
        ({"mount_point": "/elsewhere"}, f"{PLACE}: the host said nothing of what it stands on"),
        ({"volumes": []}, f"{PLACE} does not lie on data, log, which the settings give it"),
    ],
)
def test_a_donor_of_another_layout_is_refused_before_the_snapshots(
    ports: CalmPorts, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(errors.LayoutRefused, match=f"{BASE}: {said}"):
        prepare(ports, stack(ports, **changes))
    assert len(ports.done("storage.create_snapshots")) == 0


def test_a_host_that_cannot_tell_which_volume_a_disk_is_may_say_nothing_of_single_ones() -> None:
    volumes = orders().volumes
    assert {one.layout for one in volumes} == {"single"}
    assert why_not_as_planned([], volumes, {}) == []


def test_a_volume_that_the_filesystem_grew_by_is_named(ports: CalmPorts) -> None:
    grown = [*stack(ports)["volumes"], {"volume_id": "vol-0added", "size_bytes": 1, "label": "y"}]
    with pytest.raises(errors.LayoutRefused, match="also lies on vol-0added, which the settings do not name"):
        prepare(ports, stack(ports, volumes=grown))


def test_a_set_is_refused_where_the_host_says_no_layout(ports: CalmPorts) -> None:
    with pytest.raises(errors.LayoutRefused, match="of one release"):
        prepare(ports)


def test_the_manifest_reaches_the_replica_and_the_kept_set(ports: CalmPorts) -> None:
    prepare(ports, stack(ports))
    assert ports.commands.parameters[-1]["MountPoints"] == PLACE, "one filesystem, asked once"
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    assert len(ports.done("storage.create_snapshots")) == 1, "one call for the set"
    ports.clock.advance(seconds=40)
    launch_replica(ports, leased(ports, "LaunchReplica"))
    ports.clock.advance(seconds=15)
    create_volumes(ports, leased(ports, "CreateVolumes"))
    with pytest.raises(errors.VolumesAttaching):
        attach_volumes(ports, leased(ports, "AttachVolumes"))
    answers(ports, "assemble_storage", members=[], bytes=1)
    assemble_storage(ports, leased(ports, "AssembleStorage"))
    told = ports.commands.parameters[-1]
    [layout] = json.loads(told["Layout"])
    assert layout == stack(ports), "as the donor said it, with what only hosts read"
    donor = ports.ledger.run(RUN_ID).required(Donor, "AssembleStorage").volumes
    assert {one["name"]: one["source"] for one in json.loads(told["Volumes"])} == donor

    rows = ports.ledger.resources(RUN_ID)
    kept = keep_set(ports, leased(ports, "RecordReceipt").holder, ports.ledger.run(RUN_ID), rows)
    assert kept is not None
    manifest = SetManifest.model_validate(kept.manifest)
    assert (manifest.gtid_set, manifest.snapshots) == ("a:1-9", dict(kept.snapshots))
    assert manifest.stacks_document() == [stack(ports)]
