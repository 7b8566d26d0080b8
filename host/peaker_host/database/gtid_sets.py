"""MySQL GTID sets as text: counting and subtracting. Pure. Tags (8.4 and later) are kept as part of the source id."""

from __future__ import annotations

import re
from typing import Dict, List

from peaker_host.blocks.ranges import Range, difference, merged, total
from peaker_host.machine.errors import UnclearAnswer, understood, whole

_TAG = re.compile(r"[A-Za-z_][0-9A-Za-z_]{0,31}")

GtidSet = Dict[str, List[Range]]


@understood(UnclearAnswer, "a GTID set")
def parse_gtid_set(text: str) -> GtidSet:
    """`uuid[:tag]:1-5:8,uuid2:1` as (start, length) ranges by source. Raises UnclearAnswer on other text."""
    found: GtidSet = {}
    for part in text.replace("\n", "").replace(" ", "").split(","):
        if not part:
            continue
        source, *pieces = part.split(":")
        key = source.lower()
        for piece in pieces:
            if _TAG.fullmatch(piece):
                key = f"{source.lower()}:{piece}"
                continue
            first, _, last = piece.partition("-")
            low = whole(first, "the begin of an interval", 1)
            high = whole(last or first, "the end of an interval", low)
            found.setdefault(key, []).append((low, high - low + 1))
    return {source: merged(ranges) for source, ranges in found.items()}


def count_missing(wanted: str, present: str) -> int:
    """Number of transactions in the first set that are not in the second."""
    have = parse_gtid_set(present)
    return sum(
        total(difference(ranges, have.get(source, []))) for source, ranges in parse_gtid_set(wanted).items()
    )


def subtracted(wanted: str, present: str) -> str:
    """The first set without the second, as text; empty when nothing is left."""
    have = parse_gtid_set(present)
    parts = []
    for source, ranges in parse_gtid_set(wanted).items():
        left = difference(ranges, have.get(source, []))
        shown = [
            f"{first}-{first + length - 1}" if length > 1 else f"{first}" for first, length in left if length
        ]
        parts += [":".join([source, *shown])] if shown else []
    return ",".join(parts)


def count_missing_mariadb(wanted: str, present: str) -> int:
    """Number of sequences that a MariaDB position (`domain-server-sequence,...`) lacks of another, over its domains."""
    have = _domains(present)
    return sum(max(0, sequence - have.get(domain, 0)) for domain, sequence in _domains(wanted).items())


@understood(UnclearAnswer, "a MariaDB position")
def _domains(text: str) -> Dict[int, int]:
    positions: Dict[int, int] = {}
    for part in text.replace(" ", "").split(","):
        if part:
            domain, _, sequence = (whole(number, "a part of it") for number in part.split("-"))
            positions[domain] = max(positions.get(domain, 0), sequence)
    return positions
