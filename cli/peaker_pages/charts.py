"""Charts are drawn as SVG in percent of the page's width, so that their letters keep their size on every screen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Literal
from xml.etree.ElementTree import Element

from peaker_pages.elements import Node, el

Points = Sequence[tuple[datetime, float]]
# On a narrow screen every other one is left out.
_TICKS_AT_MOST = 14
_STEPS = [timedelta(minutes=one) for one in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)]
_STEPS += [timedelta(days=one) for one in (1, 2, 7, 14, 28, 56, 112, 224)]
_DAY = timedelta(days=1)
# Of a plot's own units across; its height is in pixels.
_ACROSS = 1000.0
# A longer time without a point, in usual distances, is a gap.
_GAP = 4.0


@dataclass(frozen=True)
class TimeAxis:
    """From `start` to `end`, both aware; positions are in percent."""

    start: datetime
    end: datetime

    def at(self, when: datetime) -> float:
        """Returns the position; what lies outside stands at the edge."""
        whole = max(1.0, (self.end - self.start).total_seconds())
        return min(100.0, max(0.0, 100.0 * (when - self.start).total_seconds() / whole))

    def ticks(self) -> list[tuple[float, str]]:
        """Returns positions and labels: days with their month, hours of a day, midnight as its day."""
        step = next((one for one in _STEPS if (self.end - self.start) / one <= _TICKS_AT_MOST), _STEPS[-1])
        when, found = self.start.replace(hour=0, minute=0, second=0, microsecond=0), []
        when += math.ceil((self.start - when) / step) * step
        while when <= self.end:
            is_day = step >= _DAY or (when.hour, when.minute) == (0, 0)
            found.append((self.at(when), f"{when.day} {when:%b}" if is_day else f"{when:%H:%M}"))
            when += step
        return found


@dataclass(frozen=True)
class Series:
    """A line, steps that hold until the next point, or a band up to `upper`; `colour` is one of the page's names.

    It is `broken` where points are missing, unless they are changes alone.
    """

    name: str
    colour: str
    points: Points
    kind: Literal["line", "step", "band"] = "line"
    upper: Points = ()
    broken: bool = True

    @property
    def most(self) -> float:
        """Returns the highest value, 0 without points."""
        return max((value for _, value in (*self.points, *self.upper)), default=0.0)


@dataclass(frozen=True)
class Segment:
    """A piece of a bar, in percent."""

    left: float
    width: float
    colour: str
    text: str = ""


def line_chart(
    label: str,
    axis: TimeAxis,
    series: Sequence[Series],
    unit: str,
    height: int = 220,
    now: datetime | None = None,
) -> Element:
    """Draws the series over time from 0 up. `label` says in words what is seen; behind `now` lies what is forecast."""
    high = _nice(1.04 * max((one.most for one in series), default=0.0))
    steps = (
        [high * part / 4 for part in range(5)] if high > 4 else [float(one) for one in range(round(high) + 1)]
    )
    grid: list[Node] = []
    for value in steps:
        y = round(height * (1 - value / high), 1)
        grid += [_rule("0", "100%", y, y), el("text", _short(value), x="-8", y=y + 4, text_anchor="end")]
    for number, (x, text) in enumerate(axis.ticks()):
        grid += [_rule(f"{x:.2f}%", f"{x:.2f}%", 0, height), _tick(number, x, height + 18, text)]
    if now is not None:
        grid.append(_rule(f"{axis.at(now):.2f}%", f"{axis.at(now):.2f}%", 0, height, "now"))
    drawn = [_drawn(one, axis, height / high) for one in series if one.points]
    plot = el(
        "svg",
        el("g", drawn, transform=f"translate(0 {height}) scale(1 -1)"),
        width="100%",
        height=height,
        viewBox=f"0 0 {_ACROSS:g} {height}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    whole = el("svg", grid, plot, height=height + 24, role="img", aria_label=label)
    keys = [(one.name, one.colour, one.kind == "band") for one in series]
    return el("figure", el("figcaption", el("span", unit), legend(keys)), el("div", whole, class_="plot"))


def legend(keys: Iterable[tuple[str, str, bool]]) -> Element:
    """Names of the colours; the third says that it is an area."""
    return el(
        "ul",
        (
            el("li", name, class_="key area" if area else "key", style=f"--c:var(--{colour})")
            for name, colour, area in keys
        ),
        class_="legend",
    )


def bars(
    rows: Iterable[tuple[Node, Sequence[Segment], Node]],
    ticks: Sequence[tuple[float, str]] = (),
    keys: Iterable[tuple[str, str]] = (),
) -> Element:
    """Draws a bar for each row, between its name and its figure; `ticks` are those of an axis that all have."""
    lines = [el("i", class_="tick", style=f"left:{x:.2f}%") for x, _ in ticks]
    made = []
    for name, segments, figure in rows:
        pieces = [
            el("i", class_="piece", title=one.text or None,
               style=f"left:{one.left:.2f}%;width:{one.width:.2f}%;background:var(--{one.colour})")
            for one in segments
        ]  # fmt: skip
        track = el(
            "div", [el("i", class_="tick", style=one.get("style")) for one in lines], pieces, class_="track"
        )
        made.append(el("li", el("span", name, class_="name"), track, el("span", figure, class_="figure")))
    axis = el(
        "svg",
        (_tick(number, x, 12, text) for number, (x, text) in enumerate(ticks)),
        height=18,
        aria_hidden="true",
    )
    head = el("div", el("span"), axis, el("span"), class_="axis", aria_hidden="true") if ticks else None
    named = legend((name, colour, True) for name, colour in keys) if keys else None
    return el("div", named, head, el("ol", made), class_="bars")


def thinned(points: Points, most: int = 700) -> list[tuple[datetime, float]]:
    """Returns the highest of each few points, so that no more than `most` are left."""
    size = max(1, math.ceil(len(points) / most))
    groups = (points[at : at + size] for at in range(0, len(points), size))
    return [(group[0][0], max(value for _, value in group)) for group in groups]


def _rule(x1: str, x2: str, y1: float, y2: float, kind: str = "grid") -> Element:
    return el("line", x1=x1, x2=x2, y1=y1, y2=y2, class_=kind)


def _tick(number: int, x: float, y: float, text: str) -> Element:
    anchor = "start" if x < 3 else "end" if x > 97 else "middle"
    return el("text", text, x=f"{x:.2f}%", y=y, text_anchor=anchor, class_="odd" if number % 2 else None)


def _drawn(series: Series, axis: TimeAxis, scale: float) -> Element:
    if series.kind == "band":
        upper = dict(series.upper)
        pairs = [(at, low, upper[at]) for at, low in series.points if at in upper]
        path = ""
        for part in _unbroken([(at, low) for at, low, _ in pairs]):
            inside = {at for at, _ in part}
            over = [(at, high) for at, _, high in pairs if at in inside]
            path += _path(over, axis, scale) + _path(part[::-1], axis, scale).replace("M", "L", 1) + "Z"
        return el("path", d=path, fill=f"var(--{series.colour})", class_="band")
    held = series.kind == "step"
    parts = _unbroken(series.points) if series.broken else [series.points]
    path = "".join(_path(part, axis, scale, held) for part in parts)
    return el("path", d=path, stroke=f"var(--{series.colour})", class_="line")


def _path(points: Points, axis: TimeAxis, scale: float, held: bool = False) -> str:
    words = []
    for number, (at, value) in enumerate(points):
        x, y = f"{axis.at(at) * _ACROSS / 100:.1f}", f"{value * scale:.1f}"
        words.append(f"M{x} {y}" if number == 0 else f"H{x}V{y}" if held else f"L{x} {y}")
    return "".join(words)


def _unbroken(points: Points) -> list[list[tuple[datetime, float]]]:
    """Returns the stretches between gaps: what was not measured is not drawn."""
    gaps = [(other[0] - one[0]).total_seconds() for one, other in pairwise(points)]
    longest = _GAP * median(gaps) if gaps else 0.0
    parts = [[one] for one in points[:1]]
    for gap, one in zip(gaps, points[1:], strict=True):
        if gap > longest:
            parts.append([])
        parts[-1].append(one)
    return parts


def _nice(top: float) -> float:
    if top <= 4:
        return float(max(1, math.ceil(top)))
    power = 10.0 ** math.floor(math.log10(top))
    return next(
        (one * power for one in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8) if top <= one * power), 10 * power
    )


def _short(value: float) -> str:
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
