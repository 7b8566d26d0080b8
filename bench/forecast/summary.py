"""The figures that the parts come to, and their tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.forecast.accuracy import BUCKET_ENDS_MINUTES, Accuracy, TwoDays, geometric, pooled_coverage, ratios
from bench.forecast.figures import Figure, figure, stated
from bench.forecast.generated import Price
from bench.forecast.operations import LEAD_MINUTES, Operation

_SHORT_MUST = dict(zip(LEAD_MINUTES, (0.35, 0.28, 0.18), strict=True))
# Rounding of sums of hours.
_TOLERANCE = 1 + 1e-9


def accuracy_figures(
    bands: Sequence[Accuracy], drawn: Sequence[Accuracy], ahead: Sequence[TwoDays]
) -> dict[str, Figure]:
    """Pinball loss against last week's value, coverage, and the deciles two days ahead.

    A load above all that was seen before can be covered by nothing that is made of what was seen; where a trace is
    full of them the ceiling says so, and the coverage of the others stands beside it.
    """
    figures: dict[str, Figure] = {}
    if bands:
        loss = geometric([ratio for one in bands for ratio in ratios(one, 0.95)])
        cover95, cover90 = pooled_coverage(bands, 0.95), pooled_coverage(bands, 0.9)
        worst = min(pooled_coverage([one], 0.95) for one in bands)
        figures |= {
            "p95_pinball_to_last_week": figure(loss, "<= 0.45", loss <= 0.45),
            "pooled_coverage_p95": figure(cover95, "0.93 to 0.97", 0.93 <= cover95 <= 0.97),
            "pooled_coverage_p90": figure(cover90, "0.88 to 0.93", 0.88 <= cover90 <= 0.93),
            "worst_trace_coverage_p95": figure(worst, ">= 0.90", worst >= 0.90),
            "worst_trace_coverage_of_the_highest_load_ever_seen": stated(
                min(one.seen_before for one in bands), "none; a ceiling for every band"
            ),
            "worst_trace_coverage_p95_of_loads_seen_before": figure(
                min(one.covered_seen_before for one in bands), ">= 0.90",
                min(one.covered_seen_before for one in bands) >= 0.90,
            ),
        }  # fmt: skip
    if drawn:
        worst = min(pooled_coverage([one], 0.95) for one in drawn)
        figures["drawn_worst_coverage_p95"] = figure(worst, ">= 0.90", worst >= 0.90)
    if ahead:
        share = float(np.mean([one.ours / one.naive for one in ahead]))
        figures["two_days_quantile_loss_to_seasonal_naive"] = stated(share, "0.62")
    return figures


def operation_figures(rows: Sequence[Operation], drawn: Sequence[Operation]) -> dict[str, Figure]:
    """Shortage and hours: on the traces with a rhythm, then on drawn ones."""
    figures: dict[str, Figure] = {}
    loads = [one for one in rows if one.kind == "load"]
    for name, group in (("", loads), ("drawn_", list(drawn))):
        for minutes, must in _SHORT_MUST.items():
            each = [one.ratio for one in group if one.lead_minutes == minutes]
            if each:
                mean = float(np.mean(each))
                key = f"{name}short_to_reactive_at_equal_cost_{minutes}_min"
                figures[key] = figure(mean, f"<= {must}", mean <= must)
        if group:
            worst, hours = max(one.ratio for one in group), [one.hours_to_oracle for one in group]
            figures |= {
                f"{name}short_to_reactive_worst": figure(worst, "<= 1.0", worst <= 1.0),
                f"{name}hours_to_oracle": figure(
                    float(np.mean(hours)), "<= 1.15", float(np.mean(hours)) <= 1.15
                ),
                f"{name}hours_to_oracle_worst": figure(max(hours), "<= 1.5", max(hours) <= 1.5),
            }
    if rows:
        static = max(one.hours_to_static_peak for one in (*rows, *drawn))
        figures["hours_to_static_peak_worst"] = figure(static, "<= 1.0", static <= 1.0)
    for one in rows:
        if one.kind == "utilisation":
            key = f"{one.trace}_short_to_reactive_{one.lead_minutes}_min"
            figures[key] = figure(one.ratio, "<= 1.0", one.ratio <= 1.0)
    return figures


def generated_figures(prices: Sequence[Price]) -> dict[str, Figure]:
    """How many drawn cases are dearer than the cheapest of reactive scaling as short, and of a static peak.

    Where several targets of reactive scaling are as short, the cheapest is known only afterwards: the second figure
    counts against the one that is known before.
    """
    if not prices:
        return {}
    dearer = sum(one.over_the_bound > _TOLERANCE for one in prices)
    named = sum(one.over_the_named > _TOLERANCE for one in prices)
    worst = max(one.over_the_bound for one in prices)
    return {
        "generated_loads": figure(len(prices), ">= 5000", len(prices) >= 5000),
        "generated_loads_dearer_than_the_bound": figure(dearer, "0", dearer == 0),
        "generated_loads_worst_over_the_bound": stated(worst, "1.0"),
        "generated_loads_dearer_than_what_can_be_chosen_before": figure(named, "0", named == 0),
        "generated_loads_dearer_than_a_lucky_target": stated(
            sum(one.hours > _TOLERANCE * one.lucky_hours for one in prices), "0; known only afterwards"
        ),
    }


def print_accuracy(console: Console, accuracy: Sequence[Accuracy]) -> None:
    """Loss and coverage per trace and horizon."""
    table = Table(title="p95 pinball to last week's value (lower is better), coverage of p95 and p90")
    table.add_column("trace")
    for column in ("all", "30 min", "1 h", "3 h", "6 h", "24 h", "p95 covered", "p90 covered"):
        table.add_column(column, justify="right")
    for one in sorted(accuracy, key=lambda each: geometric(ratios(each, 0.95))):
        each = ratios(one, 0.95)
        blank = [""] * (len(BUCKET_ENDS_MINUTES) - len(each))
        cover = [pooled_coverage([one], level) for level in (0.95, 0.9)]
        cells = [f"{geometric(each):.2f}", *blank, *(f"{ratio:.2f}" for ratio in each)]
        table.add_row(one.trace, *cells, *(f"{share:.1%}" for share in cover))
    console.print(table)


def print_operations(console: Console, operations: Sequence[Operation]) -> None:
    """Short time and hours per trace and lead time."""
    table = Table(title="Decisions: time short, and replica-hours (kind load is the judged group)")
    columns = (
        "trace", "kind", "lead", "short", "reactive, same cost", "ratio",
        "hours / oracle", "hours / static", "hours / static peak", "oracle short", "degraded",
    )  # fmt: skip
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < 2 else "right")
    for one in operations:
        table.add_row(
            one.trace, one.kind, f"{one.lead_minutes} min", f"{one.short:.2%}",
            f"{one.reactive_short:.2%}", f"{one.ratio:.2f}",
            f"{one.hours_to_oracle:.2f}", f"{one.hours_to_static:.2f}", f"{one.hours_to_static_peak:.2f}",
            f"{one.oracle_short:.2%}", f"{one.degraded:.0%}",
        )  # fmt: skip
    console.print(table)


def print_figures(console: Console, figures: dict[str, Figure]) -> None:
    """All figures with what they must be."""
    table = Table(title="Figures")
    for column in ("figure", "value", "must", "holds"):
        table.add_column(column)
    for name, one in figures.items():
        mark = "[green]yes[/green]" if one["holds"] else "[red]no[/red]"
        table.add_row(name, str(one["value"]), str(one["must"]), mark)
    console.print(table)
