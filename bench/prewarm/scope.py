"""How much of the bench is run: contents, methods, repeats."""

from __future__ import annotations

from dataclasses import dataclass

from bench.prewarm.cold_volumes import Content
from bench.prewarm.database import STRATEGIES

HEADLINE = Content("4 GiB, 22 % used", 4, 0.40, 0.22, "xfs")


@dataclass(frozen=True)
class Scope:
    """How much is measured."""

    repeats: int
    table_gib: float
    strategies: tuple[str, ...]
    database_repeats: int
    kills: int
    kill_content: Content
    verdict_volumes: int
    knee_iops: tuple[int, ...]
    file_name: str


FULL = Scope(
    repeats=3,
    table_gib=5.0,
    strategies=STRATEGIES,
    database_repeats=2,
    kills=20,
    kill_content=Content("16 GiB, 30 % used, xfs", 16, 0.35, 0.30, "xfs"),
    verdict_volumes=50,
    knee_iops=(200, 1000, 2000),
    file_name="prewarm.json",
)
QUICK = Scope(
    repeats=1,
    table_gib=1.5,
    strategies=STRATEGIES[1:5],
    database_repeats=1,
    kills=5,
    kill_content=Content("4 GiB, 40 % used, xfs", 4, 0.50, 0.40, "xfs"),
    verdict_volumes=10,
    knee_iops=(1000,),
    file_name="prewarm-quick.json",
)
