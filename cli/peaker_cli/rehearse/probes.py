"""The probes of a rehearsal: each measures a figure that a plan assumes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from peaker.domain.planning.lead_time import LeadTimeInputs
from peaker.usecases.plan.lead_time_inputs import NLB_TARGET_SECONDS

from peaker_cli.failures import ControlPlaneError
from peaker_cli.rehearse.ground import DEVICES, EVENT_SOURCE, METRIC_NAMESPACE, TARGET_PORT, Ground

_ASSUMED = LeadTimeInputs(volumes=())
MIB = 1024.0**2
# A figure within half and twice of the assumed one changes no decision: the p90 of a first plan is as far off.
_AGREES_WITHIN = 2.0
# The device as the kernel names it: by volume id on Nitro types, else as it was attached.
_DEVICE = """device=$(ls -1 /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume} 2>/dev/null | head -1)
device=${{device:-{attached}}}
"""
_FILL = "dd if=/dev/urandom of=$device bs=1M oflag=direct 2>/dev/null; sync; blockdev --getsize64 $device"
_READ = """python3 - $device <<'END'
import mmap, os, sys, time
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
size, block, begin, done = os.lseek(disk, 0, os.SEEK_END), mmap.mmap(-1, 1 << 20), time.monotonic(), 0
while done < size:
    done += os.preadv(disk, [block], done)
print(done / (1 << 20) / (time.monotonic() - begin))
END"""
_AWAIT = """python3 - $device <<'END'
import mmap, os, random, statistics, sys, time
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
size, page, took = os.lseek(disk, 0, os.SEEK_END), mmap.mmap(-1, 16384), []
for at in random.Random(1).sample(range(size // 524288), min(200, size // 524288)):
    begin = time.monotonic()
    os.preadv(disk, [page], at * 524288)
    took.append(1000 * (time.monotonic() - begin))
print(statistics.median(took))
END"""
_SERVE = (
    "systemd-run --unit=peaker-rehearsal --quiet python3 -m http.server {port} --directory /var/empty 2>/dev/null || "
    "(cd / && nohup python3 -m http.server {port} --directory /tmp >/dev/null 2>&1 &) ; echo 0"
)


@dataclass(frozen=True)
class Probe:
    """One figure: what a plan assumes of it, None where it assumes nothing, and how it is measured."""

    name: str
    unit: str
    assumed: float | None
    measure: Callable[[Ground], float]


@dataclass(frozen=True)
class Row:
    """A probe's result."""

    name: str
    unit: str
    assumed: float | None
    measured: float

    @property
    def judgement(self) -> str:
        """Returns `as assumed`, `differs` (by more than twice, or less than half) or `no assumption`."""
        if self.assumed is None:
            return "no assumption"
        low, high = sorted((self.assumed, self.measured))
        return "as assumed" if high <= _AGREES_WITHIN * low else "differs"


def probes(ground: Ground) -> Iterator[Probe]:
    """Yields the probes in the order in which each finds what it needs."""
    yield Probe("instance until running", "s", _ASSUMED.instance_start_seconds, _launch)
    yield Probe("agent after the instance runs", "s", None, _agent)
    yield Probe("command until its answer", "s", None, _command)
    yield Probe("warm read of 16 KiB", "ms", None, _warm_await)
    yield Probe(
        "snapshot after its first minute", "MiB/s", _ASSUMED.snapshot_rate_bytes_per_s / MIB, _snapshot
    )
    yield Probe("volume from creation until attached", "s", _ASSUMED.attach_seconds, _cold_volume)
    yield Probe("cold read of 16 KiB", "ms", None, lambda one: _on_device(one, "cold", _AWAIT))
    yield Probe("default initialization", "MiB/s", 125.0, lambda one: _on_device(one, "cold", _READ))
    if rate := ground.settings.initialization_rate_mib_per_s:
        lesser = float(min(rate, 125))
        yield Probe(f"initialization at {rate} MiB/s", "MiB/s", lesser, lambda one: _paid(one, rate))
    if ground.settings.read_endpoint.kind == "nlb":
        yield Probe("target until healthy", "s", NLB_TARGET_SECONDS, _register)
        yield Probe("target until deregistered", "s", None, _deregister)
    yield Probe("metric until GetMetricData has it", "s", None, _metric)
    yield Probe("event until its queue has it", "s", None, _event)


def _launch(ground: Ground) -> float:
    begin = ground.now()
    ground.instance()
    return ground.seconds_until("the instance", lambda: ground.instance_state() == "running", begin)


def _agent(ground: Ground) -> float:
    return ground.seconds_until("the SSM agent", ground.agent_is_online)


def _command(ground: Ground) -> float:
    begin = ground.now()
    ground.run("echo 0")
    return (ground.now() - begin).total_seconds()


def _warm_await(ground: Ground) -> float:
    ground.volume("filled")
    _attached(ground, "filled")
    _on_device(ground, "filled", _FILL)
    return _on_device(ground, "filled", _AWAIT)


def _snapshot(ground: Ground) -> float:
    begin = ground.now()
    ground.snapshot()
    seconds = ground.seconds_until("the snapshot", lambda: ground.snapshot_state() == "completed", begin)
    return ground.gib * 1024 / max(1.0, seconds - _ASSUMED.snapshot_overhead_seconds)


def _cold_volume(ground: Ground) -> float:
    begin = ground.now()
    ground.volume("cold", SnapshotId=ground.snapshot())
    _attached(ground, "cold")
    return (ground.now() - begin).total_seconds()


def _paid(ground: Ground, rate: int) -> float:
    ground.volume("paid", SnapshotId=ground.snapshot(), VolumeInitializationRate=rate)
    _attached(ground, "paid")
    return _on_device(ground, "paid", _READ)


def _attached(ground: Ground, name: str) -> None:
    ground.seconds_until(
        "the volume", lambda: ground.volume_state(name) in {"available", "attaching", "attached"}
    )
    ground.attach(name)
    ground.seconds_until("the attachment", lambda: ground.volume_state(name) == "attached")


def _on_device(ground: Ground, name: str, script: str) -> float:
    """Runs the script with the volume's `$device` and returns the number that it prints; 0 where it prints none."""
    volume = ground.volume(name).replace("-", "")
    said = ground.run(_DEVICE.format(volume=volume, attached=DEVICES[name]) + script).strip()
    try:
        return float(said or 0)
    except ValueError:
        raise ControlPlaneError(f"the host printed no figure for {name}: {said[-200:]}") from None


def _register(ground: Ground) -> float:
    ground.run(_SERVE.format(port=TARGET_PORT))
    group, begin = ground.target_group(), ground.now()
    targets = [{"Id": ground.instance(), "Port": TARGET_PORT}]
    ground.client("elbv2").register_targets(TargetGroupArn=group, Targets=targets)
    return ground.seconds_until("the target", lambda: ground.target_state(group) == "healthy", begin)


def _deregister(ground: Ground) -> float:
    group, begin = ground.target_group(), ground.now()
    targets = [{"Id": ground.instance(), "Port": TARGET_PORT}]
    ground.client("elbv2").deregister_targets(TargetGroupArn=group, Targets=targets)
    return ground.seconds_until(
        "the end of the target", lambda: ground.target_state(group) == "unused", begin
    )


def _metric(ground: Ground) -> float:
    cloudwatch, begin = ground.client("cloudwatch"), ground.now()
    dimensions = [{"Name": "Rehearsal", "Value": ground.rehearsal}]
    data = [{"MetricName": "Probe", "Dimensions": dimensions, "Timestamp": begin, "Value": 1.0}]
    cloudwatch.put_metric_data(Namespace=METRIC_NAMESPACE, MetricData=data)
    asked = {"Namespace": METRIC_NAMESPACE, "MetricName": "Probe", "Dimensions": dimensions}
    query = {"Id": "probe", "MetricStat": {"Metric": asked, "Period": 60, "Stat": "Sum"}}

    def shown() -> bool:
        span = {"StartTime": begin - timedelta(minutes=5), "EndTime": ground.now() + timedelta(minutes=2)}
        found = cloudwatch.get_metric_data(MetricDataQueries=[query], **span)["MetricDataResults"]
        return bool(found[0]["Values"])

    return ground.seconds_until("the metric", shown, begin)


def _event(ground: Ground) -> float:
    url, begin = ground.queue(), ground.now()
    entry = {"Source": EVENT_SOURCE, "DetailType": ground.rehearsal, "Detail": json.dumps({"probe": 1})}
    sent = begin - timedelta(hours=1)

    def arrived() -> bool:
        nonlocal sent
        # A rule acts some time after it was put: an event that came before it is sent again.
        if ground.now() - sent > timedelta(seconds=30):
            sent = ground.now()
            ground.client("events").put_events(Entries=[entry])
        return bool(ground.client("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=0).get("Messages"))

    ground.seconds_until("the event", arrived, begin)
    return (ground.now() - sent).total_seconds()
