"""The search for the knee on volumes whose knee is known, and the recorded iostat outputs of the tests."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from peaker_host.machine.processes import Processes
from peaker_host.prove.knee import find_knee
from peaker_host.prove.knee_steps import KneeSettings

from bench.prewarm.cold_volumes import MIB, ROOT, Laboratory
from localcloud.dataplane import DataPlaneError, VolumeLimits

SETTINGS = KneeSettings(max_concurrency=192, settle_seconds=1.0, window_seconds=2.0)
_SAMPLE_TESTS = (
    "tests/unit/domain/storage/test_io_diagnosis.py",
    "tests/unit/domain/storage/test_iostat_text.py",
)


@dataclass(frozen=True)
class KneeError:
    """Readers at which await crosses a limit, as found and by Little's law. The error is a share."""

    iops: int
    await_ms: float
    readers: float
    expected: float

    @property
    def error(self) -> float:
        """How far the search is off."""
        return abs(self.readers / self.expected - 1)


def knee_errors(lab: Laboratory, iops: Sequence[int], say: Callable[[str], None]) -> list[KneeError]:
    """One search per volume, one after the other: readers = IOPS * await, once the volume is at its cap."""
    found = []
    for cap in iops:
        volume_id = lab.new_id("vol")
        limits = VolumeLimits(iops=cap, throughput_mib_per_s=0, fetch_latency_ms=0.0)
        lab.store.create_volume(volume_id, 256 * MIB, limits)
        try:
            path = lab.store.attach(volume_id).path
            result = find_knee(path, SETTINGS, Processes(), lambda _: None, with_throughput=False)
        finally:
            lab.store.delete_volume(volume_id)
        say(f"knee at {cap} IOPS: {len(result['steps'])} steps, {result['seconds']} s, {result['ended']}")
        found += [_error(cap, crossing) for crossing in result["crossings"]]
    return found


def samples_rightly_diagnosed() -> tuple[int, int]:
    """(judged as those who recorded them did, all): the tests about recorded iostat outputs."""
    with tempfile.TemporaryDirectory(prefix="peaker-bench-") as folder:
        report = Path(folder) / "samples.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        done = subprocess.run(
            [*command, *_SAMPLE_TESTS], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if not report.exists():
            raise DataPlaneError(f"the tests did not run: {(done.stderr or done.stdout)[-600:]}")
        suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    tests = int(suite.attrib["tests"])
    return tests - sum(int(suite.attrib[kind]) for kind in ("failures", "errors", "skipped")), tests


def _error(cap: int, crossing: dict[str, float | None]) -> KneeError:
    limit = crossing["await_limit_ms"]
    assert limit is not None
    readers = crossing["concurrency"]
    return KneeError(cap, limit, math.inf if readers is None else readers, cap * limit / 1000)
