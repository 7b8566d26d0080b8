"""`peaker knee`: the concurrency at which a device's answers get too slow, measured."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.storage.io_diagnosis import against_plan, diagnose
from peaker.domain.storage.io_findings import (
    ADVICE,
    DeviceDiagnosis,
    DeviceLoad,
    Finding,
    IostatReport,
    Limits,
    PlanComparison,
    Verdict,
    VolumePromise,
)
from peaker.domain.storage.storage_judgement import exceeded_during
from peaker_host.machine.errors import DeviceInUse, HostError
from peaker_host.machine.processes import Processes
from peaker_host.prove.knee import find_knee
from peaker_host.prove.knee_search import KneeSettings, Step
from rich.console import Console
from rich.table import Table
from rich.text import Text

from peaker_cli.failures import say
from peaker_cli.printing import AsJson, console, echo_json, table_of
from peaker_cli.storage.block_device import why_not_measurable
from peaker_cli.storage.iostat import style_of
from peaker_cli.storage.promises import parse_instance, parse_volumes

EPILOG = (
    "Examples: peaker knee /dev/nvme1n1 --volume 3000:125    "
    "peaker knee /dev/nvme1n1 --settle 10 --window 30 --plot knee.png    "
    "peaker knee /dev/nvme1n1 --json"
)
_PLOT_ENDINGS = (".png", ".svg")
_MIB = 1024 * 1024


def knee_command(
    device: Annotated[str, typer.Argument(help="Block device to read, e.g. /dev/nvme1n1.")],
    settle: Annotated[
        float, typer.Option("--settle", min=0.1, help="Seconds before a step is measured.")
    ] = 2.0,
    window: Annotated[
        float, typer.Option("--window", min=0.7, help="Seconds of a window; two must agree.")
    ] = 2.0,
    max_concurrency: Annotated[int, typer.Option("--max-concurrency", min=2, max=1024)] = 256,
    time_limit: Annotated[
        float, typer.Option("--time-limit", min=5, help="Seconds for the whole search.")
    ] = 900,
    volume: Annotated[
        list[str] | None, typer.Option("--volume", help="What the volume promises: IOPS:MIB_PER_S.")
    ] = None,
    instance: Annotated[
        str | None, typer.Option("--instance", help="The instance type's EBS baseline: IOPS:MIB_PER_S.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write a picture: .png or .svg.")] = None,
    even_if_busy: Annotated[
        bool, typer.Option("--even-if-busy", help="Measure although others use the device.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Raise the concurrency of random 16 KiB reads until await crosses 20 and 50 ms and r/s stops growing.

    A device is only read, around the page cache, so that this is safe on a mounted one; one that serves others now
    is refused. Warm a restored volume first: cold blocks are measured as they are. On EBS take --settle 10
    --window 30, on a volume without burst credit.
    """
    _check_plot(plot)
    why = why_not_measurable(device)
    if why is not None:
        raise _failure(why)
    limits = Limits(volumes=parse_volumes(volume or ()), instance=parse_instance(instance))
    settings = KneeSettings(
        max_concurrency=max_concurrency,
        settle_seconds=settle,
        window_seconds=window,
        time_limit_seconds=time_limit,
    )
    progress = _Progress()
    try:
        result = find_knee(device, settings, Processes(), progress.show, even_if_busy)
    except DeviceInUse as error:
        raise _failure(
            f"{error}. Measure when it is idle, or take --even-if-busy and slow the others down"
        ) from error
    except HostError as error:
        raise _failure(str(error)) from error
    except OSError as error:
        raise _failure(f"{device}: {error.strerror or error}") from error
    diagnosis = diagnose_steps(result, limits)
    findings = findings_at_the_top(result, limits, diagnosis)
    comparison = _comparison(result, limits)
    if plot is not None:
        _plot(result, plot)
    if as_json:
        echo_json({**result, **_judged(findings, comparison)})
    else:
        _show(console(), result, diagnosis, findings, comparison)


def diagnose_steps(result: dict[str, Any], limits: Limits) -> DeviceDiagnosis:
    """Diagnoses the steps of a search by the rules for iostat, each step being one report."""
    reports = [IostatReport(number, (_load(result, step),)) for number, step in enumerate(result["steps"], 1)]
    return diagnose(reports, limits)[0]


def findings_at_the_top(
    result: dict[str, Any], limits: Limits, diagnosis: DeviceDiagnosis
) -> tuple[Finding, ...]:
    """Returns the limits of the step with most concurrency; the volume's NVMe statistics decide where there
    are any.
    """
    step = result["steps"][-1]
    exceeded = exceeded_during(step["nvme"], step["seconds"])
    if exceeded is None:
        return diagnosis.reports[-1].findings
    known = replace(limits, exceeded={result["device"]: exceeded})
    return diagnose([IostatReport(1, (_load(result, step),))], known)[0].reports[0].findings


def _load(result: dict[str, Any], step: dict[str, Any]) -> DeviceLoad:
    return DeviceLoad(
        device=result["device"],
        requests_per_s=step["requests_per_s"],
        kib_per_s=step["mib_per_s"] * 1024,
        queue=step["queue"],
        await_ms=step["await_ms"],
        request_kib=step["mib_per_s"] * 1024 / step["requests_per_s"],
        reads_per_s=step["reads_per_s"],
        writes_per_s=step["writes_per_s"],
        read_await_ms=step["read_await_ms"],
        write_await_ms=step["write_await_ms"],
        util_percent=step["util_percent"],
    )


def _comparison(result: dict[str, Any], limits: Limits) -> tuple[PlanComparison, ...]:
    """Compares the rate at 16 KiB and the throughput of large reads, each against the reachable part of the promise."""
    promise = limits.volume(result["device"])
    throughput = result.get("throughput")
    amount = promise.mib_per_s
    if throughput and amount and promise.iops:
        amount = min(amount, promise.iops * throughput["request_bytes"] / _MIB)
    iops, bandwidth = against_plan(
        result["full_rate"]["requests_per_s"],
        throughput["mib_per_s"] if throughput else 0.0,
        [VolumePromise(promise.iops, amount)],
        limits.instance or InstancePromise(),
    )
    judged = (iops, bandwidth) if throughput else (iops,)
    return tuple(one for one in judged if one.promised is not None)


def _judged(findings: tuple[Finding, ...], comparison: tuple[PlanComparison, ...]) -> dict[str, Any]:
    return {
        "diagnosis": [
            {"verdict": found.verdict, "reason": found.reason, "advice": found.advice} for found in findings
        ],
        "against_plan": [asdict(one) for one in comparison],
    }


def _failure(message: str) -> typer.Exit:
    say(message)
    return typer.Exit(1)


def _check_plot(plot: Path | None) -> None:
    if plot is None:
        return
    if plot.suffix.lower() not in _PLOT_ENDINGS:
        raise typer.BadParameter(f"{plot} ends neither in .png nor in .svg", param_hint="--plot")
    if plot.is_dir() or not os.access(plot.parent, os.W_OK):
        raise typer.BadParameter(f"no file can be written at {plot}", param_hint="--plot")
    if importlib.util.find_spec("matplotlib") is None:
        raise _failure("--plot needs matplotlib, which is not installed: pip install 'peaker[plot]'")


def _plot(result: dict[str, Any], path: Path) -> None:
    from peaker_cli.storage.knee_plot import plot_knee  # matplotlib comes with the extra `plot` alone

    try:
        plot_knee(result, path)
    except OSError as error:
        raise _failure(f"{path}: {error.strerror}") from error


class _Progress:
    """One line per step on standard error, as the search goes on."""

    def __init__(self) -> None:
        self._console = console(stderr=True)

    def show(self, step: Step) -> None:
        """Say what one step measured."""
        self._console.print(
            f"concurrency {step.concurrency:>4}: {step.requests_per_s:>9,.1f} requests/s, await {step.await_ms:.2f} ms",
            style="dim",
            highlight=False,
        )


def _show(
    printed: Console,
    result: dict[str, Any],
    diagnosis: DeviceDiagnosis,
    findings: tuple[Finding, ...],
    comparison: tuple[PlanComparison, ...],
) -> None:
    printed.print(_step_table(result, diagnosis))
    for crossing in result["crossings"]:
        limit = crossing["await_limit_ms"]
        if crossing["concurrency"] is None:
            printed.print(f"await {limit:g} ms: not reached ({result['ended']})")
        else:
            printed.print(
                Text.assemble(f"await {limit:g} ms at concurrency ", (f"{crossing['concurrency']:g}", "bold"))
            )
    full = result["full_rate"]
    printed.print(
        f"no more than {full['requests_per_s']:,.0f} requests/s from concurrency {full['concurrency']} on"
    )
    for comparison_line in comparison:
        printed.print(f"plan: {comparison_line.reason}: {comparison_line.verdict}")
    for found in findings:
        told = f": {found.reason}. {ADVICE[found.verdict]}"
        printed.print(Text.assemble((str(found.verdict), style_of(found.verdict)), told))
    for warning in result["warnings"]:
        printed.print(Text.assemble(("beware", "yellow"), f": {warning}"))


def _step_table(result: dict[str, Any], diagnosis: DeviceDiagnosis) -> Table:
    title = f"{result['path']} ({result['device']}): 16 KiB reads"
    figures = ("concurrency", "r/s", "w/s", "MiB/s", "await ms", "iostat r_await", "aqu-sz", "%util")
    rows = (
        (
            str(step["concurrency"]),
            f"{step['reads_per_s']:,.1f}",
            f"{step['writes_per_s']:,.1f}",
            f"{step['mib_per_s']:,.1f}",
            f"{step['await_ms']:.2f}",
            "-" if step["iostat"] is None else f"{step['iostat']['r_await']:.2f}",
            f"{step['queue']:.1f}",
            f"{step['util_percent']:.0f}",
            "" if judged.verdict is Verdict.APPLICATION_LIMITED else str(judged.verdict),
        )
        for step, judged in zip(result["steps"], diagnosis.reports, strict=True)
    )
    return table_of((*figures, "verdict"), rows, right=figures, title=title)
