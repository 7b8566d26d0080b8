"""Volumes of a parked replica that were written anew: when their host forgets what it knew of them, and when not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from host_bench import RUN_ID, Host
from peaker_host.blocks.live_blocks import LiveBlocks, keep_live_blocks
from peaker_host.layouts.refilled import begin_anew
from peaker_host.machine.errors import DeviceInUse, InvalidArgument, PrewarmNotStarted
from peaker_host.machine.files import write_json
from peaker_host.machine.manifest import Manifest, Member

REFILL, SECOND = "scale-out-orders-20261127T1200-77aa", "scale-out-orders-20261128T1200-77ab"
VOLUMES = ("vol-0a1b2c3d4e5f60718", "vol-0a1b2c3d4e5f60719")


def manifest(*mount_points: str) -> Manifest:
    points = mount_points or ("/srv/nothing/here", "/srv/nothing/there")
    members = [
        Member(point, volume_id, "/dev/sdf", point, "xfs")
        for point, volume_id in zip(points, VOLUMES, strict=True)
    ]
    return Manifest(RUN_ID, members)


def filled(host: Host, run_id: str = REFILL, state: str = "done", *volumes: str) -> None:
    live = {one: LiveBlocks([(0, 4)], "", known=True) for one in volumes or VOLUMES}
    keep_live_blocks(host.settings, run_id, live)
    write_json(host.settings.run_path(run_id, "prewarm.json"), {"state": state})


def marker(host: Host) -> Path:
    path = Path(host.settings.run_path(RUN_ID, "database.json"))
    write_json(str(path), {"taken": True})
    return path


def begin(host: Host, *mount_points: str, by: str = REFILL) -> None:
    begin_anew(host.settings, manifest(*mount_points), by, lambda _: None)


def test_each_run_that_refills_it_begins_its_life_once(host: Host) -> None:
    filled(host)
    filled(host, SECOND)
    taken = marker(host)
    begin(host)
    assert not taken.exists()
    marker(host)
    begin(host)
    assert taken.exists(), "the same command again, after the database was started"
    begin(host, by=SECOND)
    assert not taken.exists()


@pytest.mark.parametrize(
    ("state", "volumes"),
    [("running", VOLUMES), ("dead", VOLUMES), ("done", VOLUMES[:1])],
    ids=["it runs", "it was killed", "not of all volumes"],
)
def test_a_fill_that_has_not_ended_leaves_everything_as_it_was(
    host: Host, state: str, volumes: tuple[str, ...]
) -> None:
    taken = marker(host)
    filled(host, REFILL, state, *volumes)
    with pytest.raises(PrewarmNotStarted, match=REFILL):
        begin(host)
    assert taken.exists()


def test_a_run_without_a_fill_on_this_host_is_refused(host: Host) -> None:
    taken = marker(host)
    with pytest.raises(PrewarmNotStarted, match=VOLUMES[1]):
        begin(host)
    assert taken.exists()


def test_what_is_mounted_may_be_a_database_at_work(host: Host) -> None:
    taken = marker(host)
    filled(host)
    with pytest.raises(DeviceInUse, match="/proc"):
        begin(host, "/srv/nothing/here", "/proc")
    assert taken.exists()


def test_the_builder_refills_nothing(host: Host) -> None:
    filled(host, RUN_ID)
    with pytest.raises(InvalidArgument, match="refilled-by"):
        begin(host, by=RUN_ID)


def test_a_call_that_was_killed_half_way_is_made_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = marker(host)
    filled(host)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("peaker_host.layouts.refilled.keep_live_blocks", killed)
        with pytest.raises(KeyboardInterrupt):
            begin(host)
    marker(host)
    begin(host)
    assert not taken.exists()
