"""Arrays byte by byte against the definition of striping and concatenation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker_host.blocks.member_layout import Layout, MemberArea, member_block_orders, member_ranges
from peaker_host.blocks.ranges import each_block

STRIPE = Layout((MemberArea("a", 10, 8), MemberArea("b", 20, 9), MemberArea("c", 0, 8)), chunk_bytes=2)
LINEAR = Layout((MemberArea("a", 10, 5), MemberArea("b", 0, 7)))


def test_a_stripe_goes_round_the_members_chunk_by_chunk() -> None:
    assert STRIPE.size_bytes == 24
    assert [STRIPE.locate(offset)[:2] for offset in range(8)] == [
        *(("a", 10), ("a", 11)),
        *(("b", 20), ("b", 21)),
        *(("c", 0), ("c", 1)),
        *(("a", 12), ("a", 13)),
    ]


def test_a_linear_array_fills_one_member_after_the_other() -> None:
    assert LINEAR.size_bytes == 12
    assert [LINEAR.locate(offset)[:2] for offset in (0, 4, 5, 11)] == [
        ("a", 10),
        ("a", 14),
        ("b", 0),
        ("b", 6),
    ]


@given(
    st.sampled_from([STRIPE, LINEAR]),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 12)), max_size=4),
)
def test_ranges_are_where_their_bytes_are(layout: Layout, ranges: list[tuple[int, int]]) -> None:
    inside = [(start, min(length, layout.size_bytes - start)) for start, length in ranges]
    expected: dict[str, set[int]] = {area.member: set() for area in layout.areas}
    for offset in each_block(inside):
        member, position, _ = layout.locate(offset)
        expected[member].add(position)
    found = member_ranges(layout, inside)
    assert {member: set(each_block(places)) for member, places in found.items()} == expected


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=4))
def test_every_wanted_block_is_read_on_its_members_once_and_in_order(order: list[tuple[int, int]]) -> None:
    layout = Layout((MemberArea("a", 3, 24), MemberArea("b", 8, 24)), chunk_bytes=6)
    orders = member_block_orders(layout, order, block_bytes=4)
    wanted: dict[str, list[int]] = {"a": [], "b": []}
    for block in each_block(order):
        for offset in range(block * 4, min(block * 4 + 4, layout.size_bytes)):
            member, position, _ = layout.locate(offset)
            if position // 4 not in wanted[member]:
                wanted[member].append(position // 4)
    for member, blocks in wanted.items():
        assert sorted(each_block(orders[member])) == sorted(blocks)
    if len(order) == 1:
        assert {member: list(each_block(ranges)) for member, ranges in orders.items()} == wanted


def test_a_hot_block_leads_on_every_member_it_lies_on() -> None:
    layout = Layout((MemberArea("a", 0, 64), MemberArea("b", 0, 64)), chunk_bytes=8)
    orders = member_block_orders(layout, [(9, 1), (0, 4)], block_bytes=4)
    assert orders["a"][0] == (5, 1)
    assert list(each_block(orders["b"])) == [0, 1]


@pytest.mark.parametrize("areas", [(), (MemberArea("a", 0, 0),), (MemberArea("a", -1, 5),)])
def test_an_impossible_layout_is_refused(areas: tuple[MemberArea, ...]) -> None:
    with pytest.raises(ValueError):
        Layout(areas, 4)


@pytest.mark.parametrize("offset", [-1, 12])
def test_a_byte_outside_the_array_is_refused(offset: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        LINEAR.locate(offset)
