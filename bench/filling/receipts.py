"""What the receipts of two runs say of the way until the volumes are warm."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bench.filling.cluster import CLOCK_SCALE


def hot_ready_seconds(receipt: Mapping[str, Any]) -> float:
    """From the volumes' making until the hot set is there, in real seconds: the workflow's way to the engine by the
    cloud's clock, and the engine's own time."""
    return _to_engine(receipt, "CreateVolumes") + float(numbers(receipt, "ReportPrewarm")["hot_warm_seconds"])


def all_ready_seconds(receipt: Mapping[str, Any], first: str = "CreateVolumes") -> float:
    """From the start of this step until the engine had all that it was to bring or to read, in real seconds."""
    return _to_engine(receipt, first) + float(numbers(receipt, "ReportPrewarm")["elapsed_seconds"])


def whole_seconds(receipt: Mapping[str, Any]) -> float:
    """Of the run, until the replica has its share, in real seconds."""
    return float(receipt["seconds"]) / CLOCK_SCALE


def numbers(receipt: Mapping[str, Any], step: str) -> Mapping[str, Any]:
    """What the step measured."""
    found: Mapping[str, Any] = steps(receipt)[step]["numbers"]
    return found


def steps(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """By name."""
    return {step["step"]: step for step in receipt["steps"]}


def _to_engine(receipt: Mapping[str, Any], first: str) -> float:
    of = steps(receipt)
    begun, engine = (datetime.fromisoformat(of[name]["started_at"]) for name in (first, "StartPrewarm"))
    return (engine - begun).total_seconds() / CLOCK_SCALE
