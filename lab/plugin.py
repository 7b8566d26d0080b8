"""The plugin adds Peaker to the local cloud: `prepare` and `cluster`, the seed's snapshots, and hosts that
answer Peaker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from lab import kept_snapshots
from lab.simulated_hosts import SimulatedAnswers
from localcloud.command import DEFAULT_PORT, DEFAULT_STATE, Endpoint, State, guarded
from localcloud.open_cloud import OpenCloud
from localcloud.simulated_dataplane import SimulatedDataPlane

# These bring the whole domain and all adapters, which read neither clock nor environment when they are imported.
PURE = ("peaker.runtime.wiring",)


def install(cloud: OpenCloud) -> None:
    """The seed dataset's snapshots; on a simulated data plane, hosts that answer Peaker's documents.

    What every function imports is imported once for all of them.
    """
    cloud.settings = replace(cloud.settings, lambda_preload=PURE)
    kept_snapshots.install(cloud)
    plane = cloud.dataplane
    if isinstance(plane, SimulatedDataPlane):
        answers = SimulatedAnswers(cloud.clock)
        plane.hosts.responder, plane.endpoints.responds = answers, answers.answers_probes
        plane.hosts.when_down = answers.went_down


def commands(app: typer.Typer) -> None:
    """Add `prepare` and `cluster`."""
    app.command()(prepare)
    app.command("cluster", epilog=EPILOG)(make_cluster)


EPILOG = "Example: python -m localcloud cluster orders --load 150, after serve, synth and deploy"


def prepare(state: State = DEFAULT_STATE) -> None:
    """Build what is needed once: the machine image and the seed dataset."""
    from lab.prepare import prepare as make_all

    guarded(lambda: make_all(state, typer.echo))


def make_cluster(
    name: Annotated[str, typer.Argument(help="A cluster of the deployed environment.")] = "orders",
    environment: Annotated[str, typer.Option("--env", help="The environment that was deployed.")] = "local",
    load: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Simulated: load in units of the load metric; default a third of one replica's capacity.",
        ),
    ] = None,
    endpoint: Endpoint = f"http://127.0.0.1:{DEFAULT_PORT}",
) -> None:
    """Make the cluster that Peaker finds: a source, and a base replica with data behind the read endpoint."""
    from lab.cluster import BringUpError
    from lab.make_cluster import make_cluster as make

    cluster = guarded(lambda: make(endpoint, environment, name, load, typer.echo), BringUpError)
    typer.echo(f"cluster {cluster.name}: source {cluster.source_id}, base replica {cluster.base_replica_id}")
