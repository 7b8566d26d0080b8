"""The probes of a rehearsal: each measures a figure that a plan assumes, or asks what AWS does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from peaker.domain.planning.lead_time import LeadTimeInputs
from peaker.usecases.plan.lead_time_inputs import NLB_TARGET_SECONDS

from peaker_cli.failures import ControlPlaneError
from peaker_cli.rehearse.event_behaviours import DUPLICATES, EVENTS, ask_eventbridge
from peaker_cli.rehearse.host_behaviours import COMMANDS, PARAMETERS, ask_commands, ask_document
from peaker_cli.rehearse.metric_behaviours import METRICS, ask_cloudwatch
from peaker_cli.rehearse.named import detail_type, own_events, queue, rule
from peaker_cli.rehearse.resources import DEVICES, EVENT_SOURCE, METRIC_NAMESPACE, Resources
from peaker_cli.rehearse.state_behaviours import (
    EXECUTIONS,
    EXPRESSIONS,
    TABLE,
    ask_dynamodb,
    ask_executions,
    ask_expressions,
    role_seconds,
)
from peaker_cli.rehearse.storage_behaviours import (
    EC2,
    SNAPSHOTS,
    TARGETS,
    ask_ec2,
    ask_snapshots,
    ask_target_group,
)

_ASSUMED = LeadTimeInputs(volumes=())
MIB = 1024.0**2
# A figure within half and twice of the assumed one changes no decision: the p90 of a first plan is as far off.
_AGREES_WITHIN = 2.0
# The device as the kernel names it: by volume id on Nitro types, else as it was attached.
_DEVICE = """device=$(ls -1 /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume} 2>/dev/null | head -1)
device=${{device:-{attached}}}
"""
_FILL = "dd if=/dev/urandom of=$device bs=1M oflag=direct 2>/dev/null; sync; blockdev --getsize64 $device"
# Like the engine: blocks of 512 KiB by many readers, since one reader waits for each block.
_READ = """python3 - $device <<'END'
import mmap, os, sys, time
from concurrent.futures import ThreadPoolExecutor
disk, block = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), 524288
count, begin = os.lseek(disk, 0, os.SEEK_END) // block, time.monotonic()
def read(first):
    space = mmap.mmap(-1, block)
    for at in range(first, count, 32):
        os.preadv(disk, [space], at * block)
with ThreadPoolExecutor(32) as readers:
    list(readers.map(read, range(32)))
print(count / 2 / (time.monotonic() - begin))
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
    """One figure, or one behaviour in words: what Peaker assumes of it, None for nothing, and how it is measured.

    A measurement that finds its resource made already returns None: it did not see it begin.
    """

    name: str
    unit: str
    assumed: float | str | None
    measure: Callable[[Resources], float | str | None]
    # Without it the others cannot be measured; any other that fails is unknown.
    is_needed: bool = False


@dataclass(frozen=True)
class Row:
    """A probe's result; `measured` is None where the rehearsal was cut off in it, or could not ask: `why` says so."""

    name: str
    unit: str
    assumed: float | str | None
    measured: float | str | None
    why: str = ""

    @property
    def judgement(self) -> str:
        """Returns `as assumed`, `differs` (a figure by more than twice) `no assumption` or `unknown`."""
        if self.measured is None:
            return "unknown"
        if self.assumed is None:
            return "no assumption"
        if isinstance(self.assumed, str) or isinstance(self.measured, str):
            return "as assumed" if self.assumed == self.measured else "differs"
        low, high = sorted((self.assumed, self.measured))
        return "as assumed" if high <= _AGREES_WITHIN * low else "differs"


def probes(resources: Resources) -> Iterator[Probe]:
    """Yields the probes in the order in which each finds what it needs."""
    for probe in _storage_probes(resources):
        yield replace(probe, is_needed=True)
    yield from _behaviours(EC2, ask_ec2)
    yield from _behaviours(SNAPSHOTS, ask_snapshots)
    yield from _behaviours(PARAMETERS, ask_document)
    yield from _behaviours(COMMANDS, ask_commands)
    if resources.settings.read_endpoint.kind == "nlb":
        yield Probe("target until healthy", "s", NLB_TARGET_SECONDS, _register)
        yield from _behaviours(TARGETS, ask_target_group)
        yield Probe("target until deregistered", "s", None, _deregister)
    yield Probe("metric until GetMetricData has it", "s", None, _metric)
    yield from _behaviours(METRICS, ask_cloudwatch)
    yield Probe("event until its queue has it", "s", None, _event)
    yield from _behaviours(EVENTS, ask_eventbridge)
    yield from _behaviours({DUPLICATES: "0"}, ask_eventbridge)
    yield Probe("new role until Step Functions takes it", "s", None, role_seconds)
    yield from _behaviours(EXECUTIONS, ask_executions)
    yield from _behaviours(EXPRESSIONS, ask_expressions)
    yield from _behaviours(TABLE, ask_dynamodb)


def _storage_probes(resources: Resources) -> Iterator[Probe]:
    yield Probe("instance until running", "s", _ASSUMED.instance_start_seconds, _launch)
    yield Probe("agent online after the launch", "s", None, _agent)
    yield Probe("command until its answer", "s", None, _command)
    yield Probe("warm read of 16 KiB", "ms", None, _warm_await)
    yield Probe(
        "snapshot after its first minute", "MiB/s", _ASSUMED.snapshot_rate_bytes_per_s / MIB, _snapshot
    )
    yield Probe("volume from creation until attached", "s", _ASSUMED.attach_seconds, _cold_volume)
    yield Probe("cold read of 16 KiB", "ms", None, lambda one: _on_device(one, "cold", _AWAIT))
    yield Probe("default initialization", "MiB/s", 125.0, lambda one: _on_device(one, "cold", _READ))
    if rate := resources.settings.initialization_rate_mib_per_s:
        lesser = float(min(rate, 125))
        yield Probe(f"initialization at {rate} MiB/s", "MiB/s", lesser, lambda one: _paid(one, rate))


def _behaviours(assumed: Mapping[str, str], ask: Callable[[Resources], Mapping[str, str]]) -> Iterator[Probe]:
    """Yields a probe for each behaviour of a group, which is asked for at once."""
    for name, expected in assumed.items():
        yield Probe(name, "", expected, lambda one, name=name: one.gathered(ask)[name])  # type: ignore[misc]


def _launch(resources: Resources) -> float | None:
    begin, begun_before = resources.now(), resources.instance_state() != "absent"
    resources.instance()
    seconds = resources.seconds_until("the instance", lambda: resources.instance_state() == "running", begin)
    return None if begun_before else seconds


def _agent(resources: Resources) -> float | None:
    if resources.agent_is_online():
        return None
    return resources.seconds_until("the SSM agent", resources.agent_is_online, resources.launched_at())


def _command(resources: Resources) -> float:
    begin = resources.now()
    resources.run("echo 0")
    return (resources.now() - begin).total_seconds()


def _warm_await(resources: Resources) -> float:
    resources.volume("filled")
    _attached(resources, "filled")
    _on_device(resources, "filled", _FILL)
    return _on_device(resources, "filled", _AWAIT)


def _snapshot(resources: Resources) -> float | None:
    begin, begun_before = resources.now(), resources.snapshot_state() != "absent"
    resources.snapshot()
    seconds = resources.seconds_until(
        "the snapshot", lambda: resources.snapshot_state() == "completed", begin
    )
    rate = resources.gib * 1024 / max(1.0, seconds - _ASSUMED.snapshot_overhead_seconds)
    return None if begun_before else rate


def _cold_volume(resources: Resources) -> float | None:
    begin, begun_before = resources.now(), resources.volume_state("cold") != "absent"
    resources.volume("cold", SnapshotId=resources.snapshot())
    _attached(resources, "cold")
    return None if begun_before else (resources.now() - begin).total_seconds()


def _paid(resources: Resources, rate: int) -> float:
    resources.volume("paid", SnapshotId=resources.snapshot(), VolumeInitializationRate=rate)
    _attached(resources, "paid")
    return _on_device(resources, "paid", _READ)


def _attached(resources: Resources, name: str) -> None:
    resources.seconds_until(
        "the volume", lambda: resources.volume_state(name) in {"available", "attaching", "attached"}
    )
    resources.attach(name)
    resources.seconds_until("the attachment", lambda: resources.volume_state(name) == "attached")


def _on_device(resources: Resources, name: str, script: str) -> float:
    """Runs the script with the volume's `$device` and returns the number that it prints; 0 where it prints none."""
    volume = resources.volume(name).replace("-", "")
    said = resources.run(_DEVICE.format(volume=volume, attached=DEVICES[name]) + script).strip()
    try:
        return float(said or 0)
    except ValueError:
        raise ControlPlaneError(f"the host printed no figure for {name}: {said[-200:]}") from None


def _register(resources: Resources) -> float | None:
    resources.run(_SERVE.format(port=resources.health_port))
    group = resources.target_group()
    begin, begun_before = resources.now(), resources.target_state(group) != "unused"
    resources.client("elbv2").register_targets(TargetGroupArn=group, Targets=resources.targets)
    seconds = resources.seconds_until(
        "the target", lambda: resources.target_state(group) == "healthy", begin, 1800
    )
    return None if begun_before else seconds


def _deregister(resources: Resources) -> float | None:
    group = resources.target_group()
    begin, begun_before = resources.now(), resources.target_state(group) != "healthy"
    resources.client("elbv2").deregister_targets(TargetGroupArn=group, Targets=resources.targets)
    seconds = resources.seconds_until(
        "the end of the target", lambda: resources.target_state(group) == "unused", begin
    )
    return None if begun_before else seconds


def _metric(resources: Resources) -> float:
    cloudwatch, begin = resources.client("cloudwatch"), resources.now()
    dimensions = [{"Name": "Rehearsal", "Value": resources.rehearsal}]
    data = [{"MetricName": "Probe", "Dimensions": dimensions, "Timestamp": begin, "Value": 1.0}]
    cloudwatch.put_metric_data(Namespace=METRIC_NAMESPACE, MetricData=data)
    asked = {"Namespace": METRIC_NAMESPACE, "MetricName": "Probe", "Dimensions": dimensions}
    query = {"Id": "probe", "MetricStat": {"Metric": asked, "Period": 60, "Stat": "Sum"}}

    def shown() -> bool:
        span = {"StartTime": begin - timedelta(minutes=5), "EndTime": resources.now() + timedelta(minutes=2)}
        found = cloudwatch.get_metric_data(MetricDataQueries=[query], **span)["MetricDataResults"]
        return bool(found[0]["Values"])

    return resources.seconds_until("the metric", shown, begin)


def _event(resources: Resources) -> float:
    rule(resources, "", own_events(resources, "probe"))
    url, begin = queue(resources), resources.now()
    detail = {"Detail": json.dumps({"probe": 1}), "DetailType": detail_type(resources, "probe")}
    sent = begin - timedelta(hours=1)

    def arrived() -> bool:
        nonlocal sent
        # A rule acts some time after it was put: an event that came before it is sent again.
        if resources.now() - sent > timedelta(seconds=30):
            sent = resources.now()
            resources.client("events").put_events(Entries=[{"Source": EVENT_SOURCE, **detail}])
        return bool(resources.client("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=0).get("Messages"))

    resources.seconds_until("the event", arrived, begin)
    return (resources.now() - sent).total_seconds()
