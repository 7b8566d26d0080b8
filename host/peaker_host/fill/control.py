"""Starts the fill engine of a run in the background; `report_prewarm` says how far it is."""

from __future__ import annotations

from typing import Any, Dict

from peaker_host.fill.request import FillRequest
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.warm.control import start_once


def start_fill(
    settings: Settings,
    processes: Processes,
    request: FillRequest,
    volumes: str,
    snapshots: str,
    settings_path: str,
    changed: str = "",
) -> Dict[str, Any]:
    """`volumes`, `snapshots` and `changed` are the texts that the request was parsed from.

    An engine of this run that has filled everything, or still runs, is left alone; one that died goes on where its
    journal ends. Raises PrewarmNotStarted.
    """
    argv = ["fill_volumes", "--run-id", request.run_id, "--method", request.method]
    argv += ["--volumes", volumes, "--snapshots", snapshots]
    argv += ["--requests-per-second", f"{request.requests_per_second:g}"]
    argv += ["--changed", changed] if changed else []
    return start_once(settings, processes, request.run_id, argv, settings_path)
