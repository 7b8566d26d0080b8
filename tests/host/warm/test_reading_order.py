"""Which blocks come first."""

from __future__ import annotations

import struct
from functools import partial

import pytest
from host_bench import MIB, Host
from peaker_host.blocks.database_files import (
    Tablespace,
    find_database,
    hot_blocks,
    is_recovery_file,
    pages_in,
    parse_tablespace_header,
    read_in_pieces,
    recovery_blocks,
)
from peaker_host.blocks.filesystem_maps import FileEntry, open_map
from peaker_host.blocks.ranges import BLOCK_BYTES, each_block, total
from peaker_host.machine.settings import Processes
from peaker_host.warm.plan import urgent_tiers
from peaker_host.warm.reading_order import NamedBlocks, tiers_of

PAGE = 16384


def header(space_id: int, flags: int) -> bytes:
    page = bytearray(4096)
    struct.pack_into(">I", page, 34, space_id)
    struct.pack_into(">I", page, 54, flags)
    return bytes(page)


def test_the_first_tiers_come_in_their_order_then_the_rest_each_block_once() -> None:
    urgent = [("hot", [(7, 1), (3, 2)]), ("recovery", [(3, 3)])]
    tiers = tiers_of(urgent, [(0, 20)], [(0, 40)], with_remainder=False)
    assert [(tier.name, tier.ranges) for tier in tiers] == [
        ("hot", [(7, 1), (3, 2)]),
        ("recovery", [(5, 1)]),
        ("used", [(0, 3), (6, 1), (8, 12)]),
    ]
    assert sum(total(tier.ranges) for tier in tiers) == 20


def test_the_snapshot_s_list_cuts_every_tier_and_the_remainder_is_what_it_has_besides() -> None:
    urgent: NamedBlocks = [("hot", [(9, 1), (5, 1)]), ("recovery", [])]
    tiers = tiers_of(urgent, [(0, 10)], [(2, 4), (20, 2)], with_remainder=True)
    assert [(tier.name, tier.ranges) for tier in tiers] == [
        ("hot", [(5, 1)]),
        ("recovery", []),
        ("used", [(2, 3)]),
        ("remainder", [(20, 2)]),
    ]


def test_blocks_with_more_hot_pages_come_first_and_equal_ones_in_device_order() -> None:
    space = Tablespace(7, PAGE, [(0, 4 * BLOCK_BYTES, 4 * BLOCK_BYTES)])
    per_block = BLOCK_BYTES // PAGE
    pages = [(7, 0), (7, 2 * per_block), (7, 2 * per_block + 1), (7, 3 * per_block), (8, 0), (7, 99999)]
    assert list(each_block(hot_blocks(pages, [space]))) == [6, 4, 7]


def test_a_page_across_two_extents_heats_both_blocks() -> None:
    space = Tablespace(7, PAGE, [(0, 0, 3 * PAGE + 4096), (3 * PAGE + 4096, 10 * BLOCK_BYTES, 8 * PAGE)])
    assert sorted(each_block(hot_blocks([(7, 3)], [space]))) == [0, 10]


@pytest.mark.parametrize(
    ("engine", "flags", "expected"),
    [
        ("mysql", 0x4000, 16384),
        ("mysql", 3 << 6, 4096),
        ("mysql", 7 << 6, 65536),
        ("mysql", (4 << 1) | 1, 8192),
        ("mariadb", 0x15, 16384),
        ("mariadb", 0x13, 4096),
        ("mariadb", 0, 16384),
    ],
)
def test_page_size_on_disk_by_engine_and_flags(engine: str, flags: int, expected: int) -> None:
    assert parse_tablespace_header(header(4711, flags), engine) == (4711, expected)


def test_a_page_list_survives_lines_that_are_none() -> None:
    text = b"12,3\n\nx,1\n5\n4294967294,7\n\0\0"
    for size in (1, 3, 7, 100):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        assert list(pages_in(pieces)) == [(12, 3), (4294967294, 7)]


@pytest.mark.parametrize(
    "path", ["#innodb_redo/#ib_redo12", "ib_logfile0", "ibdata1", "undo_001", "undo001", "mysql.ibd"]
)
def test_files_that_recovery_reads(path: str) -> None:
    assert is_recovery_file(path)


@pytest.mark.parametrize(
    "path", ["orders/t.ibd", "binlog.000007", "orders/undo_001.ibd", "auto.cnf", "#innodb_redo/#ib_redo9_tmp"]
)
def test_files_that_recovery_leaves_alone(path: str) -> None:
    assert not is_recovery_file(path)


def test_recovery_blocks_are_those_of_the_files_extents() -> None:
    entries = [FileEntry("ibdata1", 1), FileEntry("orders/t.ibd", 2)]
    extents = {"ibdata1": [(0, 3 * BLOCK_BYTES, 10)], "orders/t.ibd": [(0, 0, 10)]}
    assert recovery_blocks(entries, extents) == [(3, 1)]


@pytest.mark.real
@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_the_page_list_of_a_data_directory_leads_to_the_pages_on_the_device(host: Host, kind: str) -> None:
    """Pages carry a mark; the hot blocks must hold exactly the marked pages that the list names."""
    volume = host.volume(320 * MIB, kind)
    per_file = 200
    with host.mounted(volume) as point:
        (point / "orders").mkdir()
        for space in (11, 12, 13):
            pages = bytearray(header(space, 0x4000).ljust(PAGE, b"\0"))
            for page in range(1, per_file):
                pages += f"mark {space},{page};".encode().ljust(PAGE, b"\0")
            (point / "orders" / f"t{space}.ibd").write_bytes(pages)
        (point / "mysql.ibd").write_bytes(header(4294967294, 0x4000).ljust(PAGE, b"\0"))
        (point / "ib_buffer_pool").write_text("11,40\n13,7\n13,8\n13,150\n99,1\n4294967294,0\n")
    files = find_database(open_map(kind, volume.path, Processes()))
    page_list = partial(read_in_pieces, volume.path, files.page_list)
    (_, recovery), (_, hot) = urgent_tiers(volume.path, files, "mysql", page_list)
    content = b""
    with open(volume.path, "rb") as device:
        for block in each_block(hot):
            device.seek(block * BLOCK_BYTES)
            content += device.read(BLOCK_BYTES)
    for wanted in (b"mark 11,40;", b"mark 13,7;", b"mark 13,8;", b"mark 13,150;"):
        assert wanted in content
    assert 3 <= len(list(each_block(hot))) <= 5
    assert recovery
