"""The demonstration's day as one picture: the forecast and the load on one axis, the capacity, the workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from demo.observer import Forecast, Sample

LOAD, CAPACITY, FORECAST, UNUSED, ALARM, OUT, IN = (
    "#1b6ca8", "#2e7d32", "#c77700", "#9e9e9e", "#c62828", "#2e7d32", "#8e5ea2",
)  # fmt: skip
COLORS = {"scale_out": OUT, "scale_in": IN}


@dataclass(frozen=True)
class Bar:
    """A workflow step on the lower chart."""

    label: str
    start: datetime
    end: datetime


@dataclass(frozen=True)
class Picture:
    """What the timeline shows. `crossings`: when the load passes the base capacity, and when it is below again.

    `forecasts` are each of the highest load in one `period`, one lead time ahead; `measured` is the load as
    Peaker measured it. `usd_a_day` are the peak's replicas if they were always on, and as Peaker had them.
    """

    samples: Sequence[Sample]
    measured: Sequence[tuple[datetime, float]]
    forecasts: Sequence[Forecast]
    period: timedelta
    capacity_per_replica: float
    alarm_at: datetime | None
    serving_at: datetime | None
    crossings: tuple[datetime | None, datetime | None]
    gone_at: datetime | None
    runs: Sequence[tuple[str, Sequence[Bar]]]
    title: str
    usd_a_day: tuple[float, float] | None = None


def draw(picture: Picture, path: Path) -> None:
    """Write the picture as PNG."""
    rows = max(1, len(picture.runs))
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(13, 6.6 + 0.4 * rows), sharex=True, height_ratios=[6, 0.5 + 0.5 * rows],
        layout="constrained",
    )  # fmt: skip
    _draw_load(top, picture)
    _draw_runs(bottom, picture.runs)
    figure.suptitle(picture.title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_load(axis: Axes, picture: Picture) -> None:
    base = picture.capacity_per_replica
    times = _days([s.at for s in picture.samples])
    load = [s.asked_queries_per_s for s in picture.samples]
    capacity = [s.serving_replicas * base for s in picture.samples]
    axis.fill_between(
        times, [max(base, one) for one in load], capacity,
        where=[c > max(base, one) for c, one in zip(capacity, load, strict=True)],
        color=UNUSED, alpha=0.35, lw=0, step="post", label="peak replicas: warm, not used",
    )  # fmt: skip
    axis.fill_between(
        times, base, [max(base, min(c, one)) for c, one in zip(capacity, load, strict=True)],
        color=CAPACITY, alpha=0.25, lw=0, label="peak replicas: used",
    )  # fmt: skip
    axis.step(times, capacity, where="post", color=CAPACITY, lw=2, label="capacity in service")
    _draw_forecasts(axis, picture)
    axis.plot(times, load, color=LOAD, lw=2.2, label="load that the readers ask for")
    if picture.measured:
        axis.plot(
            _days([at for at, _ in picture.measured]), [value for _, value in picture.measured],
            color=LOAD, ls="none", marker="o", ms=5, mfc="white", label="load as Peaker measured it",
        )  # fmt: skip
    axis.axhline(base, color=CAPACITY, lw=0.9, ls=":")
    top = max([*capacity, *(one.p95 for one in picture.forecasts), 1.0]) * 1.3
    for at, text, color, height in (
        (picture.alarm_at, "alarm by the forecast", ALARM, 0.54),
        (picture.serving_at, "both serve", CAPACITY, 0.66),
        (picture.crossings[0], "load passes\nthe base capacity", LOAD, 0.02),
        (picture.crossings[1], "load is below", LOAD, 0.02),
        (picture.gone_at, "both are gone", IN, 0.42),
    ):
        _mark(axis, at, text, color, height)
    axis.set_xlim(times[0], times[-1] + 25 / 1440)
    axis.set_ylabel("queries per second")
    axis.set_ylim(0, top)
    if picture.usd_a_day is not None:
        always, peaker = picture.usd_a_day
        axis.annotate(
            f"two replicas for the peak, a day\nalways on  ${always:.2f}\nPeaker  ${peaker:.2f}",
            (0.99, 0.975), xycoords="axes fraction", ha="right", va="top", fontsize=9,
            bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": CAPACITY, "alpha": 0.9},
        )  # fmt: skip
    axis.legend(loc="upper left", fontsize=9, facecolor="white", edgecolor="none", framealpha=0.9, ncols=2)
    axis.grid(alpha=0.2)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_forecasts(axis: Axes, picture: Picture) -> None:
    """Each over the period that it is of, with an arrow from the check that raised the alarm to what it foresaw."""
    for number, one in enumerate(picture.forecasts):
        start, end = _days([one.target, one.target + picture.period])
        label = "forecast, one lead time ahead: p50 to p95" if number == 0 else None
        axis.fill_between([start, end], one.p50, one.p95, color=FORECAST, alpha=0.22, lw=0, label=label)
        axis.plot([start, end], [one.p95, one.p95], color=FORECAST, lw=1.8)
        axis.plot([start, end], [one.p50, one.p50], color=FORECAST, lw=1.2, ls=":")
    known = [one for one in picture.forecasts if picture.alarm_at and one.issued_at <= picture.alarm_at]
    if known:
        start, end = _days([known[-1].issued_at, known[-1].target])
        axis.annotate(
            "", (end, known[-1].p95), (start, known[-1].p95), arrowprops={"arrowstyle": "->", "color": ALARM}
        )
        axis.annotate(
            f"one lead time, {known[-1].lead_seconds / 60:.0f} min", ((start + end) / 2, known[-1].p95),
            xytext=(0, 4), textcoords="offset points", ha="center", fontsize=9, color=ALARM,
        )  # fmt: skip


def _days(moments: Sequence[datetime]) -> list[float]:
    """matplotlib's own count of days."""
    return [float(mdates.date2num(moment)) for moment in moments]


def _mark(axis: Axes, at: datetime | None, text: str, color: str, height: float) -> None:
    if at is None:
        return
    axis.axvline(mdates.date2num(at), color=color, lw=1.1, alpha=0.8)
    axis.annotate(
        f"{text}\n{at:%H:%M}", (mdates.date2num(at), height), xycoords=("data", "axes fraction"),
        xytext=(4, 0), textcoords="offset points", fontsize=9, color=color,
    )  # fmt: skip


def _draw_runs(axis: Axes, runs: Sequence[tuple[str, Sequence[Bar]]]) -> None:
    for row, (workflow, bars) in enumerate(runs):
        for index, bar in enumerate(bars):
            start, end = _days([bar.start, bar.end])
            axis.barh(
                row,
                end - start,
                left=start,
                height=0.62,
                color=COLORS[workflow],
                alpha=0.45 if index % 2 else 0.8,
            )
        # A step that is entered once more spans what came between.
        alone = [b for b in bars if not any(b.start < o.start and o.end < b.end for o in bars)]
        for bar in sorted(alone, key=lambda b: b.start - b.end)[:4]:
            if bar.end - bar.start > timedelta(minutes=22):
                middle = mdates.date2num(bar.start + (bar.end - bar.start) / 2)
                axis.text(middle, row, bar.label, ha="center", va="center", fontsize=6.5)
    counts, labels = Counter[str](), list[str]()
    for workflow, _ in runs:
        counts[workflow] += 1
        labels.append(f"{workflow}, replica {counts[workflow]}")
    axis.set_yticks(range(len(runs)), labels, fontsize=9)
    axis.set_ylim(len(runs) - 0.4, -0.6)
    axis.xaxis.set_major_locator(mdates.MinuteLocator(byminute=[0, 30]))
    axis.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M"))
    axis.set_xlabel("cloud time (UTC)")
    axis.spines[["top", "right"]].set_visible(False)
