"""A fault at each state on the way back of an expired replica: parked again, and nothing else of the run is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from peaker.domain.replicas.fleet import REFILL_DID_NOT_END, WROTE_NOTHING

from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.steps import Method, Part
from peaker_contract.way_into_service import states_of
from tests.statemachines.test_parking_workflow import FATAL, row_of
from tests.statemachines.test_refill_workflow import expired, kept_snapshots
from tests.support.workflow_cloud import WorkflowCloud
from tests.support.workflows import MACHINES

# What the batch does once, before any of its members begins.
OF_BATCH = {*states_of(Part.DONOR, method=Method.REFILL), "CreateSnapshots"}
REFILL_STATES = [
    (step.state, one.name)
    for one in FUNCTIONS
    for step in one.steps
    if Method.REFILL in step.methods and step.part is not None and step.state not in OF_BATCH
]
UNWRITTEN = {
    *states_of(Part.INSTANCE, method=Method.REFILL),
    *states_of(Part.SNAPSHOT, method=Method.REFILL),
}
HYDRATION = states_of(Part.HYDRATION, method=Method.REFILL)
# The donor's calls of the same function come first: the fault is laid when a host is asked for a document after them.
STARTS = {"StartParkedReplica", "AwaitParkedReplica", "InstallOnParkedReplica"}
CASES = [
    *((step, handler, "before") for step, handler in REFILL_STATES),
    ("SnapshotOwnVolumes", "create_snapshots", "after"),
    ("StartPrewarm", "start_prewarm", "after"),
    ("AssembleStorage", "assemble_storage", "after"),
    ("RegisterReplica", "register_replica", "after"),
]
# Its own snapshots are there, and nothing is written; `make faults` tries the others.
TRIED = {("SnapshotOwnVolumes", "create_snapshots", "after")}
EVERY_STATE = [
    case if case in TRIED else pytest.param(*case, marks=pytest.mark.every_state) for case in CASES
]


def laid_later(step: str, instance_id: str, lay: Callable[[], object]) -> Callable[[str, str], None]:
    """What is called before each answer of a host."""
    left = [lay]
    document = "prepare_donor" if step in STARTS else "install_host_package"

    def asked(name: str, host: str) -> None:
        if name == document and (host == instance_id or step in STARTS) and left:
            left.pop()()

    return asked


@pytest.mark.parametrize(("step", "handler", "when"), EVERY_STATE)
def test_a_fault_on_the_way_back_parks_it_again(
    cloud: WorkflowCloud, step: str, handler: str, when: Any
) -> None:
    cluster, instance_id = expired(cloud)
    before = row_of(cloud, cluster, instance_id)["parking"]
    sets = kept_snapshots(cloud, cluster)
    cloud.answers.before_answering = laid_later(
        step,
        instance_id,
        lambda: cloud.cloud.faults.add(f"lambda:{handler}", FATAL, "on purpose", when=when),
    )
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.instance_state(instance_id) == "stopped"
    assert cloud.lease_is_free(cluster)
    row = row_of(cloud, cluster, instance_id)
    assert row["state"] == "parked"
    not_asked = (step, when) == ("StartPrewarm", "before")
    if (step, when) != ("StartParkedReplica", "before"):
        told = f"{step}: {FATAL}; {WROTE_NOTHING}" if not_asked else f"{step}: {FATAL}"
        assert row["parking"]["failed_return"].endswith(told), row["parking"]
    if step in UNWRITTEN or not_asked:
        assert row["parking"]["spent"] == before["spent"], "its volumes are as they were"
    else:
        assert row["parking"]["spent"].startswith(REFILL_DID_NOT_END)
    if step in HYDRATION:
        assert cloud.last_state(execution) == "ReplicaInService", "the same run has built one"
        left = kept_snapshots(cloud, cluster)
        assert left - sets, "what that one was built from stays"
        assert left & sets == (sets if not_asked else set()), "a mixture is never refilled: its set goes"
    else:
        assert (cloud.last_state(execution), execution["error"]) == ("ScaleOutRolledBack", FATAL)
        assert kept_snapshots(cloud, cluster) == sets, "what it was made from stays, all else is gone"


def test_every_state_that_a_refill_passes_alone_is_tried() -> None:
    tried = {step for step, _, _ in CASES}
    assert {"SnapshotOwnVolumes", "AwaitBothSnapshots", "StartPrewarm", "AssembleStorage"} < tried
    assert tried < {*MACHINES["add_replica"]["States"], *MACHINES["prewarm"]["States"]}
