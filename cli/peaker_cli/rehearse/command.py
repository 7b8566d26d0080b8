"""`peaker rehearse`: measures on an account what a plan assumes, asks what AWS does, and leaves nothing there."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from botocore.exceptions import ClientError
from peaker.domain.reading import Known, Reading

from peaker_cli.asking import Yes, agree
from peaker_cli.aws_failures import EXPECTED
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployed_prices import deployed_prices
from peaker_cli.deployment import DeploymentOptions, is_local_cloud
from peaker_cli.failures import ControlPlaneError
from peaker_cli.files import replaceable
from peaker_cli.printing import AsJson, console, echo, echo_json
from peaker_cli.rehearse.clean_up import remove
from peaker_cli.rehearse.figures import (
    Cost,
    cost_of,
    read_figures,
    rows_of,
    table_of,
    write_figures,
    write_removed,
)
from peaker_cli.rehearse.probes import Probe, Row, probes
from peaker_cli.rehearse.resources import (
    LASTS_HOURS,
    Resources,
    answer_of,
    begin_of,
    begun_before,
    end_of,
    rehearsal_name,
)
from peaker_cli.status.gather import StatusReader

EPILOG = """Examples:

peaker rehearse orders --env prod --budget 5

peaker rehearse orders --env prod --remove      # only takes away what a rehearsal left

A rehearsal that was cut off is taken up: the same line goes on after the last figure; from another folder with
--rehearsal NAME. Its rights: `python -m stacks.people_statements prod rehearse`."""
Say = Callable[[str], None]


def rehearse_command(
    cluster: str,
    deployment: DeploymentOptions,
    budget: Annotated[
        float,
        typer.Option(min=0, max=1_000, help="Refuse where two hours would cost more USD, and stop there."),
    ] = 5.0,
    gib: Annotated[int, typer.Option(min=1, max=200, help="Size of the volumes that are filled, GiB.")] = 20,
    rehearsal: Annotated[
        str | None, typer.Option(help="Go on with this one, whose file is elsewhere.")
    ] = None,
    only_remove: Annotated[
        bool, typer.Option("--remove", help="Only remove what an earlier one left.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(
            callback=replaceable, help="File of the figures.", show_default="rehearsal-ENV-CLUSTER.json"
        ),
    ] = None,
) -> None:
    """Measure on this account what a plan of CLUSTER assumes, and ask AWS what its documents leave open.

    It makes an instance from the cluster's image, volumes, snapshots, a load balancer and small things by name, all of
    its own, touches nothing else, and removes all of it in the end, also after a failure.
    """
    control = ControlPlane.of(deployment)
    settings = StatusReader(control).settings(cluster)
    file = out or Path(f"rehearsal-{control.environment}-{cluster}.json")
    earlier = read_figures(file)
    now = control.clock.now()
    name = chosen_name(
        cluster, rehearsal, earlier, file, begun_before(control.client("ec2"), cluster), only_remove
    )
    pause = 0.05 if is_local_cloud(control.endpoint_url) else 1.0
    resources = Resources(
        name or rehearsal_name(cluster, now),
        settings,
        int(earlier.get("gib", gib)),
        control.client,
        control.clock.now,
        lambda seconds: time.sleep(pause * seconds),
    )
    if only_remove:
        if name is None:
            echo(f"no rehearsal of {cluster} left anything")
            return
        _end(resources, file)
        return
    cost = cost_of(settings, resources.gib, deployed_prices(control.client, settings, now))
    told = cost.of_hours(2.0)
    # Written so that a budget of nan pays for nothing.
    if isinstance(told, Known) and not told.value <= budget:
        raise ControlPlaneError(
            f"it would cost about ${told.value:.2f}, --budget is {budget:g}: raise it, or lower --gib"
        )
    refuse_what_cannot_be_launched(resources)
    replaceable(file)
    price = f"about ${told.value:.2f}" if isinstance(told, Known) else "an unknown amount (no price is known)"
    begins = "Go on with it" if name else "Begin"
    question = f"Two hours as a rule, {price}; its instance ends itself after {LASTS_HOURS} h. {begins}?"
    agree(question, yes)
    rows = rows_of(earlier, file)
    try:
        rehearse_or_remove(
            resources, rows, file, _echo_progress, lambda: refuse_beyond(budget, resources, cost)
        )
    except KeyboardInterrupt:
        again = control.line("rehearse", cluster)
        echo(f"peaker: stopped; `{again}` goes on, with --remove it only cleans up", err=True)
        raise
    spent = cost.of_hours(hours_of(resources))
    if not as_json:
        console().print(table_of(rows))
    _end(resources, file, spent, quiet=as_json)
    if as_json:
        echo_json(read_figures(file, also_removed=True))
        return
    amount = f"about ${spent.value:.2f}" if isinstance(spent, Known) else "an unknown amount"
    counts = {one: sum(row.judgement == one for row in rows) for one in ("as assumed", "differs", "unknown")}
    echo(", ".join(f"{count} {one}" for one, count in counts.items()))
    echo(
        f"it took {60 * hours_of(resources):.0f} min and cost {amount}; figures: {file}, {file.with_suffix('.md')}"
    )


def chosen_name(
    cluster: str, asked: str | None, earlier: dict[str, Any], file: Path, shown: str | None, only_remove: bool
) -> str | None:
    """Returns the rehearsal to go on with, None to begin one.

    Raises ControlPlaneError where AWS shows one whose file is not here: somebody may be at it.
    """
    own = str(earlier["rehearsal"]) if earlier else None
    for one in (own, asked):
        if one and one[:-13] != cluster:
            where = file if one == own else "--rehearsal"
            raise ControlPlaneError(f"{where} is not of a rehearsal of {cluster}: {one}")
    if shown and not own and not asked and not only_remove:
        raise ControlPlaneError(
            f"{shown} is at work or was cut off, and {file} is not here: wait for it, go on with --rehearsal {shown}, "
            "or remove it with --remove"
        )
    return asked or own or shown


def refuse_what_cannot_be_launched(resources: Resources) -> None:
    """Raises ControlPlaneError where EC2 would not launch the instance: no image, no subnet, no right."""
    # Without its token, which may be of an instance that has ended.
    launch = {key: value for key, value in resources.launch_request.items() if key != "ClientToken"}
    code = answer_of(lambda: resources.client("ec2").run_instances(**launch, DryRun=True))
    if code != "DryRunOperation":
        what = f"{launch['InstanceType']} of {launch['ImageId']} in {launch['SubnetId']}"
        raise ControlPlaneError(f"nothing was made: EC2 would not launch {what} ({code})")


def hours_of(resources: Resources) -> float:
    """Returns the hours since the rehearsal began, pauses included: its resources are paid for meanwhile."""
    return (resources.now() - begin_of(resources.rehearsal)).total_seconds() / 3600


def refuse_beyond(budget: float, resources: Resources, cost: Cost) -> None:
    """Raises ControlPlaneError where the rehearsal has cost its budget."""
    spent: Reading = cost.of_hours(hours_of(resources))
    if isinstance(spent, Known) and not spent.value <= budget:
        raise ControlPlaneError(
            f"it has cost about ${spent.value:.2f} in {hours_of(resources):.1f} h, --budget is {budget:g}"
        )


def rehearse_or_remove(
    resources: Resources,
    rows: list[Row],
    file: Path,
    say: Say = lambda text: None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Rehearses; where a probe fails, removes all that was made before the failure is told.

    Raises ControlPlaneError with both where the removal fails too.
    """
    try:
        rehearse(resources, rows, file, say, check)
    except Exception as error:
        try:
            _end(resources, file)
        except (*EXPECTED, ControlPlaneError) as failed:
            raise ControlPlaneError(
                f"{error}; then its removal failed: {failed}; `peaker rehearse ... --remove` tries again"
            ) from error
        raise


def rehearse(
    resources: Resources,
    rows: list[Row],
    file: Path,
    say: Say = lambda text: None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Measures what `rows` does not have yet, and writes the file after each figure; `check` may end it before one."""
    measured = {one.name for one in rows}
    for probe in probes(resources):
        if probe.name not in measured:
            if resources.now().isoformat(timespec="minutes") > end_of(resources.rehearsal):
                raise ControlPlaneError(
                    f"{resources.rehearsal} had its time until {end_of(resources.rehearsal)}: begin anew"
                )
            check()
            say(f"measuring: {probe.name}")
            rows.append(_row(probe, resources))
            write_figures(file, resources, rows)


def _row(probe: Probe, resources: Resources) -> Row:
    """Returns what was measured; what cannot be is unknown, where no other needs it."""
    try:
        found, why = probe.measure(resources), ""
    except (ClientError, ControlPlaneError) as error:
        if probe.is_needed:
            raise
        found, why = None, str(error)
    figure = round(found, 3) if isinstance(found, float) else found
    return Row(probe.name, probe.unit, probe.assumed, figure, why)


def _end(resources: Resources, file: Path, spent: Reading | None = None, quiet: bool = False) -> None:
    left = remove(resources)
    if left:
        raise ControlPlaneError(
            f"AWS still shows, or does not let anybody look for, {', '.join(left)}: `peaker rehearse ... --remove` "
            "tries again"
        )
    write_removed(file, resources, spent)
    echo(
        f"nothing of {resources.rehearsal} is left: no instance, volume, snapshot, load balancer, rule, queue, alarm, "
        "document, workflow, role or table",
        err=quiet,
    )


def _echo_progress(text: str) -> None:
    echo(f"peaker: {datetime.now():%H:%M:%S} {text}", err=True)
