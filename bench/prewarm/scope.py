"""How much of the bench is run: contents, methods, repeats."""

from __future__ import annotations

from dataclasses import dataclass

from bench.prewarm.cold_volumes import Content
from bench.prewarm.database import (
    STRATEGIES,
)
from bench.prewarm.methods import METHODS

HEADLINE = Content("4 GiB, 22 % used", 4, 0.40, 0.22, "xfs")
HEADLINE_METHODS = ("dd buffered", "dd direct", "fio line", "used only")


@dataclass(frozen=True)
class Scope:
    """How much is measured."""

    repeats: int
    contents: tuple[tuple[Content, int], ...]
    methods: tuple[str, ...]
    table_gib: float
    strategies: tuple[str, ...]
    database_repeats: int
    kills: int
    fills: int
    kill_content: Content
    verdict_volumes: int
    knee_iops: tuple[int, ...]
    file_name: str


def _matrix(size_gib: int, used_share: float, repeats: int) -> tuple[tuple[Content, int], ...]:
    label = f"{size_gib} GiB, {used_share:.0%} used"
    return tuple(
        (Content(f"{label}, {kind}", size_gib, used_share + 0.1, used_share, kind), repeats)
        for kind in ("xfs", "ext4")
    )


LARGE = Content("16 GiB, 30 % used, xfs", 16, 0.35, 0.30, "xfs")
# One repeat where a method takes minutes: thousands of fetches average out within it. The longest come first.
FULL = Scope(
    repeats=3,
    contents=(*_matrix(16, 0.3, 1), *_matrix(4, 0.4, 3)),
    methods=METHODS,
    table_gib=5.0,
    strategies=STRATEGIES,
    database_repeats=2,
    kills=20,
    fills=3,
    kill_content=LARGE,
    verdict_volumes=50,
    knee_iops=(200, 1000, 2000),
    file_name="prewarm.json",
)
QUICK = Scope(
    repeats=1,
    contents=_matrix(4, 0.4, 1)[:1],
    methods=("cat", "fio line", "block list", "used only", "hot first"),
    table_gib=1.5,
    strategies=STRATEGIES[1:5],
    database_repeats=1,
    kills=5,
    fills=1,
    kill_content=_matrix(4, 0.4, 1)[0][0],
    verdict_volumes=10,
    knee_iops=(1000,),
    file_name="prewarm-quick.json",
)
