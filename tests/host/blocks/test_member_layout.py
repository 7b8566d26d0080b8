"""Arrays byte by byte against the definition of striping, mirroring, parity and concatenation."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker_host.blocks.ranges import (
    BLOCK_BYTES,
    Range,
    blocks_of_bytes,
    complement,
    difference,
    each_block,
    intersection,
    merged,
    nth_blocks,
    total,
)
from peaker_host.blocks.stack_places import (
    LINEAR,
    MIRRORED,
    NEAR,
    PARITY,
    PARITY_ALGORITHMS,
    STRIPED,
    Layout,
    MemberArea,
    member_ranges,
    ordered_blocks,
    parity_ranges,
)

STRIPE = Layout(STRIPED, (MemberArea("a", 10, 8), MemberArea("b", 20, 9), MemberArea("c", 0, 8)), 2)
ROW = Layout(LINEAR, (MemberArea("a", 10, 5), MemberArea("b", 0, 7)))
MIRROR = Layout(MIRRORED, (MemberArea("a", 4, 12), MemberArea("b", 0, 12)))


def near(members: int, copies: int) -> Layout:
    areas = tuple(MemberArea(f"{number}", 3, 12) for number in range(members))
    return Layout(NEAR, areas, 2, copies=copies)


def parity(members: int, algorithm: str) -> Layout:
    areas = tuple(MemberArea(f"{number}", 3, 12) for number in range(members))
    return Layout(PARITY, areas, 2, algorithm=algorithm)


ALL = (
    *(STRIPE, ROW, MIRROR, near(4, 2), near(3, 2), near(5, 3)),
    *(parity(members, algorithm) for members in (3, 4) for algorithm in PARITY_ALGORITHMS),
)


def test_a_stripe_goes_round_the_members_chunk_by_chunk() -> None:
    assert STRIPE.size_bytes == 24
    assert [byte(STRIPE, offset) for offset in range(8)] == [
        *({("a", 10)}, {("a", 11)}),
        *({("b", 20)}, {("b", 21)}),
        *({("c", 0)}, {("c", 1)}),
        *({("a", 12)}, {("a", 13)}),
    ]


def test_a_linear_array_fills_one_member_after_the_other() -> None:
    assert ROW.size_bytes == 12
    assert [byte(ROW, offset) for offset in (0, 4, 5, 11)] == [
        *({("a", 10)}, {("a", 14)}, {("b", 0)}, {("b", 6)}),
    ]


def test_a_mirror_has_every_byte_on_all_members() -> None:
    assert byte(MIRROR, 5) == {("a", 9), ("b", 5)}


def test_near_copies_of_three_members_go_on_in_the_next_row() -> None:
    """drivers/md/raid10.c: copies follow each other through the members, a row may begin with a second copy."""
    layout = near(3, 2)
    assert layout.size_bytes == 18
    assert [byte(layout, chunk * 2) for chunk in range(3)] == [
        *({("0", 3), ("1", 3)}, {("2", 3), ("0", 5)}, {("1", 5), ("2", 5)}),
    ]


# Rows of three members with one data chunk per letter, P is the parity (mdadm(8), "--layout"; md(4)).
@pytest.mark.parametrize(
    ("algorithm", "rows"),
    [
        ("left-symmetric", ("abP", "dPc", "Pef")),
        ("left-asymmetric", ("abP", "cPd", "Pef")),
        ("right-symmetric", ("Pab", "dPc", "efP")),
        ("right-asymmetric", ("Pab", "cPd", "efP")),
    ],
)
def test_parity_moves_to_another_member_with_each_row(algorithm: str, rows: tuple[str, ...]) -> None:
    layout = parity(3, algorithm)
    for number, letter in enumerate("abcdef"):
        row = next(row for row, letters in enumerate(rows) if letter in letters)
        assert byte(layout, number * 2) == {(str(rows[row].index(letter)), 3 + row * 2)}
    for row, letters in enumerate(rows):
        found = parity_ranges(layout, [(row * 4, 4)])
        assert {member for member, ranges in found.items() if ranges} == {str(letters.index("P"))}


@given(
    st.sampled_from(ALL),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 40)), max_size=4),
)
def test_ranges_are_where_their_bytes_are(layout: Layout, ranges: list[Range]) -> None:
    """Whole turns are taken at once: they may bring parity, and nothing else than single bytes do."""
    inside = [(start, min(length, layout.size_bytes - start)) for start, length in ranges]
    expected: dict[str, set[int]] = {area.member: set() for area in layout.areas}
    for offset in each_block(inside):
        for member, position in byte(layout, offset):
            expected[member].add(position)
    found = {member: set(each_block(places)) for member, places in member_ranges(layout, inside).items()}
    beside = {member: set(each_block(places)) for member, places in parity_ranges(layout, inside).items()}
    for member, positions in expected.items():
        assert positions <= found[member] <= positions | beside[member]


@given(st.sampled_from(ALL))
def test_no_two_bytes_share_a_place_and_none_is_left(layout: Layout) -> None:
    taken: list[tuple[str, int]] = []
    for offset in range(layout.size_bytes):
        taken += byte(layout, offset)
    assert len(set(taken)) == len(taken)
    for member, ranges in parity_ranges(layout, [(0, layout.size_bytes)]).items():
        taken += [(member, position) for position in each_block(ranges)]
    assert len(set(taken)) == len(taken)


def test_a_hot_block_leads_on_every_member_it_lies_on() -> None:
    layout = Layout(STRIPED, (MemberArea("a", 0, 64), MemberArea("b", 0, 64)), 8)
    ranges = member_ranges(layout, [(36, 4), (0, 16)])
    orders = {member: ordered_blocks(places, 4) for member, places in ranges.items()}
    assert orders["a"][0] == (5, 1)
    assert list(each_block(orders["b"])) == [0, 1]


@pytest.mark.parametrize("areas", [(), (MemberArea("a", 0, 0),), (MemberArea("a", -1, 5),)])
def test_an_impossible_layout_is_refused(areas: tuple[MemberArea, ...]) -> None:
    with pytest.raises(ValueError):
        Layout(LINEAR, areas)


@pytest.mark.parametrize(
    ("kind", "members", "copies", "algorithm"),
    [(PARITY, 2, 1, "left-symmetric"), (NEAR, 2, 3, "left-symmetric"), (PARITY, 3, 1, "parity-last")],
)
def test_an_array_without_arithmetic_is_refused(kind: str, members: int, copies: int, algorithm: str) -> None:
    areas = tuple(MemberArea(f"{number}", 0, 8) for number in range(members))
    with pytest.raises(ValueError):
        Layout(kind, areas, 2, copies, algorithm)


def test_a_byte_outside_the_array_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        list(ROW.places(13, 1))


def byte(layout: Layout, offset: int) -> set[tuple[str, int]]:
    return {(member, position) for member, position, _ in layout.places(offset, 1)}


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=8)


def members(ranges: list[tuple[int, int]]) -> set[int]:
    return set(each_block(ranges))


@given(RANGES)
def test_merged_ranges_hold_the_same_numbers_and_neither_touch_nor_overlap(
    ranges: list[tuple[int, int]],
) -> None:
    result = merged(ranges)
    assert members(result) == members(ranges)
    assert all(a + n < b for (a, n), (b, _) in itertools.pairwise(result))
    assert total(result) == len(members(ranges))


@given(RANGES, RANGES)
def test_set_operations_are_those_of_sets(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    assert members(intersection(left, right)) == members(left) & members(right)
    assert members(difference(left, right)) == members(left) - members(right)
    assert members(complement(left, 70)) == set(range(70)) - members(left)


@given(RANGES.filter(lambda ranges: total(merged(ranges)) > 0), st.data())
def test_nth_blocks_counts_through_the_ranges(ranges: list[tuple[int, int]], data: st.DataObject) -> None:
    clean = merged(ranges)
    everything = list(each_block(clean))
    positions = sorted(data.draw(st.lists(st.integers(0, len(everything) - 1))))
    assert nth_blocks(clean, positions) == [everything[position] for position in positions]


def test_a_byte_range_takes_every_block_it_touches() -> None:
    assert blocks_of_bytes([(BLOCK_BYTES - 1, 2), (5 * BLOCK_BYTES, BLOCK_BYTES), (9 * BLOCK_BYTES, 0)]) == [
        (0, 2),
        (5, 1),
    ]
