"""The recorded outputs of iostat under fixtures/iostat."""

from __future__ import annotations

from pathlib import Path

from peaker.domain.storage.io_diagnosis import diagnose
from peaker.domain.storage.io_findings import (
    DeviceDiagnosis,
    IostatReport,
    Limits,
    ReportDiagnosis,
    since_boot_left_out,
)
from peaker.domain.storage.iostat_text import read_iostat

FOLDER = Path(__file__).parent / "fixtures" / "iostat"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


def recorded(name: str) -> tuple[IostatReport, ...]:
    """All reports of one recording."""
    return read_iostat((FOLDER / f"{name}.txt").read_text()).reports


def diagnosed(name: str, device: str, limits: Limits | None = None) -> DeviceDiagnosis:
    """One device of one recording, judged."""
    found = diagnose(since_boot_left_out(recorded(name)), limits)
    return next(one for one in found if one.device == device)


def report(diagnosis: DeviceDiagnosis, number: int) -> ReportDiagnosis:
    """One report's findings, by the report's number in the recording."""
    return next(one for one in diagnosis.reports if one.report == number)
