"""`peaker rehearse`: measures on an account what a plan assumes, and leaves nothing there."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Known, Reading, Unknown
from rich.table import Table

from peaker_cli.asking import Yes, agree
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployed_prices import deployed_prices
from peaker_cli.deployment import DeploymentOptions, is_local_cloud
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import console, echo
from peaker_cli.rehearse.clean_up import remove
from peaker_cli.rehearse.probes import Row, probes
from peaker_cli.rehearse.resources import LASTS_HOURS, Resources, begun_before, end_of, rehearsal_name
from peaker_cli.status.gather import StatusReader
from peaker_cli.whole_file import write_whole
from peaker_contract.cluster import ClusterSettings

EPILOG = """Examples:

peaker rehearse orders --env prod --budget 5

peaker rehearse orders --env prod --remove      # only takes away what a rehearsal left

A rehearsal that was cut off is taken up: the same line goes on after the last figure. It needs rights that no set of
docs/permissions.md has: ec2 (instances, volumes, snapshots), elasticloadbalancing, events, sqs, ssm:SendCommand."""
_HOURS = 2.0
# An internal load balancer with one capacity unit, a custom metric, an event and its queue (operating.md).
_BALANCER_HOUR_USD, _REST_USD = 0.03, 0.31


def rehearse_command(
    cluster: str,
    deployment: DeploymentOptions,
    budget: Annotated[
        float, typer.Option(min=0, help="Refuse where two hours of it would cost more USD.")
    ] = 5.0,
    gib: Annotated[int, typer.Option(min=1, max=200, help="Size of the volumes that are filled, GiB.")] = 20,
    only_remove: Annotated[
        bool, typer.Option("--remove", help="Only remove what an earlier one left.")
    ] = False,
    yes: Yes = False,
    out: Annotated[
        Path | None, typer.Option(help="File of the figures.", show_default="rehearsal-ENV-CLUSTER.json")
    ] = None,
) -> None:
    """Measure on this account what a plan of CLUSTER assumes: snapshot, cold and paid reads, attach, agent, endpoint.

    It makes an instance from the cluster's image, volumes, a snapshot and a load balancer of its own, all tagged
    `peaker:rehearsal`, touches nothing else, and removes all of it in the end, also after a failure.
    """
    control = ControlPlane.of(deployment)
    settings = StatusReader(control).settings(cluster)
    file = out or Path(f"rehearsal-{control.environment}-{cluster}.json")
    earlier = read_figures(file)
    ec2 = control.client("ec2")
    if earlier and str(earlier.get("rehearsal"))[:-13] != cluster:
        raise ControlPlaneError(f"{file} is not of a rehearsal of {cluster}: give another --out")
    name = str(
        earlier.get("rehearsal") or begun_before(ec2, cluster) or rehearsal_name(cluster, control.clock.now())
    )
    pause = 0.05 if is_local_cloud(control.endpoint_url) else 1.0
    resources = Resources(
        name, settings, gib, control.client, control.clock.now, lambda seconds: time.sleep(pause * seconds)
    )
    if only_remove:
        _end(resources, file)
        return
    cost = estimated_usd(settings, gib, deployed_prices(control.client, settings, control.clock.now()))
    if isinstance(cost, Known) and not cost.value <= budget:
        raise ControlPlaneError(
            f"it would cost about ${cost.value:.2f}, --budget is {budget:g}: raise it, or lower --gib"
        )
    told = f"about ${cost.value:.2f}" if isinstance(cost, Known) else f"an unknown amount ({cost.why})"
    question = f"Two hours at most as a rule, {told}; its instance ends itself {LASTS_HOURS} h after its launch. Begin?"
    agree(question, yes)
    begin, rows = control.clock.now(), rows_of(earlier, file)
    try:
        rehearse_or_remove(resources, rows, file, _echo_progress)
    except KeyboardInterrupt:
        echo(
            f"peaker: stopped; `peaker rehearse {cluster}` goes on, with --remove it only cleans up", err=True
        )
        raise
    console().print(table_of(rows))
    hours = (control.clock.now() - begin).total_seconds() / 3600
    echo(
        f"it took {60 * hours:.0f} min; figures: {file}. Set against docs/plan.md, they are what your first plan lacks."
    )
    _end(resources, file)


def rehearse_or_remove(
    resources: Resources, rows: list[Row], file: Path, say: Any = lambda text: None
) -> None:
    """Rehearses; where a probe fails, removes all that was made before the failure is told."""
    try:
        rehearse(resources, rows, file, say)
    except Exception:
        _end(resources, file)
        raise


def rehearse(resources: Resources, rows: list[Row], file: Path, say: Any = lambda text: None) -> None:
    """Measures what `rows` does not have yet, and writes the file after each figure."""
    measured = {one.name for one in rows}
    for probe in probes(resources):
        if probe.name not in measured:
            if resources.now().isoformat(timespec="minutes") > end_of(resources.rehearsal):
                raise ControlPlaneError(
                    f"{resources.rehearsal} had its time until {end_of(resources.rehearsal)}: begin anew"
                )
            say(f"measuring: {probe.name}")
            measure = probe.measure(resources)
            figure = None if measure is None else round(measure, 3)
            rows.append(Row(probe.name, probe.unit, probe.assumed, figure))
            write_figures(file, resources, rows)


def estimated_usd(settings: ClusterSettings, gib: int, prices: PriceTable) -> Reading:
    """Returns what two hours of its resources cost, the paid initialization included; Unknown without a price."""
    hourly = [prices.instance_hour(settings.instance_type), prices.snapshot_hour(gib)]
    hourly += [prices.volume_hour("gp3", gib, 3000, 125)] * 3
    paid = prices.initialization(gib, settings.initialization_rate_mib_per_s)
    for one in (*hourly, paid):
        if isinstance(one, Unknown):
            return one
    known = sum(one.value for one in hourly if isinstance(one, Known)) + _BALANCER_HOUR_USD
    return Known(_HOURS * known + _REST_USD + (paid.value if isinstance(paid, Known) else 0.0))


def table_of(rows: list[Row]) -> Table:
    """Returns the figures as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("figure", "assumed", "measured", "unit", ""):
        table.add_column(column, justify="right" if column in ("assumed", "measured") else "left")
    for one in rows:
        assumed = "" if one.assumed is None else f"{one.assumed:g}"
        measured = "" if one.measured is None else f"{one.measured:g}"
        table.add_row(one.name, assumed, measured, one.unit, one.judgement)
    return table


def write_figures(file: Path, resources: Resources, rows: list[Row]) -> None:
    """Writes the figures, whole or not at all."""
    settings = resources.settings
    document = {
        "rehearsal": resources.rehearsal,
        "region": settings.region,
        "instance_type": settings.instance_type,
        "image_id": settings.image_id,
        "gib": resources.gib,
        "rows": [{**asdict(one)} for one in rows],
    }
    write_whole(file, json.dumps(document, indent=1) + "\n")


def read_figures(file: Path) -> dict[str, Any]:
    """Returns the figures of a rehearsal that was cut off; {} where there is none, or where it was cleaned up."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ControlPlaneError(
            f"{file} cannot be read ({error}): remove it, or give another --out"
        ) from error
    return {} if not isinstance(found, dict) or found.get("removed") else found


def rows_of(figures: dict[str, Any], file: Path) -> list[Row]:
    """Returns the rows of a rehearsal's file. Raises ControlPlaneError where they are none."""
    try:
        return [Row(**one) for one in figures.get("rows", [])]
    except TypeError as error:
        raise ControlPlaneError(f"{file} has no rows of a rehearsal ({error}): give another --out") from error


def _end(resources: Resources, file: Path) -> None:
    left = remove(resources)
    if left:
        raise ControlPlaneError(
            f"AWS still shows {', '.join(left)}: `peaker rehearse ... --remove` tries again"
        )
    if figures := read_figures(file):
        write_whole(file, json.dumps({**figures, "removed": True}, indent=1) + "\n")
    echo(
        f"nothing of {resources.rehearsal} is left: no instance, volume, snapshot, load balancer, rule or queue"
    )


def _echo_progress(text: str) -> None:
    echo(f"peaker: {datetime.now():%H:%M:%S} {text}", err=True)
