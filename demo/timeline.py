"""The demonstration's day as one picture: demand, capacity in service, the forecast's alarm, the workflows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from demo.observer import Sample

DEMAND, CAPACITY, FORECAST, SCALE_OUT, SCALE_IN, ALARM = (
    "#1b6ca8", "#2e7d32", "#b26a00", "#2e7d32", "#8e5ea2", "#c62828",
)  # fmt: skip


@dataclass(frozen=True)
class Bar:
    """A workflow step on the lower chart."""

    workflow: str
    label: str
    start: datetime
    end: datetime


@dataclass(frozen=True)
class Picture:
    """What the timeline shows. `forecast` are (target time, p50, p95) as forecast one lead time ahead.

    `usd_a_day` are the peak's replicas if they were always on, and as Peaker had them; None where unknown.
    """

    samples: Sequence[Sample]
    capacity_per_replica: float
    forecast: Sequence[tuple[datetime, float, float]]
    alarm_at: datetime | None
    crossed_at: datetime | None
    runs: Sequence[tuple[str, Sequence[Bar]]]
    title: str
    usd_a_day: tuple[float, float] | None = None


def draw(picture: Picture, path: Path) -> None:
    """Write the picture as PNG."""
    rows = max(1, len(picture.runs))
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(13, 6.2 + 0.45 * rows), sharex=True, height_ratios=[5, 0.6 + 0.55 * rows],
        layout="constrained",
    )  # fmt: skip
    _draw_load(top, picture)
    _draw_runs(bottom, picture.runs)
    figure.suptitle(picture.title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_load(axis: Axes, picture: Picture) -> None:
    times = _days([s.at for s in picture.samples])
    capacity = [s.serving_replicas * picture.capacity_per_replica for s in picture.samples]
    axis.fill_between(times, capacity, step="post", color=CAPACITY, alpha=0.10)
    axis.step(
        times, capacity, where="post", color=CAPACITY, lw=2, label="capacity of the replicas in service"
    )
    axis.plot(
        times, [s.asked_queries_per_s for s in picture.samples], color=DEMAND, lw=2, label="read demand"
    )
    if picture.forecast:
        ahead = _days([t for t, _, _ in picture.forecast])
        axis.plot(
            ahead,
            [p50 for _, p50, _ in picture.forecast],
            color=FORECAST,
            ls=":",
            lw=1.4,
            label="forecast p50, one lead time ahead",
        )
        axis.plot(
            ahead,
            [p95 for _, _, p95 in picture.forecast],
            color=FORECAST,
            ls="--",
            lw=1.4,
            label="forecast p95, one lead time ahead",
        )
    _draw_shortage(axis, picture, times)
    _mark(axis, picture.alarm_at, "forecast alarm", ALARM)
    _mark(axis, picture.crossed_at, "demand passes\nbase capacity", DEMAND)
    axis.set_xlim(times[0], times[-1] + 1 / 24)
    axis.set_ylabel("queries per second")
    axis.set_ylim(0, max([*capacity, 1.0]) * 1.3)
    if picture.usd_a_day is not None:
        _draw_bill(axis, *picture.usd_a_day)
    axis.legend(loc="upper left", fontsize=9, facecolor="white", edgecolor="none", framealpha=0.9, ncols=2)
    axis.grid(alpha=0.2)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_shortage(axis: Axes, picture: Picture, times: Sequence[float]) -> None:
    """What the base replica alone could not have served."""
    demand = [s.asked_queries_per_s for s in picture.samples]
    base = picture.capacity_per_replica
    axis.fill_between(
        times,
        base,
        demand,
        where=[asked > base for asked in demand],
        step="post",
        color=ALARM,
        alpha=0.25,
        lw=0,
        label="shortage without Peaker",
    )
    axis.axhline(base, color=ALARM, lw=0.8, ls=":")


def _draw_bill(axis: Axes, always_on: float, peaker: float) -> None:
    axis.annotate(
        f"the peak's replicas, one day\nalways on  ${always_on:.2f}\nPeaker  ${peaker:.2f}",
        (0.99, 0.97), xycoords="axes fraction", ha="right", va="top", fontsize=9,
        bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": CAPACITY, "alpha": 0.9},
    )  # fmt: skip


def _days(moments: Sequence[datetime]) -> list[float]:
    """matplotlib's own count of days."""
    return [float(mdates.date2num(moment)) for moment in moments]


def _mark(axis: Axes, at: datetime | None, text: str, color: str) -> None:
    if at is None:
        return
    axis.axvline(mdates.date2num(at), color=color, lw=1.2)
    axis.annotate(
        f"{text}\n{at:%H:%M}", (mdates.date2num(at), 0.03), xycoords=("data", "axes fraction"),
        xytext=(4, 0), textcoords="offset points", fontsize=9, color=color,
    )  # fmt: skip


def _draw_runs(axis: Axes, runs: Sequence[tuple[str, Sequence[Bar]]]) -> None:
    for row, (_, bars) in enumerate(runs):
        for index, bar in enumerate(bars):
            start, end = mdates.date2num(bar.start), mdates.date2num(bar.end)
            color = SCALE_OUT if bar.workflow == "scale_out" else SCALE_IN
            axis.barh(row, end - start, left=start, height=0.6, color=color, alpha=0.55 if index % 2 else 0.9)
        if bars:
            # A step that is entered once more spans what came between.
            alone = [b for b in bars if not any(b.start < o.start and o.end < b.end for o in bars)]
            longest = max(alone, key=lambda b: b.end - b.start)
            took = (bars[-1].end - bars[0].start).total_seconds() / 3600
            axis.annotate(
                f" {took:.1f} h, longest step {longest.label}", (mdates.date2num(bars[-1].end), row),
                xytext=(4, 0), textcoords="offset points", fontsize=8, va="center",
            )  # fmt: skip
    axis.set_yticks(range(len(runs)), [label for label, _ in runs], fontsize=8)
    axis.set_ylim(len(runs) - 0.4, -0.75)
    axis.xaxis.set_major_locator(mdates.HourLocator(interval=2))
    axis.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M"))
    axis.set_xlabel("cloud time (UTC)")
    axis.spines[["top", "right"]].set_visible(False)
