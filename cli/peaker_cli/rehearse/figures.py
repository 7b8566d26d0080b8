"""The figures of a rehearsal: a file to go on with, a table, a page for docs/aws-behaviours.md; and its cost."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Known, Reading, Unknown
from rich.table import Table

from peaker_cli import printing
from peaker_cli.failures import ControlPlaneError
from peaker_cli.files import write_whole
from peaker_cli.rehearse.probes import Row
from peaker_cli.rehearse.resources import Resources
from peaker_contract.cluster import ClusterSettings

# An internal load balancer with one capacity unit; custom metrics, an alarm, some hundred state transitions and events.
_BALANCER_HOUR_USD, _REST_USD = 0.03, 0.90
_COLUMNS = ("probe", "assumed", "measured", "verdict")


def table_of(rows: list[Row]) -> Table:
    """Returns the figures as a table; behaviours that are as assumed are counted, not listed."""
    same = sum(isinstance(one.assumed, str) and one.judgement == "as assumed" for one in rows)
    told = [one for one in rows if not isinstance(one.assumed, str) or one.judgement != "as assumed"]
    lines = [_cells(one) for one in told]
    if same:
        lines.append((f"{same} behaviours of AWS", "", "", "as assumed"))
    return printing.table_of(_COLUMNS, lines, right=("assumed", "measured"))


def markdown_of(document: dict[str, Any], rows: list[Row]) -> str:
    title = f"# Rehearsal {document['rehearsal']} in {document['region']}"
    facts = f"{document['instance_type']} of {document['image_id']}, {document['gib']} GiB."
    lines = [_COLUMNS, ("---",) * len(_COLUMNS), *(_cells(one) for one in rows)]
    table = "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)
    return f"{title}\n\n{facts}\n\n{table}\n"


def _cells(row: Row) -> tuple[str, ...]:
    measured = _said(row.measured, row.unit) or row.why
    return (row.name, _said(row.assumed, row.unit), measured, row.judgement)


def _said(value: float | str | None, unit: str) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:g} {unit}"


def write_figures(file: Path, resources: Resources, rows: list[Row]) -> None:
    """Writes the figures, whole or not at all, and beside them the page."""
    settings = resources.settings
    document = {
        "rehearsal": resources.rehearsal,
        "region": settings.region,
        "instance_type": settings.instance_type,
        "image_id": settings.image_id,
        "gib": resources.gib,
        "rows": [{**asdict(one), "verdict": one.judgement} for one in rows],
    }
    write_whole(file, json.dumps(document, indent=1) + "\n")
    write_whole(file.with_suffix(".md"), markdown_of(document, rows))


def write_removed(file: Path, resources: Resources, spent: Reading | None) -> None:
    figures = read_figures(file)
    if figures.get("rehearsal") == resources.rehearsal:
        cost = round(float(spent.value), 2) if isinstance(spent, Known) else None
        write_whole(file, json.dumps({**figures, "cost_usd": cost, "removed": True}, indent=1) + "\n")


def read_figures(file: Path, also_removed: bool = False) -> dict[str, Any]:
    """Returns the figures of a rehearsal that was cut off; {} where there is none, or where it was cleaned up."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ControlPlaneError(
            f"{file} cannot be read ({error}): remove it, or give another --out"
        ) from error
    if not isinstance(found, dict) or "rehearsal" not in found:
        raise ControlPlaneError(f"{file} is not the file of a rehearsal: give another --out")
    return {} if found.get("removed") and not also_removed else found


def rows_of(figures: dict[str, Any], file: Path) -> list[Row]:
    """Returns the rows of a rehearsal's file. Raises ControlPlaneError where they are none."""
    try:
        return [
            Row(**{key: value for key, value in one.items() if key != "verdict"})
            for one in figures.get("rows", [])
        ]
    except (TypeError, AttributeError) as error:
        raise ControlPlaneError(f"{file} has no rows of a rehearsal ({error}): give another --out") from error


@dataclass(frozen=True)
class Cost:
    """Dollars by the hour and once; Unknown where a price is."""

    hourly_usd: Reading
    once_usd: float

    def of_hours(self, hours: float) -> Reading:
        if isinstance(self.hourly_usd, Unknown):
            return self.hourly_usd
        return Known(hours * float(self.hourly_usd.value) + self.once_usd)


def cost_of(settings: ClusterSettings, gib: int, prices: PriceTable) -> Cost:
    """Returns the cost of an instance, three volumes, their snapshots and a load balancer; Unknown without a price."""
    hourly = [prices.instance_hour(settings.instance_type), prices.snapshot_hour(2 * gib)]
    hourly += [prices.volume_hour("gp3", gib, 3000, 125)] * 3
    paid = prices.initialization(gib, settings.initialization_rate_mib_per_s)
    for one in (*hourly, paid):
        if isinstance(one, Unknown):
            return Cost(one, _REST_USD)
    known = sum(one.value for one in hourly if isinstance(one, Known)) + _BALANCER_HOUR_USD
    return Cost(Known(known), _REST_USD + (paid.value if isinstance(paid, Known) else 0.0))
