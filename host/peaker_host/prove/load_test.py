"""A read load on warm blocks by fio, with iostat and the NVMe statistics as witnesses beside it.

iostat's JSON is read report by report, also where sysstat wrote a document that is none: before 12.1.4 it does not
close the document when SIGINT ends it; 12.1.4 writes a lone comma before the first report. 12.1.2 to 12.2.0 give
sectors as `rkB/s` and `wkB/s`. A row may lack columns that another row has.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, nth_blocks, total
from peaker_host.layouts.image_rules import FIO_ENGINES as _ENGINES
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import (
    MISFITS,
    BenchmarkFailed,
    CommandFailed,
    HostError,
    parsed_json,
    understood,
    whole,
)
from peaker_host.machine.settings import Processes

_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_NEXT_REPORT = re.compile(r"[\s,]*\{")
_NEEDED = ("r/s", "w/s", "rkB/s", "r_await", "rareq-sz", "aqu-sz", "util")
# Of a rate below this, two decimals are too few to tell.
_LEAST_RATE = 1.0
_SECTORS = (1.9, 2.1)


def device_rows(document: str) -> List[Dict[str, Any]]:
    """The rows of all complete reports that have every column, their amounts in KiB.

    `sectors` is in a row whose amounts came in sectors.
    """
    rows = [row for report in _complete_reports(document) for row in report["disk"]]
    return [_in_kib(row) for row in rows if all(row.get(name) is not None for name in _NEEDED)]


def _complete_reports(document: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    for start in _STATISTICS.finditer(document):
        at = start.end()
        begin = _NEXT_REPORT.match(document, at)
        while begin is not None:
            try:
                report, at = decoder.raw_decode(document, begin.end() - 1)
            except (ValueError, RecursionError):
                return
            yield report
            begin = _NEXT_REPORT.match(document, at)


def _in_kib(row: Dict[str, Any]) -> Dict[str, Any]:
    product = row["r/s"] * row["rareq-sz"]
    if row["r/s"] < _LEAST_RATE or product <= 0:
        return row
    low, high = _SECTORS
    if low <= row["rkB/s"] / product <= high:
        return dict(row, sectors=True, **{"rkB/s": product})
    return row


READ_BYTES = 16384
_DEPTH = 8
_NO_ENGINE = "failed to load engine"
_MAX_READS = 60_000
# Reports are of whole seconds: in two seconds of reads one of them begins and ends.
_SURE_OF_A_REPORT_SECONDS = 2.0
_IOSTAT_ENDS_SECONDS = 5
_NVME_STATS = (
    "total_read_ops",
    "total_read_bytes",
    "total_read_time",
    "ebs_volume_performance_exceeded_iops",
    "ebs_volume_performance_exceeded_tp",
    "ec2_instance_ebs_performance_exceeded_iops",
    "ec2_instance_ebs_performance_exceeded_tp",
)


def run_load_test(
    processes: Processes,
    device: BlockDevice,
    blocks: List[Range],
    seconds: int,
    generator: random.Random,
) -> Dict[str, Any]:
    """Random 16 KiB reads inside the given blocks for `seconds`; what fio, iostat and the volume say about it."""
    with tempfile.TemporaryDirectory(prefix="peaker-load-") as directory:
        log_path = os.path.join(directory, "reads.iolog")
        _write_read_list(log_path, device.path, blocks, generator)
        before = nvme_counters(processes, device.kernel_name)
        with iostat_during(processes, device.kernel_name) as said:
            load, took_seconds = _run_fio(processes, log_path, seconds)
            time.sleep(max(0.0, _SURE_OF_A_REPORT_SECONDS - took_seconds))
        after = nvme_counters(processes, device.kernel_name)
    return {
        "depth": _DEPTH,
        "seconds": seconds,
        "fio": load,
        "iostat": summarise_iostat("".join(said), device.kernel_name),
        "nvme": nvme_delta(before, after),
    }


@contextlib.contextmanager
def iostat_during(processes: Processes, name: str) -> Iterator[List[str]]:
    """Runs iostat during the block; its JSON, a report per whole second, is in the list afterwards.

    It runs until the block ends, however long the block takes to begin its load: on a busy host, or on one whose root
    volume is still cold, a program takes seconds until its first read. The list stays empty where iostat does not end.
    """
    said: List[str] = []
    child = processes.start(["iostat", "-x", "-y", "-o", "JSON", "-d", name, "1"])
    try:
        yield said
    finally:
        child.send_signal(signal.SIGINT)
        try:
            said.append(child.communicate(timeout=_IOSTAT_ENDS_SECONDS)[0])
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()


@understood(BenchmarkFailed, "the JSON report of iostat")
def summarise_iostat(report: str, name: str) -> Dict[str, Any]:
    """Means over the intervals of one device in `iostat -x -o JSON`, weighted by reads. Raises BenchmarkFailed.

    `sectors` is in it where the amounts came in sectors.
    """
    rows = [row for row in device_rows(report) if row["disk_device"] == name]
    busy = [row for row in rows if row["r/s"] > 0]
    if not busy:
        raise BenchmarkFailed(f"iostat saw no read on {name} while the load ran")
    weight = sum(row["r/s"] for row in busy)

    def weighted(key: str) -> float:
        mean: float = round(sum(row[key] * row["r/s"] for row in busy) / weight, 3)
        return mean

    summary = {
        "device": name,
        "intervals": len(rows),
        "r/s": round(weight / len(busy), 1),
        "rkB/s": weighted("rkB/s"),
        "r_await": weighted("r_await"),
        "rareq-sz": weighted("rareq-sz"),
        "aqu-sz": weighted("aqu-sz"),
        "util": weighted("util"),
        "w/s": round(sum(row["w/s"] for row in rows) / len(rows), 1),
    }
    return dict(summary, sectors=True) if any(row.get("sectors") for row in busy) else summary


def _run_fio(processes: Processes, log_path: str, seconds: int) -> Tuple[Dict[str, Any], float]:
    """Runs fio and returns its report and its seconds of reading: fewer than asked for where all was read before."""
    argv = ["fio", "--name=proof", f"--read_iolog={log_path}", "--replay_no_stall=1"]
    argv += ["--direct=1", "--thread", f"--iodepth={_DEPTH}", f"--runtime={seconds}", "--output-format=json"]
    # No state file of its own in the working directory.
    argv += ["--readonly", "--verify_state_save=0"]
    output = _with_an_engine(processes, argv, seconds + 60)
    try:
        job = _fio_document(output)["jobs"][0]
        if job["error"]:
            raise BenchmarkFailed(f"fio ended with error {job['error']}")
        read = job["read"]
        load = {
            "iops": round(read["iops"], 1),
            "mib_per_s": round(read["bw"] / 1024, 2),
            "reads": read["total_ios"],
            "mean_ms": round(read["clat_ns"]["mean"] / 1e6, 3),
        }
        return load, read["runtime"] / 1000
    except MISFITS as error:
        raise BenchmarkFailed(f"fio gave no usable JSON: {error!r}: {output[-300:]}") from error


def _fio_document(output: str) -> Dict[str, Any]:
    """fio's JSON, whatever it says before and after it. Raises ValueError."""
    at = output.find("{")
    while at >= 0:
        try:
            document, _ = json.JSONDecoder().raw_decode(output, at)
        except (ValueError, RecursionError):
            document = {}
        if "jobs" in document:
            return dict(document)
        at = output.find("{", at + 1)
    raise ValueError("no object with jobs")


def _with_an_engine(processes: Processes, argv: List[str], timeout_seconds: float) -> str:
    """fio's output, by the first engine that this host's fio has."""
    for engine in _ENGINES:
        try:
            return processes.run([*argv, f"--ioengine={engine}"], timeout_seconds=timeout_seconds).stdout
        except CommandFailed as error:
            if _NO_ENGINE not in str(error):
                raise
    raise BenchmarkFailed(
        f"fio on this host has none of the engines {', '.join(_ENGINES)}: install fio-engine-libaio in the image"
    )


def _write_read_list(path: str, device_path: str, blocks: List[Range], generator: random.Random) -> None:
    """fio's iolog version 2: random reads inside the blocks, never outside them."""
    count = total(blocks)
    pages = BLOCK_BYTES // READ_BYTES
    picks = [generator.randrange(count) for _ in range(_MAX_READS)]
    order = sorted(range(_MAX_READS), key=picks.__getitem__)
    chosen = dict(zip(order, nth_blocks(blocks, sorted(picks))))
    with open(path, "w", encoding="ascii") as file:
        file.write(f"fio version 2 iolog\n{device_path} add\n{device_path} open\n")
        for index in range(_MAX_READS):
            offset = chosen[index] * BLOCK_BYTES + generator.randrange(pages) * READ_BYTES
            file.write(f"{device_path} read {offset} {READ_BYTES}\n")
        file.write(f"{device_path} close\n")


def nvme_counters(processes: Processes, kernel_name: str) -> Optional[Dict[str, int]]:
    """EBS statistics of an NVMe device (`nvme amzn stats`); None where there are none."""
    if not kernel_name.startswith("nvme"):
        return None
    try:
        output = processes.run(["nvme", "amzn", "stats", f"/dev/{kernel_name}", "-o", "json"]).stdout
        content = parsed_json(output)
        return {name: whole(content[name], name) for name in _NVME_STATS if name in content}
    except (HostError, *MISFITS):
        return None


def nvme_delta(before: Optional[Dict[str, int]], after: Optional[Dict[str, int]]) -> Optional[Dict[str, int]]:
    if before is None or after is None:
        return None
    return {name: after[name] - before[name] for name in after if name in before}
