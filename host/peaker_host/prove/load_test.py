"""A read load on warm blocks by fio, with iostat and the NVMe statistics as witnesses beside it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, nth_blocks, total
from peaker_host.layouts.image_hosts import FIO_ENGINES as _ENGINES
from peaker_host.machine.devices import BlockDevice
from peaker_host.machine.errors import BenchmarkFailed, CommandFailed, HostError
from peaker_host.machine.processes import Processes
from peaker_host.machine.understanding import MISFITS, parsed_json, understood, whole
from peaker_host.prove.iostat_reports import device_rows

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
    """Returns the difference of two readings; None where there are no statistics."""
    if before is None or after is None:
        return None
    return {name: after[name] - before[name] for name in after if name in before}
