"""Range arithmetic, against sets of integers."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from peaker_host.blocks.ranges import (
    BLOCK_BYTES,
    blocks_of_bytes,
    complement,
    difference,
    each_block,
    intersection,
    merged,
    nth_blocks,
    total,
)

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
