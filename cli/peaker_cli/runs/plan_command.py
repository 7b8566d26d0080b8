"""`peaker plan`: what a scale_out would do now."""

from __future__ import annotations

from typing import Annotated

import typer

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.durations import instant_option
from peaker_cli.failures import ControlPlaneError
from peaker_cli.files import HtmlFile, write_page
from peaker_cli.printing import AsJson, console, echo_json
from peaker_cli.runs.plan import planned, refused_text, render_plan
from peaker_cli.runs.plan_page import render_page

EPILOG = (
    "Examples: peaker plan orders --env prod; "
    "peaker plan orders --ready-by 2026-11-27T06:00+01:00; "
    "peaker plan orders --html plan.html"
)


def plan_command(
    cluster: str,
    deployment: DeploymentOptions,
    ready_by: Annotated[
        str | None,
        typer.Option(
            help="When the replica is to serve, ISO 8601 with a zone: the cheapest option that is in time is taken.",
            metavar="TIME",
        ),
    ] = None,
    as_json: AsJson = False,
    html_path: HtmlFile = None,
) -> None:
    """Show what a scale_out of CLUSTER would do now, when, at what price; nothing is touched. Status 1 when refused.

    The page compares a return and a build, at the default and at the paid initialization rate, by time and price, and
    checks the settings with numbers.
    """
    wanted = {} if ready_by is None else {"ready_by": instant_option(ready_by, "--ready-by")}
    control = ControlPlane.of(deployment)
    plan = planned(control, "scale_out", {"cluster": cluster, **wanted})
    if html_path is not None:
        write_page(html_path, render_page(plan))
    if as_json:
        echo_json(plan)
    else:
        console().print(render_plan(plan))
    if refused := refused_text(plan, control.environment):
        raise ControlPlaneError(f"refused: {refused}")
