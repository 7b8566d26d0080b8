"""`peaker iostat` names the limit of each device, from the output of iostat -x of any version."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.storage.io_diagnosis import diagnose
from peaker.domain.storage.io_findings import (
    ADVICE,
    ANY_DEVICE,
    DeviceDiagnosis,
    IostatReport,
    Limits,
    Verdict,
    VolumePromise,
    since_boot_left_out,
)
from peaker.domain.storage.iostat_columns import IostatFormatError
from peaker.domain.storage.iostat_text import read_iostat
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from peaker_cli.failures import say
from peaker_cli.printing import AsJson, console, echo_json, table_of


def parse_volumes(words: Sequence[str]) -> dict[str, VolumePromise]:
    """`3000:125` for every device, `nvme1n1=3000:125` for one; either number may be left out."""
    promises = {}
    for word in words:
        device, _, numbers = word.rpartition("=")
        iops, amount = _pair(word, numbers, "--volume")
        promises[device or ANY_DEVICE] = VolumePromise(iops, amount)
    return promises


def parse_instance(baseline: str | None) -> InstancePromise | None:
    """Returns the instance type's EBS baseline; None when nothing was given."""
    if baseline is None:
        return None
    iops, amount = _pair(baseline, baseline, "--instance")
    return InstancePromise(baseline_iops=iops, baseline_mib_per_s=amount)


def _pair(word: str, numbers: str, option: str) -> tuple[float | None, float | None]:
    iops, _, amount = numbers.partition(":")
    try:
        pair = tuple(float(text) if text else None for text in (iops, amount))
    except ValueError:
        pair = (None, None)
    if pair == (None, None) or any(value is not None and value <= 0 for value in pair):
        raise typer.BadParameter(f"{word[:60]!r} is not IOPS:MIB_PER_S, e.g. 3000:125", param_hint=option)
    return pair[0], pair[1]


EPILOG = (
    "Examples: iostat -x -y 5 12 | peaker iostat -    "
    "peaker iostat night.txt --volume nvme1n1=3000:125 --instance 11800:594    "
    "iostat -x -y -o JSON 5 12 | peaker iostat - --json"
)
_COMPRESSED = {b"\x1f\x8b": "zcat", b"BZh": "bzcat", b"\xfd7zXZ\x00": "xzcat", b"\x28\xb5\x2f\xfd": "zstdcat"}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_STYLE = {
    Verdict.IDLE: "dim",
    Verdict.APPLICATION_LIMITED: "green",
    Verdict.UNKNOWN: "dim",
    Verdict.SHARED_STORAGE_CONTENTION: "bold red",
}


Promises = Annotated[
    list[str] | None,
    typer.Option(
        "--volume", help="What volumes promise: IOPS:MIB_PER_S, or DEVICE=IOPS:MIB_PER_S. Repeatable."
    ),
]
Baseline = Annotated[
    str | None, typer.Option("--instance", help="The instance type's EBS baseline: IOPS:MIB_PER_S.")
]


def iostat_command(
    source: Annotated[
        str, typer.Argument(metavar="FILE|-", help="Output of iostat -x; - reads standard input.")
    ],
    volume: Promises = None,
    instance: Baseline = None,
    device: Annotated[
        list[str] | None, typer.Option("--device", help="Only this device. Repeatable.")
    ] = None,
    keep_first: Annotated[
        bool, typer.Option("--keep-first", help="Keep the first report: the input is of iostat -y.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what limits each device (IOPS, bandwidth, queue, neighbours, instance, application), and why.

    Reads the text of old and new versions, also cut out with grep or copied from a page or mail, and JSON. %util is
    shown and decides nothing; svctm is used where the input has it.
    """
    limits = Limits(volumes=parse_volumes(volume or ()), instance=parse_instance(instance))
    try:
        found = read_iostat(_read(source))
    except IostatFormatError as error:
        raise failure(f"{_called(source)}:{error.line}: {error.message}") from error
    reports = found.reports
    kept = reports if keep_first else since_boot_left_out(reports)
    _refuse_unknown_devices(source, kept, device or (), limits)
    if found.damage is not None:
        say(
            f"{_called(source)}:{found.damage.line}: {found.damage.message}; "
            f"reports before that, which are complete and used: {len(reports)}"
        )
    for note in found.notes:
        say(f"{_called(source)}: {note}")
    diagnoses = [one for one in diagnose(kept, limits) if not device or one.device in device]
    if as_json:
        echo_json({"reports": len(kept), "devices": [_document(one) for one in diagnoses]})
    else:
        _show(diagnoses, left_out=len(reports) - len(kept), kept=len(kept))


def _refuse_unknown_devices(
    source: str, reports: Sequence[IostatReport], asked: Sequence[str], limits: Limits
) -> None:
    known = sorted({load.device for report in reports for load in report.devices})
    named = [("--device", name) for name in asked]
    named += [("--volume", name) for name in limits.volumes if name != ANY_DEVICE]
    unknown = [f"{option} {name}" for option, name in named if name not in known]
    if unknown:
        raise failure(f"{_called(source)}: no such device: {', '.join(unknown)}; it has {', '.join(known)}")


def _read(source: str) -> str:
    if source == "-" and sys.stdin is None:
        raise failure("standard input is closed; give a file, or pipe iostat -x into the command")
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except (OSError, ValueError) as error:
        raise failure(f"{_called(source)}: {getattr(error, 'strerror', None) or error}") from error
    for magic, tool in _COMPRESSED.items():
        if data.startswith(magic):
            raise failure(f"{_called(source)}: is compressed; unpack it first ({tool} {source})")
    return data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8-sig", errors="replace")


def _called(source: str) -> str:
    return "standard input" if source == "-" else source


def failure(message: str) -> typer.Exit:
    say(message)
    return typer.Exit(1)


def _document(diagnosis: DeviceDiagnosis) -> dict[str, Any]:
    return {
        "device": diagnosis.device,
        "headline": diagnosis.headline,
        "counts": diagnosis.counts,
        "phases": [
            {
                **{name: value for name, value in asdict(phase).items() if name != "finding"},
                "reason": phase.finding.reason,
                "advice": phase.finding.advice,
            }
            for phase in diagnosis.phases
        ],
    }


def _show(diagnoses: list[DeviceDiagnosis], left_out: int, kept: int) -> None:
    printed = console()
    if left_out:
        printed.print(
            "The first report of a run is the mean since boot and is left out (--keep-first).", style="dim"
        )
    elif kept == 1:
        printed.print("One report only: without -y it is the mean since boot.", style="dim")
    for diagnosis in diagnoses:
        if diagnosis.headline is Verdict.IDLE:
            printed.print(f"{diagnosis.device}: idle", style="dim")
            continue
        printed.print(phase_table(diagnosis))
        verdicts = dict.fromkeys(
            found for phase in diagnosis.phases for found in (phase.verdict, *phase.also)
        )
        for verdict in verdicts:
            if verdict is not Verdict.IDLE:
                line = Text.assemble((str(verdict), style_of(verdict)), f": {ADVICE[verdict]}")
                printed.print(line, soft_wrap=True)


def style_of(verdict: Verdict) -> str:
    return _STYLE.get(verdict, "bold yellow")


def phase_table(diagnosis: DeviceDiagnosis) -> Table:
    """Phases of one device: what limits, why, and the medians behind it."""
    rows: list[tuple[RenderableType, ...]] = []
    for phase in diagnosis.phases:
        words = str(phase.verdict) + "".join(f", {other}" for other in phase.also)
        span = str(phase.first_report)
        if phase.last_report != phase.first_report:
            span += f"-{phase.last_report}"
        numbers = _row_numbers(phase.evidence)
        rows.append((span, Text(words, style=style_of(phase.verdict)), *numbers, phase.finding.reason))
    figures = ("req/s", "KiB", "aqu-sz", "await ms", "%util")
    title = f"{diagnosis.device}: {diagnosis.headline}"
    columns = ("reports", "verdict", *figures, "why")
    return table_of(columns, rows, right=("reports", *figures), title=title)


def _row_numbers(evidence: Mapping[str, float]) -> list[str]:
    names = ("requests/s", "areq-sz KiB", "aqu-sz", "await ms", "%util (not used)")
    return [f"{evidence[name]:,.1f}" if name in evidence else "-" for name in names]
