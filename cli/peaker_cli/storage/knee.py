"""`peaker knee`: the concurrency at which a device's answers get too slow, measured."""

from __future__ import annotations

import errno
import importlib.util
import os
import stat
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
from peaker_host.machine.settings import Processes
from peaker_host.prove.knee import find_knee
from peaker_host.prove.knee_search import KneeSettings, Step
from rich.console import Console
from rich.table import Table
from rich.text import Text

from peaker_cli.files import writable
from peaker_cli.printing import AsJson, console, echo_json, table_of
from peaker_cli.storage.iostat import Baseline, Promises, failure, parse_instance, parse_volumes, style_of

_AWAIT_COLOUR = "#b33a3a"
_RATE_COLOUR = "#2f6f9f"


def plot_knee(result: dict[str, Any], path: Path) -> None:
    """Write a PNG or an SVG, by the file's ending. Raises ValueError for another ending, OSError if unwritable."""
    from matplotlib.figure import Figure  # it comes with the extra `plot` alone

    steps = result["steps"]
    concurrency = [step["concurrency"] for step in steps]
    figure = Figure(figsize=(7.0, 4.2), dpi=120, layout="constrained")
    waits = figure.add_subplot()
    waits.set_title(f"{result['device']}: 16 KiB reads", loc="left")
    waits.set_xlabel("concurrency (requests outstanding)")
    waits.set_ylabel("await (ms)", color=_AWAIT_COLOUR)
    waits.plot(concurrency, [step["await_ms"] for step in steps], "o-", color=_AWAIT_COLOUR, markersize=4)
    for crossing in result["crossings"]:
        _mark_limit(waits, crossing)
    waits.set_ylim(bottom=0)
    waits.set_xlim(0, max(concurrency) * 1.18)
    rates = waits.twinx()
    rates.set_ylabel("requests per s", color=_RATE_COLOUR)
    rates.plot(
        concurrency, [step["requests_per_s"] for step in steps], "s--", color=_RATE_COLOUR, markersize=3
    )
    rates.set_ylim(0, max(step["requests_per_s"] for step in steps) * 1.15)
    figure.savefig(path)


def _mark_limit(waits: Any, crossing: dict[str, Any]) -> None:
    limit, at = crossing["await_limit_ms"], crossing["concurrency"]
    waits.axhline(limit, color=_AWAIT_COLOUR, linewidth=0.6, linestyle=":")
    if at is not None:
        waits.annotate(
            f"{limit:g} ms at {at:g}", (at, limit), textcoords="offset points", xytext=(6, -12), fontsize=8
        )


_CANNOT_OPEN = {
    errno.EACCES: "you may not read it; run the command with sudo",
    errno.EPERM: "you may not read it; run the command with sudo",
    errno.EBUSY: "it is in use by something that lets nobody else open it",
    errno.ENOMEDIUM: "it has no medium",
    errno.ENXIO: "the node is there, but there is no such device behind it (was the volume detached?)",
    errno.ENODEV: "the node is there, but there is no such device behind it (was the volume detached?)",
    errno.EIO: "it does not answer (input/output error): look at the kernel's log (dmesg)",
}


def why_not_measurable(path: str) -> str | None:
    """Returns the reason why this path is no readable block device; None when it is one."""
    if not path.strip():
        return "an empty path is no device; give one such as /dev/nvme1n1"
    try:
        kind = os.stat(path).st_mode
    except OSError as error:
        return f"{path}: {_not_there(path, error)}"
    except ValueError as error:
        return f"{path!r}: {error}"
    if stat.S_ISDIR(kind):
        return f"{path} is a directory, not a block device; lsblk lists them"
    if stat.S_ISREG(kind):
        return f"{path} is a file, not a block device; lsblk lists them"
    if not stat.S_ISBLK(kind):
        return f"{path} is not a block device; lsblk lists them"
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return f"{path}: {_CANNOT_OPEN.get(error.errno or 0, error.strerror)}"
    return None


def _not_there(path: str, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "you may not look into its directory; run the command with sudo"
    if error.errno == errno.ELOOP:
        return "its links lead in a circle"
    if error.errno == errno.ENOTDIR:
        return "a part of the path is not a directory"
    if error.errno != errno.ENOENT:
        return error.strerror or str(error)
    if os.path.islink(path):
        return f"the link leads to {os.readlink(path)}, which does not exist"
    if not path.startswith("/") and os.path.exists(f"/dev/{path}"):
        return f"no such file or directory; did you mean /dev/{path}?"
    near = (
        sorted(one.name for one in Path("/sys/class/block").glob("*"))
        if os.path.isdir("/sys/class/block")
        else []
    )
    return f"no such device; there are {', '.join(near[:12]) or 'none'}"


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
    volume: Promises = None,
    instance: Baseline = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", callback=writable, help="Write a picture: .png or .svg.")
    ] = None,
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
        raise failure(why)
    limits = Limits(volumes=parse_volumes(volume or ()), instance=parse_instance(instance))
    settings = KneeSettings(
        max_concurrency=max_concurrency,
        settle_seconds=settle,
        window_seconds=window,
        time_limit_seconds=time_limit,
    )
    try:
        result = find_knee(device, settings, Processes(), _show_step, even_if_busy)
    except DeviceInUse as error:
        raise failure(
            f"{error}. Measure when it is idle, or take --even-if-busy and slow the others down"
        ) from error
    except HostError as error:
        raise failure(str(error)) from error
    except OSError as error:
        raise failure(f"{device}: {error.strerror or error}") from error
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
    """Returns the limits at the highest concurrency; the volume's NVMe statistics decide where there are any."""
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


def _check_plot(plot: Path | None) -> None:
    if plot is None:
        return
    if plot.suffix.lower() not in _PLOT_ENDINGS:
        raise typer.BadParameter(f"{plot} ends neither in .png nor in .svg", param_hint="--plot")
    if importlib.util.find_spec("matplotlib") is None:
        raise failure("--plot needs matplotlib, which is not installed: pip install 'peaker[plot]'")


def _plot(result: dict[str, Any], path: Path) -> None:
    try:
        plot_knee(result, path)
    except OSError as error:
        raise failure(f"{path}: {error.strerror}") from error


def _show_step(step: Step) -> None:
    """Says what a step measured, as the search goes on."""
    console(stderr=True).print(
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
