"""A deploy in the middle of a run changes the settings: what is built is what was planned.

What protects stays today's: gates and limits that were tightened, or loosened to let a run pass, count at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.ledger import Donor
from peaker.domain.runs.run import PrewarmStep, StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.create.assemble_storage import assemble_storage
from peaker.usecases.create.attach_volumes import attach_volumes
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.create_volumes import create_volumes
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.create.prepare_donor import prepare_donor
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.warm.report_prewarm import PrewarmProgress, report_prewarm
from peaker.usecases.warm.start_prewarm import start_prewarm
from peaker.usecases.warm.verify_storage import verify_storage

from peaker_contract import errors
from peaker_contract.cluster import ClusterSettings
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import BASE, RUN_ID, data_volumes_of, instance, leased, orders, with_cluster
from tests.support.peak import answers
from tests.unit.usecases.create.test_building import plan_step

# Every setting that shapes what is built, changed, and a volume that no replica has.
DEPLOYED: dict[str, Any] = {
    "instance_type": "r6i.4xlarge",
    "image_id": "ami-0feedfacefeedface",
    "instance_profile": "another",
    "security_group_ids": ["sg-0feedfacefeedface"],
    "subnets": {"us-east-1a": "subnet-0feedfacefeed000a", "us-east-1b": "subnet-0feedfacefeed000b"},
    "initialization_rate_mib_per_s": 300,
    "prewarm": {"serve_when": "hot", "background_rate_mib_per_s": 64},
    "volumes": [
        {"name": name, "device": device, "mount_point": f"/elsewhere-{name}", "filesystem": "ext4",
         "volume_type": "io2", "iops": 64_000}
        for name, device in (("data", "/dev/sdm"), ("log", "/dev/sdn"), ("extra", "/dev/sdo"))
    ],
}  # fmt: skip
GATES = {"lag_seconds": 5, "storage_await_ratio": 1.5, "knee_seconds": 120}
PREPARED = {"gtid_set": "", "server_uuid": "donor", "data_bytes": 1, "buffer_pool_pages": 1}

Step = Callable[[Ports, StepInput], Any]


def deploy(ports: CalmPorts, **changes: Any) -> None:
    """The cluster's settings from now on."""
    today = ports.clusters.settings("orders").model_dump(mode="json")
    ports.clusters.by_name["orders"] = ClusterSettings.model_validate({**today, **changes})


@pytest.fixture
def ports() -> CalmPorts:
    """A run that has its plan; its settings are changed right after."""
    ports = with_cluster(calm_ports(orders(gates=GATES)))
    plan_scale_out(ports, plan_step(ports))
    deploy(ports, **DEPLOYED)
    return ports


def run(ports: CalmPorts, step: Step, name: str) -> Any:
    return step(ports, leased(ports, name))


def reported(ports: CalmPorts) -> PrewarmProgress:
    return report_prewarm(
        ports, PrewarmStep(**leased(ports, "ReportPrewarm").model_dump(), until="serving", starts=1)
    )


def launched(ports: CalmPorts) -> CalmPorts:
    run(ports, choose_donor, "ChooseDonor")
    run(ports, create_snapshots, "CreateSnapshots")
    ports.clock.advance(seconds=40)
    run(ports, launch_replica, "LaunchReplica")
    ports.clock.advance(seconds=15)
    return ports


def with_volumes(ports: CalmPorts) -> CalmPorts:
    run(launched(ports), create_volumes, "CreateVolumes")
    for volume in ports.storage.volumes.values():
        if volume.state == "creating":
            ports.storage.add(replace(volume, state="available"))
    return ports


def sent(ports: CalmPorts) -> dict[str, str]:
    return ports.commands.parameters[-1]


class TestAnotherDonor:
    OTHER = "i-000000000000b0002"

    def beside(self, ports: CalmPorts, size_gib: int) -> None:
        """Another base replica serves, with volumes of that size; the planned donor may be gone."""
        ports.compute.add(instance(self.OTHER))
        for volume in data_volumes_of(self.OTHER, size_gib=size_gib):
            ports.storage.add(volume)
        ports.endpoint.set(self.OTHER, TargetState.HEALTHY)

    def chosen(self, ports: CalmPorts) -> str:
        run(ports, choose_donor, "ChooseDonor")
        return ports.ledger.run(RUN_ID).required(Donor, "").instance_id

    def test_one_whose_volumes_fit_takes_the_place_of_a_planned_one_that_fell_ill(
        self, ports: CalmPorts
    ) -> None:
        self.beside(ports, 4)
        ports.endpoint.set(BASE, TargetState.UNHEALTHY)
        assert self.chosen(ports) == self.OTHER

    def test_one_whose_volumes_are_larger_than_planned_does_not(self, ports: CalmPorts) -> None:
        """EC2 makes no volume that is smaller than its snapshot, and the plan's price is for the planned size."""
        self.beside(ports, 8)
        ports.endpoint.set(BASE, TargetState.UNHEALTHY)
        with pytest.raises(errors.NoDonor, match="data has 8 GiB, the plan 4"):
            self.chosen(ports)


def test_every_step_of_a_build_follows_the_plan(ports: CalmPorts) -> None:
    planned = orders()
    run(ports, choose_donor, "ChooseDonor")
    answers(ports, "prepare_donor", **PREPARED, lag_seconds=0)
    run(ports, prepare_donor, "PrepareDonor")
    assert sent(ports)["MountPoints"] == "/var/lib/mysql,/var/lib/mysql-log"
    with_volumes(ports)
    [(spec, _)] = ports.asked("compute.launch")
    assert (spec.instance_type, spec.image_id) == (planned.instance_type, planned.image_id)
    assert (spec.subnet_id, spec.security_group_ids, spec.instance_profile) == (
        planned.subnets["us-east-1a"], planned.security_group_ids, planned.instance_profile,
    )  # fmt: skip
    with pytest.raises(errors.VolumesAttaching):
        run(ports, attach_volumes, "AttachVolumes")
    assert set(run(ports, attach_volumes, "AttachVolumes").numbers["attached"]) == {"data", "log"}
    made = ports.storage.volumes_of_run(RUN_ID)
    assert {(one.name, one.volume_type, one.size_gib, one.device) for one in made} == {
        ("data", "gp3", 4, "/dev/sdf"), ("log", "gp3", 4, "/dev/sdg"), ("root", "gp3", 16, "/dev/sda1"),
    }  # fmt: skip
    answers(ports, "assemble_storage")
    run(ports, assemble_storage, "AssembleStorage")
    volumes = json.loads(sent(ports)["Volumes"])
    assert all(one["volume_id"].startswith("vol-") for one in volumes)
    assert [(one["name"], one["device"], one["mount_point"], one["filesystem"]) for one in volumes] == [
        ("data", "/dev/sdf", "/var/lib/mysql", "xfs"),
        ("log", "/dev/sdg", "/var/lib/mysql-log", "xfs"),
    ]
    answers(ports, "start_prewarm", pid=1)
    run(ports, start_prewarm, "StartPrewarm")
    assert sent(ports)["BackgroundRateMibPerS"] == "0"
    answers(ports, "report_prewarm", state="running", hot_warm_seconds=9, eta_seconds=900)
    assert reported(ports).state == "running", "a warm hot set is not enough where all was planned"


def test_the_proof_is_of_what_was_planned(ports: CalmPorts) -> None:
    load = {"seconds": 5, "iostat": {"device": "nvme1n1", "r/s": 1790.0, "rkB/s": 28640.0, "r_await": 4.4,
                                     "rareq-sz": 16.0, "aqu-sz": 8.0, "util": 99.0}}  # fmt: skip
    volumes = [{"name": name, "load": load} for name in ("data", "log")]
    deploy(ports, gates={**GATES, "knee_seconds": 900})
    answers(launched(ports), "verify_storage", verdict="warm", volumes=volumes)
    asked = len(ports.asked("compute.ebs_promise"))
    numbers = run(ports, verify_storage, "VerifyStorage").numbers
    assert (sent(ports)["Scope"], sent(ports)["KneeSeconds"]) == ("used", "120")
    assert {one["iops_promised"] for one in numbers["limits"]} == {3000}
    assert ports.asked("compute.ebs_promise")[asked:] == [("r6i.large",)]
    assert numbers["against_plan"]


class TestWhatProtectsIsTodays:
    def test_a_tightened_lag_gate_stops_the_donor(self, ports: CalmPorts) -> None:
        run(ports, choose_donor, "ChooseDonor")
        deploy(ports, gates={**GATES, "lag_seconds": 1})
        answers(ports, "prepare_donor", **PREPARED, lag_seconds=2)
        with pytest.raises(errors.DonorLagging, match="gate 1 s"):
            run(ports, prepare_donor, "PrepareDonor")

    @pytest.mark.parametrize(("minutes", "fails"), [(15, True), (60, False)])
    def test_the_deadline_is_todays(self, ports: CalmPorts, minutes: int, fails: bool) -> None:
        given, now = leased(launched(ports), "StartPrewarm"), ports.clock.now()
        ports.ledger.start_step(given.holder, "StartPrewarm", now, lease_end(now))
        limits = orders().limits.model_dump()
        deploy(ports, limits={**limits, "prewarm_deadline_minutes": minutes})
        ports.clock.advance(minutes=16)
        answers(ports, "report_prewarm", state="running", eta_seconds=60)
        if fails:
            with pytest.raises(errors.PrewarmDeadlineExceeded):
                reported(ports)
        else:
            assert reported(ports).state == "running"
