"""The `localcloud` command: serve, status, clean, deploy, destroy, and what plugins add."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from localcloud.plugins import PluginError, add_commands, named_plugins

DEFAULT_STATE = Path(".localcloud")
DEFAULT_PORT = 4566
_LOOKED_AT_SECONDS = 0.5

app = typer.Typer(
    name="localcloud",
    help="AWS on this machine: real hosts, volumes and endpoints behind the AWS API.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
State = Annotated[
    Path, typer.Option("--state", help="Where everything is kept; one local cloud per directory.")
]
Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Port of the AWS API on 127.0.0.1; 0 takes a free one.")
]
Endpoint = Annotated[str, typer.Option("--endpoint", help="Where the local cloud listens.")]


class DataPlaneKind(StrEnum):
    """What stands behind EC2, EBS, SSM and ELBv2."""

    REAL = "real"
    SIMULATED = "simulated"


@app.command()
def serve(
    port: Port = DEFAULT_PORT,
    state: State = DEFAULT_STATE,
    dataplane: Annotated[
        DataPlaneKind,
        typer.Option(help="real: namespaces, block devices, HAProxy (needs root). simulated: in memory."),
    ] = DataPlaneKind.REAL,
    clock_scale: Annotated[
        float, typer.Option(help="Cloud seconds per real second; can be changed later under /_peaker/clock.")
    ] = 1.0,
) -> None:
    """Run until SIGTERM or Ctrl-C, then remove everything that was started."""
    from localcloud.cleanup import clean as remove_leftovers
    from localcloud.dataplane import DataPlaneError
    from localcloud.hosts.state_lock import StateLock
    from localcloud.open_cloud import LocalCloudError

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    lock = StateLock(state)
    try:
        state.mkdir(parents=True, exist_ok=True)
        for phrase in remove_leftovers(state):
            typer.echo(f"removed {phrase} of an earlier run")
        lock.acquire()
        _run(port, state, dataplane, clock_scale, stop)
    except (LocalCloudError, DataPlaneError, PluginError, ValueError) as error:
        fail(str(error))
    finally:
        lock.release()


def _run(port: int, state: Path, kind: DataPlaneKind, clock_scale: float, stop: threading.Event) -> None:
    from localcloud.open_cloud import CloudSettings
    from localcloud.server import LocalCloud

    settings = CloudSettings(plugins=named_plugins(Path.cwd()))
    plane, addresses = _data_plane(kind, state)
    try:
        with LocalCloud(
            plane, state, port, clock_scale, extra_addresses=addresses, settings=settings
        ) as cloud:
            typer.echo(f"local cloud ready {cloud.endpoint_url}")
            sys.stdout.flush()
            while not stop.wait(_LOOKED_AT_SECONDS):
                # The kernel may give a signal to another thread: its handler runs when this one wakes up.
                pass
            typer.echo("stopping")
    finally:
        plane.close()


def _data_plane(kind: DataPlaneKind, state: Path) -> tuple[Any, tuple[str, ...]]:
    if kind is DataPlaneKind.SIMULATED:
        from localcloud.simulated_dataplane import simulated_dataplane

        return simulated_dataplane(), ()
    from localcloud.blockstore import ColdBlockStore
    from localcloud.dataplane import DataPlane
    from localcloud.hosts import NamespaceHosts
    from localcloud.read_endpoint import HaproxyReadEndpoints

    hosts = NamespaceHosts(state)
    hosts.prepare_network()
    try:
        volumes = ColdBlockStore(state)
    except BaseException:
        hosts.close()
        raise
    return DataPlane(volumes, hosts, HaproxyReadEndpoints(state)), (hosts.gateway,)


@app.command()
def status(endpoint: Endpoint = f"http://127.0.0.1:{DEFAULT_PORT}") -> None:
    """Show the clock, the injected faults and what runs."""
    try:
        with urllib.request.urlopen(f"{endpoint}/_peaker/state", timeout=10) as answer:
            typer.echo(json.dumps(json.load(answer), indent=2))
    except (urllib.error.URLError, OSError) as error:
        fail(f"no local cloud at {endpoint} ({error}). Start one: python -m localcloud serve")


@app.command()
def clean(
    state: State = DEFAULT_STATE,
    force: Annotated[bool, typer.Option(help="Kill a local cloud that still runs there.")] = False,
) -> None:
    """Remove what a killed local cloud left: processes, namespaces, mounts, devices. Images are kept."""
    from localcloud.cleanup import clean as remove_leftovers

    removed = guarded(lambda: remove_leftovers(state, force))
    typer.echo("\n".join(f"removed {phrase}" for phrase in removed) or "nothing left")


@app.command()
def deploy(
    cdk_out: Annotated[Path, typer.Argument(help="The output folder of `cdk synth`.")] = Path("cdk.out"),
    endpoint: Endpoint = f"http://127.0.0.1:{DEFAULT_PORT}",
) -> None:
    """Publish the assets and create or update the stacks of a CDK assembly."""
    from localcloud.deploy import deploy as deploy_assembly

    for stack in guarded(lambda: deploy_assembly(cdk_out, endpoint, progress=typer.echo)):
        typer.echo(f"{stack.name} deployed in {stack.seconds:.1f} s")
        for key, value in stack.outputs.items():
            typer.echo(f"  {key} = {value}")


@app.command()
def destroy(
    cdk_out: Annotated[Path, typer.Argument(help="The output folder of `cdk synth`.")] = Path("cdk.out"),
    endpoint: Endpoint = f"http://127.0.0.1:{DEFAULT_PORT}",
) -> None:
    """Delete the stacks of a CDK assembly."""
    from localcloud.deploy import destroy as destroy_assembly

    guarded(lambda: destroy_assembly(cdk_out, endpoint, progress=typer.echo))


def guarded(work: Callable[[], Any], *more: type[Exception]) -> Any:
    """Its result; an expected failure, of these kinds too, is one line on stderr and exit status 1."""
    from botocore.exceptions import BotoCoreError

    from localcloud.dataplane import DataPlaneError
    from localcloud.deploy import DeployFailed

    expected: tuple[type[Exception], ...] = (DataPlaneError, DeployFailed, BotoCoreError, *more)
    try:
        return work()
    except expected as error:
        fail(str(error))


def fail(message: str) -> None:
    """End the command with this message."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


def main() -> None:
    """Entry point, with the commands of the plugins that the working directory's project names."""
    try:
        add_commands(app, named_plugins(Path.cwd()))
    except PluginError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    app()
