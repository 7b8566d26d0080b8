"""What a restored set is refused for, by the name of the volume."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peaker_host.blocks.stack_places import block_orders, head_blocks, parity_blocks
from peaker_host.layouts.assemble import SeenVolume, why_not_the_set
from peaker_host.layouts.lvm_reports import MdMember, logical_volume, parse_examine, parse_pvs, rows_of
from peaker_host.machine.errors import InvalidArgument, LayoutUnsupported
from peaker_host.machine.manifest import (
    Array,
    ArraySlot,
    LogicalVolume,
    PhysicalVolume,
    Segment,
    Stack,
    StackVolume,
    Stripe,
    layout_kind,
    parse_stacks,
    stack_document,
    stack_of,
)
from peaker_host.warm.plan import set_orders
from peaker_host.warm.reading_order import tiers_of

MIB = 1024**2
ARRAY = "68ba530e:a5a8ae46:bae47bb8:8b2ca788"
NAMES = {f"vol-{n}": f"data-{n}" for n in range(3)}
# mdadm 4.2 of a member of a RAID 5 in use.
EXAMINED = f"""/dev/nvme1n1:
          Magic : a92b4efc
        Version : 1.2
    Feature Map : 0x0
     Array UUID : {ARRAY}
           Name : any:15
  Creation Time : Mon Nov 23 00:37:12 2026
     Raid Level : raid5
   Raid Devices : 3

 Avail Dev Size : 391168 sectors (191.00 MiB 200.28 MB)
     Array Size : 391168 KiB (382.00 MiB 400.56 MB)
    Data Offset : 2048 sectors
   Super Offset : 8 sectors
          State : clean
    Device UUID : b28be6b8:6118bc14:1c0ddb6e:f5c702e8
         Events : 20

         Layout : left-symmetric
     Chunk Size : 64K

   Device Role : Active device 1
   Array State : AAA ('A' == active, '.' == missing, 'R' == replacing)
"""


def raid5() -> Stack:
    slots = tuple(ArraySlot(n, f"vol-{n}", MIB) for n in range(3))
    array = Array(ARRAY, "raid5", "left-symmetric", 65536, 191 * MIB, "1.2", slots)
    volumes = tuple(StackVolume(f"vol-{n}", 192 * MIB, f"device-{n}") for n in range(3))
    return Stack("/var/lib/mysql", "xfs", "5a0e", 382 * MIB, "raid5", volumes, (array,))


def member(slot: int) -> MdMember:
    return replace(parse_examine("/dev/x", EXAMINED), slot=slot, device_uuid=f"device-{slot}")


def whole() -> dict[str, SeenVolume]:
    return {f"vol-{n}": SeenVolume(192 * MIB, f"device-{n}", member(n)) for n in range(3)}


def test_the_whole_set_is_taken() -> None:
    assert why_not_the_set(raid5(), whole(), NAMES) == []


def test_what_mdadm_says_is_read() -> None:
    read = parse_examine("/dev/nvme1n1", EXAMINED)
    assert (read.level, read.algorithm, read.chunk_bytes, read.slot) == ("raid5", "left-symmetric", 65536, 1)
    assert (read.data_offset_bytes, read.member_bytes, read.events, read.state) == (MIB, 191 * MIB, 20, "AAA")


@pytest.mark.parametrize(
    ("volume", "seen", "said"),
    [
        (
            "vol-1",
            SeenVolume(256 * MIB, "device-1", member(1)),
            "data-1 (vol-1) has 268435456 bytes",
        ),
        ("vol-1", SeenVolume(192 * MIB), "data-1 (vol-1) carries no superblock of md; it was place 1"),
        (
            "vol-1",
            SeenVolume(192 * MIB, "device-2", member(2)),
            "data-1 (vol-1) is place 2 of the array, not place 1",
        ),
        (
            "vol-2",
            SeenVolume(192 * MIB, "device-2", replace(member(2), array_uuid="other")),
            "data-2 (vol-2) belongs to array other",
        ),
        (
            "vol-0",
            SeenVolume(192 * MIB, "device-0", replace(member(0), chunk_bytes=4096)),
            "data-0 (vol-0) describes another array: chunk 4096 instead of 65536",
        ),
        (
            "vol-0",
            SeenVolume(192 * MIB, "device-0", replace(member(0), events=18)),
            "data-0 (vol-0) has seen 18 events, another member 20",
        ),
        (
            "vol-0",
            SeenVolume(192 * MIB, "device-0", replace(member(0), slot=None)),
            "data-0 (vol-0) is a spare of the array",
        ),
    ],
)
def test_a_volume_that_is_not_of_the_set_is_named(volume: str, seen: SeenVolume, said: str) -> None:
    [reason] = why_not_the_set(raid5(), {**whole(), volume: seen}, NAMES)
    assert reason.startswith(said)


def test_a_member_may_have_missed_the_last_update_of_the_superblocks() -> None:
    seen = {**whole(), "vol-0": SeenVolume(192 * MIB, "device-0", replace(member(0), events=19))}
    assert why_not_the_set(raid5(), seen, NAMES) == []


def test_an_array_of_the_old_metadata_is_refused() -> None:
    with pytest.raises(LayoutUnsupported, match=r"version 0\.90"):
        parse_examine("/dev/sdf", EXAMINED.replace("1.2", "0.90.00"))


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert stack_of(stack_document(lvm())) == lvm()
    with pytest.raises(InvalidArgument, match="layout"):
        parse_stacks('[{"mount_point": 1}]')


PVS = """{"report": [{"pv": [
 {"pv_name":"/dev/md20","pv_uuid":"a","vg_name":"g","vg_uuid":"G","pe_start":"1048576","vg_extent_size":"4194304",
  "vg_missing_pv_count":"0"},
 {"pv_name":"/dev/nvme5n1","pv_uuid":"b","vg_name":"g","vg_uuid":"G","pe_start":"1048576","vg_extent_size":"4194304",
  "vg_missing_pv_count":"0"}]}]}"""


def test_segments_are_where_lvm_says() -> None:
    places = dict(zip(("array", "vol-5"), parse_pvs(PVS), strict=True))
    row = {"lv_name": "data", "lv_uuid": "L", "vg_name": "g", "vg_uuid": "G", "segtype": "striped"}
    row |= {
        "seg_start": "0",
        "seg_size": "16777216",
        "stripe_size": "65536",
        "seg_pe_ranges": "/dev/md20:0-1 /dev/nvme5n1:3-4",
    }
    found = logical_volume("data", [row], places)
    [segment] = found.segments
    assert segment.stripes == (Stripe("a", MIB), Stripe("b", MIB + 3 * 4 * MIB))
    assert {one.on for one in found.physical_volumes} == {"array", "vol-5"}
    with pytest.raises(LayoutUnsupported, match="type thin"):
        logical_volume("data", [{**row, "segtype": "thin"}], places)
    with pytest.raises(LayoutUnsupported, match="report"):
        rows_of("no json", "lv")


def lvm() -> Stack:
    """A striped volume over two volumes that was grown by a linear segment on the first."""
    logical = LogicalVolume(
        "L",
        "data",
        "G",
        "g",
        (PhysicalVolume("a", "vol-0"), PhysicalVolume("b", "vol-1")),
        (
            Segment(0, 8 * MIB, 65536, (Stripe("a", MIB), Stripe("b", MIB))),
            Segment(8 * MIB, 4 * MIB, 0, (Stripe("a", 5 * MIB),)),
        ),
    )
    volumes = (StackVolume("vol-0", 16 * MIB, "a"), StackVolume("vol-1", 16 * MIB, "b"))
    return Stack("/data", "xfs", "5a0e", 12 * MIB, "lvm_striped", volumes, (), logical)


def test_blocks_of_the_filesystem_are_found_on_the_volumes() -> None:
    assert block_orders(lvm(), [(0, 1)]) == {"vol-0": [(2, 1)], "vol-1": [(2, 1)]}
    assert block_orders(lvm(), [(16, 2)]) == {"vol-0": [(10, 2)], "vol-1": []}


def test_the_tiers_of_a_set_end_with_parity_and_heads_and_hold_each_block_once() -> None:
    stack = raid5()
    first, whole = set_orders(stack, [("recovery", [(0, 1)]), ("hot", [])], [(0, 8)])
    for volume_id in stack.volume_ids:
        own = [(name, of[volume_id]) for name, of in first]
        made = tiers_of(own, whole[volume_id], [(0, 384)], with_remainder=True)
        blocks = [block for tier in made for start, n in tier.ranges for block in range(start, start + n)]
        assert len(set(blocks)) == len(blocks) == 384
        assert [tier.name for tier in made] == ["recovery", "hot", "used", "remainder"]
        used = {block for tier in made[:3] for start, n in tier.ranges for block in range(start, start + n)}
        for beside in (parity_blocks(stack, [(0, 8)]), head_blocks(stack)):
            assert {start + n for start, count in beside[volume_id] for n in range(count)} <= used


def test_names_of_layouts_are_those_of_the_settings() -> None:
    linear = lvm().logical_volume
    assert linear is not None
    assert layout_kind([], ()) == "single"
    assert layout_kind(["raid10"], ()) == "raid10"
    assert layout_kind(["raid1"], linear.segments) == "raid1_lvm"
    assert layout_kind([], linear.segments) == "lvm_striped"
    assert layout_kind([], linear.segments[1:]) == "lvm_linear"
