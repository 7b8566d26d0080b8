"""Every layout, on a kernel that has md and the device mapper: made, written to, snapshotted in the midst of writes,
restored as other volumes in another order, judged, brought up, warmed, recovered, and compared."""

from __future__ import annotations

import json
import mmap
import random
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from layouts import TRIED, Tried
from virtual_machine import ANSWER_SECONDS, IMAGE, Answer, Disk, Machine, machine, new_disk

BLOCK = 512 * 1024
RUN = "scale-out-orders-20261123T0040-9f3a"
_MARK = re.compile(rb"mark (\d+),(\d+);\.\.")
# Without udev, LVM makes its nodes itself; the links of EBS volumes are made here.
LINKS = """
echo 'activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 }' >/etc/lvm/lvm.conf
mkdir -p /run/by-id
for disk in /sys/block/nvme*n1; do
    serial=$(tr -d ' ' <$disk/device/serial)
    ln -sf /dev/$(basename $disk) /run/by-id/nvme-Amazon_Elastic_Block_Store_$serial
done
"""


@dataclass(frozen=True)
class Snapshots:
    """What the donor left: per layout the copies in the order of its making, its manifest, what was written."""

    copies: dict[str, list[Disk]]
    manifests: dict[str, dict[str, Any]]
    committed: dict[str, int]
    files: dict[str, dict[str, str]]


_CONFIGURED: set[tuple[Machine, str]] = set()


def host(here: Machine, tried: Tried, command: str, *arguments: str, check: bool = True) -> Answer:
    """A command of the host package, with settings of the layout's own."""
    settings = {
        "state_dir": f"/run/state/{tried.key}",
        "by_id_dir": "/run/by-id",
        "datadir": tried.place,
    }
    place = f"/run/{tried.key}.json"
    if (here, tried.key) not in _CONFIGURED:
        here.run(f"mkdir -p /run/state/{tried.key}; cat >{place} <<'END'\n{json.dumps(settings)}\nEND\n")
        _CONFIGURED.add((here, tried.key))
    return here.call(command, *arguments, settings=place, check=check)


def peaker(here: Machine, tried: Tried, *arguments: str) -> dict[str, Any]:
    """The result line of a command of the product."""
    return host(here, tried, "peaker", *arguments, check=False).result


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """The donor with all layouts at work, and one instant of all of its volumes."""
    folder = tmp_path_factory.mktemp("donor")
    disks: dict[str, list[Disk]] = {}
    number = 0
    for tried in TRIED:
        disks[tried.key] = []
        for mib in tried.volumes:
            number += 1
            disks[tried.key].append(new_disk(folder, number, mib))
    everything = [disk for those in disks.values() for disk in those]
    with machine(folder / "machine", everything) as donor:
        donor.run(LINKS)
        files, manifests = {}, {}
        for space, tried in enumerate(TRIED, start=11):
            files[tried.key] = _make(donor, tried, disks[tried.key], space)
        _start_writing(donor)
        for tried in TRIED:
            for command in tried.grow:
                donor.run(_with_devices(command, disks[tried.key]))
        for tried in TRIED:
            found = peaker(donor, tried, "describe_storage", "--mount-points", tried.place)
            assert found["ok"], json.dumps(found)
            manifests[tried.key] = found["layout"][0]
        await_commits(donor)
        counted = donor.run("cd /run/commits; for f in *; do echo $f $(<$f); done").out
        copies = donor.snapshot(everything, _made(folder / "snapshots"))
    by_id = {disk.volume_id: disk for disk in copies}
    committed = {line.split()[0]: int(line.split()[1]) for line in counted.splitlines() if ".new" not in line}
    return Snapshots(
        {key: [by_id[one.volume_id] for one in those] for key, those in disks.items()},
        manifests,
        {tried.key: committed[tried.place.replace("/", "_")] for tried in TRIED},
        files,
    )


def _make(donor: Machine, tried: Tried, disks: list[Disk], space: int) -> dict[str, str]:
    for command in tried.commands:
        donor.run(_with_devices(command, disks))
    device = _with_devices(tried.device, disks)
    donor.run(f"mkfs.{tried.filesystem} -q {device}; mkdir -p {tried.place}; mount {device} {tried.place}")
    donor.call("workload", "fill", tried.place, str(space))
    found: dict[str, str] = json.loads(donor.call("workload", "look", tried.place).out)["files"]
    return found


def _start_writing(donor: Machine) -> None:
    places = " ".join(tried.place for tried in TRIED)
    program = "/opt/peaker/tests/storage/guest_workload.py"
    donor.run(f"setsid python3 {program} write {places} >/run/writer.log 2>&1 &")


def await_commits(donor: Machine) -> None:
    """Until every database has some."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while len(
        set(
            donor.run("shopt -s nullglob; cd /run/commits && echo *", check=False)
            .out.replace(".new", "")
            .split()
        )
    ) < len(TRIED):
        assert time.monotonic() < deadline, donor.run("cat /run/writer.log").out


def _with_devices(command: str, disks: list[Disk]) -> str:
    """The devices by their volume ids: the kernel's names follow no order that could be relied on."""
    return command.format(
        *(
            f"$(realpath /run/by-id/nvme-Amazon_Elastic_Block_Store_{disk.volume_id.replace('-', '')})"
            for disk in disks
        )
    )


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@dataclass(frozen=True)
class Replica:
    """The machine with the restored volumes: per layout in the donor's order, and one of raid5 that is too large."""

    machine: Machine
    disks: dict[str, list[Disk]]
    too_large: Disk


@pytest.fixture(scope="session")
def replica(snapshots: Snapshots, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """Volumes with ids of their own, attached in an order of their own."""
    folder = tmp_path_factory.mktemp("replica")
    disks: dict[str, list[Disk]] = {}
    number = 0x500
    for tried in TRIED:
        disks[tried.key] = []
        for copy in snapshots.copies[tried.key]:
            number += 1
            disks[tried.key].append(copy.copy(f"vol-0e0{number:014x}", folder))
    some = snapshots.copies.get("raid5") or next(iter(snapshots.copies.values()))
    too_large = some[-1].copy("vol-0e0000000000badad", folder)
    with too_large.path.open("r+b") as file:
        file.truncate(too_large.path.stat().st_size + 64 * 1024 * 1024)
    everything = [*(disk for those in disks.values() for disk in those), too_large]
    random.Random(20261123).shuffle(everything)
    with machine(folder / "machine", everything) as here:
        here.run(LINKS)
        yield Replica(here, disks, too_large)


def volumes(tried: Tried, given: list[Disk], sources: list[Disk]) -> str:
    """The Volumes parameter, in an order that is not the donor's."""
    found = [
        {
            "name": f"data-{index}",
            "volume_id": disk.volume_id,
            "device": "/dev/sdf",
            "mount_point": tried.place,
            "filesystem": tried.filesystem,
            "source": source.volume_id,
        }
        for index, (disk, source) in enumerate(zip(given, sources, strict=False), start=1)
    ]
    random.Random(tried.key).shuffle(found)
    return json.dumps(found)


def assembled(
    here: Machine, tried: Tried, given: list[Disk], found: Snapshots, **manifest: Any
) -> dict[str, Any]:
    """assemble_storage of these volumes by the donor's manifest."""
    layout = [{**found.manifests[tried.key], **manifest}]
    asked = ["--volumes", volumes(tried, given, found.copies[tried.key]), "--layout", json.dumps(layout)]
    return peaker(here, tried, "assemble_storage", "--run-id", RUN, "--wait-seconds", "1", *asked)


def by_key(key: str) -> Tried:
    found = next((tried for tried in TRIED if tried.key == key), None)
    return found or pytest.skip(f"{key} is not tried")


def test_the_donor_says_what_its_filesystems_stand_on(snapshots: Snapshots) -> None:
    for tried in TRIED:
        manifest = snapshots.manifests[tried.key]
        assert (manifest["kind"], manifest["filesystem"]) == (tried.layout, tried.filesystem)
        assert {one["volume_id"] for one in manifest["volumes"]} == {
            disk.volume_id for disk in snapshots.copies[tried.key]
        }


@pytest.mark.parametrize(("key", "segments"), [("lvm_linear", 3), ("lvm_striped", 2)])
def test_a_logical_volume_that_grew_has_more_segments(key: str, segments: int, snapshots: Snapshots) -> None:
    by_key(key)
    assert len(snapshots.manifests[key]["logical_volume"]["segments"]) == segments


class TestASetThatIsNotWhole:
    """These come before the sets are brought up; nothing of them is assembled."""

    def test_raid5_with_one_wrong_size(self, replica: Replica, snapshots: Snapshots) -> None:
        tried = by_key("raid5")
        given = [*replica.disks["raid5"][:2], replica.too_large]
        refused = assembled(replica.machine, tried, given, snapshots)
        assert (refused["ok"], refused["error"]) == (False, "SetRefused")
        assert refused["message"].startswith(f"data-3 ({replica.too_large.volume_id}) has 268435456 bytes")
        assert "data-1" not in refused["message"]
        assert "data-2" not in refused["message"]

    def test_a_striped_set_with_one_member_missing(self, replica: Replica, snapshots: Snapshots) -> None:
        tried = by_key("raid0")
        refused = assembled(replica.machine, tried, replica.disks["raid0"][:1], snapshots)
        assert (refused["ok"], refused["error"]) == (False, "SetRefused")
        assert snapshots.copies["raid0"][1].volume_id in refused["message"]

    def test_two_members_in_each_others_place(self, replica: Replica, snapshots: Snapshots) -> None:
        tried = by_key("raid10")
        one, two, three, four = replica.disks["raid10"]
        refused = assembled(replica.machine, tried, [two, one, three, four], snapshots)
        assert refused["error"] == "SetRefused"
        assert "data-1" in refused["message"]
        assert "not place" in refused["message"]

    def test_nothing_was_assembled(self, replica: Replica) -> None:
        assert "active" not in replica.machine.run("cat /proc/mdstat").out
        assert "dm-" not in replica.machine.run("ls /sys/block").out


@pytest.mark.parametrize("tried", TRIED, ids=lambda one: one.key)
def test_a_set_comes_back(tried: Tried, replica: Replica, snapshots: Snapshots) -> None:
    here = replica.machine
    made = assembled(here, tried, replica.disks[tried.key], snapshots)
    assert made["ok"], json.dumps(made)
    assert made["layouts"] == {tried.place: tried.layout}
    again = assembled(here, tried, replica.disks[tried.key], snapshots)
    assert again["ok"], json.dumps(again)

    order = json.loads(host(here, tried, "order", "plan", RUN).out)
    warmed = peaker(here, tried, "prewarm", "--run-id", RUN)
    assert (warmed["ok"], warmed["state"]) == (True, "done"), json.dumps(warmed)
    assert all(volume["blocks_done"] == volume["blocks_total"] > 0 for volume in warmed["volumes"])
    done = json.loads(host(here, tried, "order", "journals", RUN).out)
    compare_with_marks(tried, snapshots, order, done)

    proof = peaker(here, tried, "verify_storage", "--run-id", RUN, "--load-seconds", "0")
    assert proof["ok"], json.dumps(proof)

    host(here, tried, "order", "mount", RUN)
    look = json.loads(here.call("workload", "look", tried.place).out)
    assert look["integrity"] == "ok"
    assert look["without_gap"]
    assert look["bad"] == []
    assert look["rows"] >= snapshots.committed[tried.key] > 0, (
        "what was committed before the instant is there"
    )
    assert look["files"] == snapshots.files[tried.key]


def compare_with_marks(
    tried: Tried, snapshots: Snapshots, order: dict[str, Any], done: dict[str, Any]
) -> None:
    """The marks are looked for in the bytes of the snapshots, which no arithmetic of ours has touched."""
    space = 11 + TRIED.index(tried)
    hot_pages = set(range(750, 1000, 11))
    hot_seen = set()
    for index, copy in enumerate(snapshots.copies[tried.key], start=1):
        tiers = order[f"data-{index}"]
        # A hot page may lie in a block that crash recovery reads, which is read still earlier.
        hot = _blocks([*tiers["recovery"], *tiers["hot"]])
        read = _blocks(done[f"data-{index}"])
        for page, block in _marks(copy.path, space):
            assert block in read, f"page {page} lies in block {block} of volume {index}, which is cold"
            if page in hot_pages:
                hot_seen.add(page)
                assert block in hot, f"hot page {page} lies in block {block} of volume {index}"
        assert len(hot) < len(read)
    assert hot_seen == hot_pages


def _marks(path: Path, space: int) -> Iterator[tuple[int, int]]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for found in _MARK.finditer(content):
            if int(found.group(1)) == space:
                yield int(found.group(2)), found.start() // BLOCK


def _blocks(ranges: list[list[int]]) -> set[int]:
    return {block for start, count in ranges for block in range(start, start + count)}


def test_the_machine_is_made() -> None:
    """`scripts/setup storage` makes it; this says so where it was forgotten."""
    assert (IMAGE / "root.img").exists(), "run `make test-storage`"
    assert subprocess.run(["qemu-system-x86_64", "--version"], check=True, capture_output=True).stdout
