"""What a fill is asked for, refused with the field named; lists of blocks that make no sense."""

from __future__ import annotations

import json
from typing import Any

import pytest
from peaker_host.aws.direct_api import BlockPage
from peaker_host.fill.block_tokens import BlockTokens
from peaker_host.fill.request import parse_fill
from peaker_host.machine.errors import DirectApiRefused, HostError, InvalidArgument
from peaker_host.warm.reading_orders import READING_ORDERS

GIB = 1024**3
DATA = {
    "name": "data",
    "volume_id": "vol-0a1b2c3d4e5f60718",
    "device": "/dev/sdf",
    "mount_point": "/var/lib/mysql",
    "filesystem": "xfs",
}
LOG = {**DATA, "name": "log", "volume_id": "vol-0a1b2c3d4e5f60719", "mount_point": "/var/lib/mysql-log"}
SNAPSHOTS = {"data": "snap-0a1b2c3d4e5f60718", "log": "snap-0a1b2c3d4e5f60719"}


def parse(
    volumes: Any = (DATA, LOG), snapshots: Any = SNAPSHOTS, method: str = "hot", rate: float = 900
) -> Any:
    return parse_fill("run", method, json.dumps(volumes), json.dumps(snapshots), rate)


def test_each_volume_has_its_snapshot() -> None:
    request = parse()
    assert [member.volume_id for member in request.members] == [DATA["volume_id"], LOG["volume_id"]]
    assert request.snapshots == SNAPSHOTS


def test_volumes_of_one_mount_point_are_a_set() -> None:
    assert parse().set_mount_points == frozenset()
    assert parse(volumes=(DATA, {**LOG, "mount_point": "/var/lib/mysql"})).set_mount_points == {
        "/var/lib/mysql"
    }


@pytest.mark.parametrize("name", [name for name, order in READING_ORDERS.items() if order.needs_map])
def test_every_reading_order_by_the_filesystem_s_map_may_be_asked_for(name: str) -> None:
    assert parse(method=name).method == name


@pytest.mark.parametrize(
    ("changes", "error", "named"),
    [
        ({"snapshots": {"data": SNAPSHOTS["data"]}}, InvalidArgument, "log"),
        ({"snapshots": {**SNAPSHOTS, "other": SNAPSHOTS["data"]}}, InvalidArgument, "other"),
        ({"snapshots": {**SNAPSHOTS, "log": "vol-0a1b2c3d"}}, InvalidArgument, "not a snapshot id"),
        ({"snapshots": {**SNAPSHOTS, "log": "snap-0a1b2c3d4e5f60719/../../x"}}, InvalidArgument, "snapshot id"),
        ({"snapshots": []}, InvalidArgument, "snapshots"),
        ({"volumes": []}, InvalidArgument, "at least one volume"),
        ({"volumes": "data"}, InvalidArgument, "volumes"),
        ({"method": "full"}, InvalidArgument, "method"),
        ({"rate": 0}, InvalidArgument, "requests-per-second"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused_by_its_field(
    changes: dict[str, Any], error: type[HostError], named: str
) -> None:
    with pytest.raises(error, match=named):
        parse(**changes)


def test_tokens_of_several_pages_are_found_by_their_blocks() -> None:
    pages = {
        "": BlockPage([(1, "a"), (4, "bbbb")], "next", GIB),
        "next": BlockPage([(5, "cc")], "", GIB),
    }
    tokens = BlockTokens(pages.__getitem__)
    assert [tokens.token(index)[1] for index in (0, 1, 2, 4, 5, 6)] == [None, "a", None, "bbbb", "cc", None]
    assert (tokens.ranges(), tokens.count, tokens.volume_bytes) == ([(1, 1), (4, 2)], 3, GIB)


@pytest.mark.parametrize(
    "pages",
    [
        {"": BlockPage([(4, "a"), (4, "b")], "", GIB)},
        {"": BlockPage([(4, "a")], "next", GIB), "next": BlockPage([(3, "b")], "", GIB)},
        {"": BlockPage([(4, "a")], "next", GIB), "next": BlockPage([(5, "b")], "next", GIB)},
    ],
)
def test_a_list_that_is_no_list_is_refused(pages: dict[str, BlockPage]) -> None:
    with pytest.raises(DirectApiRefused):
        BlockTokens(pages.__getitem__)
