"""MySQL GTID sets as text: counting and subtracting. Pure. Tags (8.4 and later) are kept as part of the source id."""

from __future__ import annotations

from typing import Dict, List

from peaker_host.blocks.ranges import Range, difference, merged, total

GtidSet = Dict[str, List[Range]]


def parse_gtid_set(text: str) -> GtidSet:
    """`uuid[:tag]:1-5:8,uuid2:1` as (start, length) ranges by source. Raises ValueError on other text."""
    found: GtidSet = {}
    for part in text.replace("\n", "").replace(" ", "").split(","):
        if not part:
            continue
        source, *pieces = part.split(":")
        key = source.lower()
        for piece in pieces:
            if not piece[0].isdigit():
                key = f"{source.lower()}:{piece}"
                continue
            first, _, last = piece.partition("-")
            found.setdefault(key, []).append((int(first), int(last or first) - int(first) + 1))
    return {source: merged(ranges) for source, ranges in found.items()}


def count_missing(wanted: str, present: str) -> int:
    """Number of transactions in the first set that are not in the second."""
    have = parse_gtid_set(present)
    return sum(
        total(difference(ranges, have.get(source, []))) for source, ranges in parse_gtid_set(wanted).items()
    )


def count_missing_mariadb(wanted: str, present: str) -> int:
    """The same for MariaDB positions `domain-server-sequence,...`: sequences still to come, over the domains."""
    have = _domains(present)
    return sum(max(0, sequence - have.get(domain, 0)) for domain, sequence in _domains(wanted).items())


def _domains(text: str) -> Dict[int, int]:
    positions: Dict[int, int] = {}
    for part in text.replace(" ", "").split(","):
        if part:
            domain, _, sequence = (int(number) for number in part.split("-"))
            positions[domain] = max(positions.get(domain, 0), sequence)
    return positions
