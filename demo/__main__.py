"""`make demo`: a real replica comes up warm before the peak, takes reads, and is retired after it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from peaker_cli.failures import ControlPlaneError
from rich.console import Console

from demo.day import DemoFailed, DemoOptions, run_day
from demo.memory import MEMINFO, why_short
from demo.pace import FASTEST, clock_scale, processor_share
from demo.trace import TraceError
from lab.cluster import BringUpError
from lab.local_cloud import LocalCloudFailed
from localcloud.dataplane import DataPlaneError
from localcloud.deploy import DeployFailed

_STOPS = (
    DemoFailed,
    LocalCloudFailed,
    DeployFailed,
    TraceError,
    DataPlaneError,
    BringUpError,
    ControlPlaneError,
)
CHECKOUT = Path(__file__).resolve().parent.parent


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; 0 when every check of its summary holds."""
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description=__doc__,
        epilog="Example: python -m demo --scale 240 --port 4600",
    )
    parser.add_argument(
        "--scale",
        type=float,
        help="cloud seconds per real second (default 100, less where other programs need the processors)",
    )
    parser.add_argument("--port", type=int, default=4566, help="port of the local cloud on 127.0.0.1")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "build/demo", help="where the results go")
    given = parser.parse_args(arguments)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    if os.geteuid() != 0:
        console.print("the demo makes block devices, mounts and namespaces: run it as root (sudo make demo)")
        return 2
    if given.scale is not None and not 10 <= given.scale <= 1000:
        console.print(f"--scale: must be between 10 and 1000, got {given.scale}")
        return 2
    if (short := why_short(MEMINFO.read_text())) is not None:
        console.print(f"[yellow]{short}[/]")
    try:
        scale = given.scale or _scale_of_this_machine(console)
        options = DemoOptions(CHECKOUT, given.output, scale, given.port)
        return 0 if run_day(options, console) else 1
    except _STOPS as error:
        console.print(f"[bold red]the demo stopped:[/] {error}")
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; everything it started is cleaned up")
        return 130


def _scale_of_this_machine(console: Console) -> float:
    share = processor_share()
    scale = clock_scale(share)
    if scale < FASTEST:
        console.print(
            f"other programs need the processors, {share:.0%} of them is left: the day goes {scale:g} times faster "
            f"instead of {FASTEST:g} (--scale sets it)"
        )
    return scale


if __name__ == "__main__":
    sys.exit(main())
