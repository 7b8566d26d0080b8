"""What the lead time is predicted from: bytes by volume, as snapshots and prewarms have told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import InstancePromise, Snapshot
from peaker.domain.runs.past_runs import PastSteps
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.plan.lead_time_inputs import SnapshotHistory, lead_time_inputs, volume_bytes

from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, data_volumes_of, orders, with_cluster

GIB = 1024**3
# Of volumes of 200 GiB each.
DATA, LOG = 150, 10


@pytest.fixture
def ports() -> CalmPorts:
    made = calm_ports(orders())
    with_cluster(made)
    for volume in data_volumes_of(BASE, size_gib=200):
        made.storage.add(volume)
    return made


def snapshot(name: str, gib: int) -> Snapshot:
    at = NOON - timedelta(hours=1)
    return Snapshot(f"snap-{name}", "completed", f"vol-{name}", 100.0, gib * GIB, at, {})


HELD = SnapshotHistory(
    {"data": "vol-data", "log": "vol-log"}, (snapshot("data", DATA), snapshot("log", LOG)), NOON
)


def bytes_of(ports: CalmPorts, past: PastSteps, history: SnapshotHistory | None) -> dict[str, float]:
    fleet = gather_fleet(ports, ports.clusters.settings("orders"), with_volumes=True)
    inputs = lead_time_inputs(ports.clusters.settings("orders"), fleet, past, history)
    return {one.name: one.data_bytes / GIB for one in inputs.volumes}


def test_before_a_prewarm_all_that_the_snapshots_hold_is_read(ports: CalmPorts) -> None:
    assert bytes_of(ports, PastSteps(), HELD) == {"data": DATA, "log": LOG}


def test_without_snapshots_the_volumes_are_taken_to_be_full(ports: CalmPorts) -> None:
    assert bytes_of(ports, PastSteps(), None) == {"data": 200, "log": 200}


def test_volumes_that_only_their_device_names_are_read_and_a_root_volume_is_not(ports: CalmPorts) -> None:
    """A base replica made by hand, by its manual page: a first build was taken to read nothing, in minutes."""
    data, log = data_volumes_of(BASE, size_gib=200)
    for volume in (data, log):
        ports.storage.add(replace(volume, tags={}))
    root = {"peaker:volume": "root"}
    ports.storage.add(replace(data, volume_id="vol-root", device="/dev/xvda", size_gib=900, tags=root))
    fleet = gather_fleet(ports, ports.clusters.settings("orders"), with_volumes=True)
    assert volume_bytes(ports.clusters.settings("orders"), fleet) == {"data": 200 * GIB, "log": 200 * GIB}
    assert bytes_of(ports, PastSteps(), None) == {"data": 200, "log": 200}
    assert bytes_of(ports, PastSteps(), HELD) == {"data": DATA, "log": LOG}


def test_prewarms_that_were_left_at_the_hot_set_say_nothing_of_one_of_all(ports: CalmPorts) -> None:
    """prewarm.serve_when went from hot to all, and the first peak was met four hours late."""
    past = PastSteps(hydrated_bytes=[80 * GIB, 8 * GIB, 8 * GIB], hydrated_whole=[True, False, False])
    assert sum(bytes_of(ports, past, HELD).values()) == pytest.approx(80)
    hot_only = PastSteps(hydrated_bytes=[8 * GIB], hydrated_whole=[False])
    assert bytes_of(ports, hot_only, HELD) == {"data": DATA, "log": LOG}


def test_what_the_last_prewarm_read_is_read_again_wherever_it_lies(ports: CalmPorts) -> None:
    """A log volume that is nearly empty takes none of it away."""
    read = bytes_of(ports, PastSteps(hydrated_bytes=[144.0 * GIB]), HELD)
    assert sum(read.values()) == pytest.approx(144)
    assert read["data"] == pytest.approx(144 * DATA / (DATA + LOG))


def test_the_buffer_pool_is_the_last_donors_else_what_the_type_has_room_for(ports: CalmPorts) -> None:
    settings = ports.clusters.settings("orders")
    promise = InstancePromise(memory_mib=16 * 1024.0)
    first = lead_time_inputs(settings, None, PastSteps(), None, promise)
    assert first.buffer_pool_bytes == 12 * GIB
    told = lead_time_inputs(settings, None, PastSteps(pool_bytes=[5.0 * GIB]), None, promise)
    assert told.buffer_pool_bytes == 5 * GIB
    assert lead_time_inputs(settings, None, PastSteps(), None, Unknown("denied")).buffer_pool_bytes == 0
