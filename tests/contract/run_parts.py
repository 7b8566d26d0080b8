"""A run of the ledger, and one of each part that its steps settle."""

from __future__ import annotations

from datetime import timedelta

from peaker.domain.document.disposal import Disposal, ParkingFigures
from peaker.domain.document.plan import Price, ScaleOutPlan
from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import (
    BlockList,
    DatabaseStop,
    Donor,
    DonorServer,
    EndpointExit,
    FirstSetSize,
    Placement,
    Removal,
    RunPart,
    RunReplica,
    RunRow,
    Source,
    VolumeRates,
    Waking,
)
from peaker.domain.service.leftovers import UndoAttempts
from peaker.domain.service.ramp import Ramp
from peaker.domain.service.retirement import Quiet
from peaker.domain.storage.set_manifest import SetManifest, Stack, StackVolume
from peaker.domain.storage.storage_looks import Look, NextLook, StorageLooks

from peaker_contract.steps import Method
from sim.workflows.virtual_time import START as NOON

RUN = RunRow("run-1", "orders", "scale_out", NOON, ExecutionInput(cluster="orders", reason="sale at eight"))
LATER = NOON + timedelta(minutes=5)
DONOR = Donor(instance_id="i-1", volumes={"data": "vol-1"})
PLAN = ScaleOutPlan(
    cluster="orders",
    planned_at=NOON,
    count=1,
    serving=1,
    building=0,
    max_replicas=3,
    donor="i-1",
    donor_reasons=("i-1: healthy",),
    zones=("us-east-1a",),
    zone_reason="fewest replicas first",
    instance_type="r6i.large",
    image_id="ami-0a770000000000097",
    volumes=(),
    lead_time=None,
    ready_at=LATER,
    price=Price(
        hourly=0.126,
        instance_hourly=None,
        volumes_hourly=None,
        once=None,
        per_month_if_kept=None,
        source="test",
    ),
    refusals=(),
)
ONE_OF_EACH: tuple[RunPart, ...] = (
    PLAN,
    DONOR,
    DonorServer(facts={"server version": [8, 4, 6], "datadir": "/var/lib/mysql"}),
    Source(instance_id="i-2", private_ip="10.77.2.20"),
    RunReplica(instance_id="i-3", builder="run-0", running_since=NOON),
    Removal(replicas=(RunReplica(instance_id="i-3", builder="run-0", running_since=NOON, follows="i-1"),)),
    Placement(zone="us-east-1a"),
    BlockList(blocks={"data": 9}),
    StorageLooks(
        looks=(Look(at=NOON, verdict="unknown", cold_share_upper=0.25),), next=NextLook(remedy="cold")
    ),
    Ramp(since=LATER, share_since=NOON, index=2, history=({"share": 0.1, "mean_ms": None},)),
    EndpointExit(at=NOON),
    Waking(times={"i-3": 2}),
    UndoAttempts(first_at=NOON, last_at=LATER, looks=3, failed=1, waiting="a volume"),
    Disposal(
        action="park",
        policy="auto",
        reason="cheaper",
        figures=ParkingFigures(
            return_seconds=90.5,
            build_seconds=3600,
            catch_up_per_hour=10,
            parked_hourly_usd=0.01,
            serving_hourly_usd=None,
            rebuild_usd=0.3,
        ),
    ),
    Quiet(since=NOON, client_statements=None),
    DatabaseStop(at=NOON),
    FirstSetSize(gib=12.5),
    SetManifest(
        stacks=[
            Stack(
                mount_point="/var/lib/mysql",
                filesystem="xfs",
                kind="single",
                volumes=[StackVolume(volume_id="vol-1", size_bytes=4 << 30)],
            )
        ],
        gtid_set="a:1-9",
        volumes={"data": "vol-1"},
    ),
    VolumeRates(rates={"data": 300, "log": None}),
    Batch(wanted=2, deadline=LATER, rounds=(("run-1", "run-1-2"), ("run-1-3",))),
    Member(
        batch="run-1",
        number=2,
        method=Method.BUILD,
        state="gone",
        failure=Failure(failed_step="VerifyStorage", error="StorageNotWarm", cause="cold"),
    ),
)
