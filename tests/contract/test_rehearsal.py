"""A rehearsal on the local cloud: every figure is measured, nothing is left, also after a kill at any of its steps."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from peaker.domain.prices.price_table import US_EAST_1, PriceTable
from peaker.domain.reading import Known, Unknown
from peaker_cli.aws_session import AwsClock
from peaker_cli.failures import ControlPlaneError
from peaker_cli.rehearse.clean_up import leftovers, remove
from peaker_cli.rehearse.command import (
    chosen_name,
    refuse_beyond,
    refuse_what_cannot_be_launched,
    rehearse,
    rehearse_or_remove,
)
from peaker_cli.rehearse.figures import cost_of, read_figures, rows_of, table_of
from peaker_cli.rehearse.named import document, machine
from peaker_cli.rehearse.probes import Row, probes
from peaker_cli.rehearse.resources import (
    DEVICES,
    REHEARSAL_TAG,
    Resources,
    answer_of,
    begun_before,
    end_of,
    rehearsal_name,
)
from peaker_cli.rehearse.state_behaviours import TABLE
from rich.console import Console

from cloud_rig.resources import ResourceCloud
from environments.schema import load_environment
from lab.rehearsed_hosts import rehearsal_answer
from localcloud.dataplane import RunResult
from localcloud.extensions.elbv2.lateness import PROMPT
from localcloud.open_cloud import CloudSettings
from localcloud.server import LocalCloud
from localcloud.simulated.hosts import After
from localcloud.simulated_dataplane import simulated_dataplane
from peaker_contract.cluster import ClusterSettings
from stacks.naming import Names
from stacks.people_statements import statements_for
from stacks.rights.role_statements import policy_document
from tests.support.builders import orders


class Killed(Exception):
    """The process of the command is gone."""


def host_says(instance_id: str, argv: Sequence[str], environment: Mapping[str, str]) -> RunResult | After:
    return rehearsal_answer(argv, environment)


@pytest.fixture(scope="module")
def cloud_of_it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResourceCloud]:
    plane = simulated_dataplane(host_says)
    settings = CloudSettings(describe_delay_seconds=0.02, snapshot_seconds=0.05, balancer_lateness=PROMPT)
    with LocalCloud(plane, tmp_path_factory.mktemp("aws"), clock_scale=60, settings=settings) as cloud:
        yield ResourceCloud(cloud, plane)


def of_a_paid_rate() -> ClusterSettings:
    return orders(initialization_rate_mib_per_s=200, instance_profile=None)


@pytest.fixture(scope="module")
def keys(cloud_of_it: ResourceCloud) -> Mapping[str, str]:
    """Those of a person who holds exactly the set `rehearse`."""
    aws, account = cloud_of_it, "arn:aws:iam::123456789012"
    trust = {"Effect": "Allow", "Principal": {"AWS": f"{account}:root"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    aws.iam.create_role(RoleName="person", AssumeRolePolicyDocument=document)
    rights = json.dumps(policy_document(statements_for("rehearse", Names(load_environment("local")))))
    aws.iam.put_role_policy(RoleName="person", PolicyName="set", PolicyDocument=rights)
    given = aws.sts.assume_role(RoleArn=f"{account}:role/person", RoleSessionName="dba")["Credentials"]
    return {
        "aws_access_key_id": given["AccessKeyId"],
        "aws_secret_access_key": given["SecretAccessKey"],
        "aws_session_token": given["SessionToken"],
    }


@pytest.fixture
def resources(cloud_of_it: ResourceCloud, keys: Mapping[str, str]) -> Iterator[Resources]:
    clock = AwsClock()
    now = clock.listen(cloud_of_it.cloud.client("ec2")).describe_volumes() and clock.now()
    place = {"endpoint_url": cloud_of_it.cloud.endpoint_url, "region_name": "us-east-1"}
    found = Resources(
        rehearsal_name("orders", now),
        of_a_paid_rate(),
        1,
        lambda service: clock.listen(boto3.client(service, **place, **keys)),  # type: ignore[call-overload]
        clock.now,
        lambda seconds: cloud_of_it.cloud.clock.sleep(0.5 * seconds),
    )
    yield found
    assert remove(found) == []


def test_every_figure_is_measured_and_nothing_is_left(resources: Resources, tmp_path: Path) -> None:
    rows: list[Row] = []
    rehearse(resources, rows, tmp_path / "figures.json")
    assert [one.name for one in rows] == [one.name for one in probes(resources)]
    by_name = {one.name: one for one in rows}
    assert by_name["default initialization"].judgement == "as assumed"
    assert (by_name["warm read of 16 KiB"].measured, by_name["warm read of 16 KiB"].judgement) == (
        0.6,
        "no assumption",
    )
    assert "initialization at 200 MiB/s" in by_name
    told = {one.name: (one.assumed, one.measured, one.why) for one in rows if isinstance(one.assumed, str)}
    assert {name: one for name, one in told.items() if one[0] != one[1]} == {}
    assert len(leftovers(resources)) > 25
    assert remove(resources) == []
    assert resources.client("elbv2").describe_target_groups()["TargetGroups"] == []
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [one["name"] for one in figures["rows"]] == [one.name for one in rows]


def test_a_rehearsal_that_is_killed_before_each_figure_and_in_its_waits_makes_nothing_twice(
    resources: Resources, tmp_path: Path
) -> None:
    file, begun, waited = tmp_path / "figures.json", set[int](), set[int]()

    def rows_so_far() -> list[Row]:
        return rows_of(read_figures(file), file)

    def dies_the_first_time(killed: set[int]) -> None:
        if len(rows_so_far()) not in killed:
            killed.add(len(rows_so_far()))
            raise Killed

    def wait(seconds: float) -> None:
        dies_the_first_time(waited)
        resources.sleep(seconds)

    count = len(list(probes(resources)))
    while len(rows_so_far()) < count:
        # What a group found before the death is kept here, or each of its rows would ask for all of it again.
        mortal = replace(resources, sleep=wait)
        with suppress(Killed):
            rehearse(mortal, rows_so_far(), file, lambda _: dies_the_first_time(begun))
    assert begun == set(range(count))
    assert waited != set()
    wanted = [{"Name": f"tag:{REHEARSAL_TAG}", "Values": [resources.rehearsal]}]
    groups = resources.client("ec2").describe_instances(Filters=wanted)["Reservations"]
    assert sum(len(group["Instances"]) for group in groups) == 1
    assert [len(resources.volumes(name)) for name in (*DEVICES, "free")] == [1, 1, 1, 1]
    assert len(resources.snapshots("whole")) == 1


def test_without_its_file_it_is_found_by_its_tags(resources: Resources) -> None:
    assert begun_before(resources.client("ec2"), "orders") is None
    resources.volume("filled")
    resources.seconds_until("the volume", lambda: resources.volume_state("filled") == "available")
    assert begun_before(resources.client("ec2"), "orders") == resources.rehearsal
    assert begun_before(resources.client("ec2"), "order") is None


def test_a_host_that_cannot_run_a_probe_is_named_with_its_last_words(
    resources: Resources, cloud_of_it: ResourceCloud
) -> None:
    cloud_of_it.plane.hosts.responder = lambda *_: RunResult(1, "", "python3: command not found")  # type: ignore[attr-defined]
    try:
        resources.instance()
        resources.seconds_until("the agent", resources.agent_is_online)
        with pytest.raises(
            ControlPlaneError, match=r"i-\w+ could not run the probe: python3: command not found"
        ):
            resources.run("python3")
    finally:
        cloud_of_it.plane.hosts.responder = host_says  # type: ignore[attr-defined]


def test_a_rehearsal_has_an_end_of_its_own(resources: Resources, tmp_path: Path) -> None:
    old = replace(resources, rehearsal="orders-260101000000")
    assert end_of(old.rehearsal) == "2026-01-01T06:00+00:00"
    with pytest.raises(ControlPlaneError, match="begin anew"):
        rehearse(old, [], tmp_path / "figures.json")


@pytest.mark.parametrize(
    ("measured", "judgement"), [(100, "as assumed"), (201, "differs"), (49, "differs"), (0, "differs")]
)
def test_a_figure_within_half_and_twice_is_as_assumed(measured: float, judgement: str) -> None:
    assert Row("rate", "MiB/s", 100, measured).judgement == judgement


def test_the_cost_is_known_only_with_every_price() -> None:
    known = cost_of(of_a_paid_rate(), 20, US_EAST_1).of_hours(2)
    assert isinstance(known, Known)
    assert 0.3 < known.value < 5
    nowhere = PriceTable("eu-west-1", "nobody", "no price was fetched")
    assert isinstance(cost_of(of_a_paid_rate(), 20, nowhere).of_hours(2), Unknown)


def test_the_table_fits_eighty_columns() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table_of([Row("volume from creation until attached", "MiB/s", 125.0, 118.512)]))
    (_, line) = console.export_text().splitlines()
    assert line.endswith("as assumed")


def test_a_probe_that_fails_leaves_nothing_running(
    resources: Resources, cloud_of_it: ResourceCloud, tmp_path: Path
) -> None:
    """The image has no python3: the person reads that, and pays for no instance that nobody knows of."""
    cloud_of_it.plane.hosts.responder = lambda *_: RunResult(1, "", "python3: command not found")  # type: ignore[attr-defined]
    try:
        with pytest.raises(ControlPlaneError, match="python3: command not found"):
            rehearse_or_remove(resources, [], tmp_path / "figures.json")
    finally:
        cloud_of_it.plane.hosts.responder = host_says  # type: ignore[attr-defined]
    assert leftovers(resources) == []
    assert read_figures(tmp_path / "figures.json") == {}, "the next one begins anew"


def test_a_failure_is_told_also_where_its_removal_fails(
    resources: Resources, cloud_of_it: ResourceCloud, tmp_path: Path
) -> None:
    """Somebody took the right to list machines away meanwhile: both are said, what happened first."""

    def fails() -> None:
        cloud_of_it.cloud.faults.add("stepfunctions:ListStateMachines", "AccessDeniedException", times=-1)
        raise ControlPlaneError("the image has no python3")

    try:
        with pytest.raises(
            ControlPlaneError, match=r"no python3; then its removal failed: .*state machines of .*--remove"
        ):
            rehearse_or_remove(resources, [], tmp_path / "figures.json", check=fails)
    finally:
        cloud_of_it.cloud.faults.clear()


def test_what_goes_while_it_is_removed_is_gone(resources: Resources, cloud_of_it: ResourceCloud) -> None:
    """Step Functions lists a machine that it deletes, and then knows of none; a second removal took the document."""
    passes = {"Give": {"Type": "Pass", "End": True}}
    resources.seconds_until("the machine", lambda: machine(resources, "pause", passes))
    document(resources, "# prints", {})
    cloud_of_it.cloud.faults.add("stepfunctions:ListExecutions", "StateMachineDoesNotExist", times=1)
    cloud_of_it.cloud.faults.add("ssm:DeleteDocument", "InvalidDocument", times=1)
    assert remove(resources) == []


def test_the_load_balancer_asks_at_the_port_that_the_security_groups_let_in(resources: Resources) -> None:
    endpoint = {**resources.settings.read_endpoint.model_dump(), "health_port": 9311}
    other = replace(resources, settings=orders(read_endpoint=endpoint, instance_profile=None))
    group = other.target_group()
    (found,) = resources.client("elbv2").describe_target_groups(TargetGroupArns=[group])["TargetGroups"]
    assert (found["Port"], found["HealthCheckPort"]) == (9311, "traffic-port")


def test_what_was_begun_before_is_no_measurement(resources: Resources, tmp_path: Path) -> None:
    """A take-up finds the snapshot done: a moment would be a rate of thousands."""
    rows: list[Row] = []

    def die(text: str) -> None:
        if "snapshot" in text:
            raise Killed

    with pytest.raises(Killed):
        rehearse(resources, rows, tmp_path / "figures.json", die)
    resources.snapshot()
    resources.seconds_until("the snapshot", lambda: resources.snapshot_state() == "completed")

    def die_after_it(text: str) -> None:
        if "volume from creation" in text:
            raise Killed

    with pytest.raises(Killed):
        rehearse(resources, rows, tmp_path / "figures.json", die_after_it)
    (taken_up,) = [one for one in rows if one.name.startswith("snapshot")]
    assert (taken_up.measured, taken_up.judgement) == (None, "unknown")


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match="has no rows of a rehearsal"):
        rows_of({"rows": [{"name": "x", "speed": 3}]}, tmp_path / "figures.json")


def test_a_behaviour_that_cannot_be_asked_for_is_unknown_and_keeps_no_other(
    resources: Resources, cloud_of_it: ResourceCloud, tmp_path: Path
) -> None:
    """An organization forbids tables: what needs none is asked for all the same."""
    file, denied = tmp_path / "figures.json", {"Effect": "Deny", "Action": "dynamodb:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [denied]})
    cloud_of_it.iam.put_role_policy(RoleName="person", PolicyName="denied", PolicyDocument=policy)
    rows = [Row(one.name, one.unit, one.assumed, None) for one in probes(resources) if one.name not in TABLE]
    resources.instance()
    try:
        rehearse(resources, rows, file)
        assert remove(resources) == [f"tables of {resources.own_name}"], (
            "what cannot be looked for is unknown"
        )
        assert resources.instances() == []
    finally:
        cloud_of_it.iam.delete_role_policy(RoleName="person", PolicyName="denied")
    told = rows[-len(TABLE) :]
    assert {one.judgement for one in told} == {"unknown"}
    assert "dynamodb:CreateTable" in told[0].why
    assert told[0].why in file.with_suffix(".md").read_text()


def test_it_stops_before_the_step_that_its_budget_does_not_hold(resources: Resources, tmp_path: Path) -> None:
    cost, begun = cost_of(of_a_paid_rate(), 1, US_EAST_1), replace(resources, rehearsal="orders-260101000000")
    with pytest.raises(ControlPlaneError, match=r"it has cost about \$\d+\.\d\d in [\d.]+ h, --budget is 5"):
        refuse_beyond(5.0, begun, cost)
    with pytest.raises(ControlPlaneError, match="--budget is nan"):
        refuse_beyond(float("nan"), begun, cost)
    with pytest.raises(ControlPlaneError, match="--budget is 0"):
        rehearse(resources, [], tmp_path / "f.json", check=lambda: refuse_beyond(0.0, resources, cost))
    assert leftovers(resources) == []


def test_a_rehearsal_whose_file_is_elsewhere_is_not_taken_over(tmp_path: Path) -> None:
    """A second person in the same account: their first step would measure, and remove, what the first one made."""
    file, shown = tmp_path / "figures.json", "orders-260101000000"
    assert chosen_name("orders", None, {}, file, None, only_remove=False) is None
    with pytest.raises(ControlPlaneError, match=f"{shown} is at work or was cut off.*--rehearsal {shown}"):
        chosen_name("orders", None, {}, file, shown, only_remove=False)
    assert chosen_name("orders", shown, {}, file, shown, only_remove=False) == shown
    assert chosen_name("orders", None, {}, file, shown, only_remove=True) == shown
    assert chosen_name("orders", None, {"rehearsal": shown}, file, shown, only_remove=False) == shown
    with pytest.raises(ControlPlaneError, match="--rehearsal is not of a rehearsal of orders"):
        chosen_name("orders", "users-260101000000", {}, file, None, only_remove=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"image_id": "ami-0123456789abcdef0"},
            r"ami-0123456789abcdef0 .*\((InvalidAMIID.NotFound|UnauthorizedOperation)\)",
        ),
        (
            {"subnets": {"us-east-1a": "subnet-0123456789abcdef0"}},
            r"in subnet-0123456789abcdef0 \((InvalidSubnetID.NotFound|UnauthorizedOperation)\)",
        ),
    ],
)
def test_what_cannot_be_launched_is_said_before_anything_is_paid_for(
    resources: Resources, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ControlPlaneError, match=f"nothing was made: EC2 would not launch .*{said}"):
        refuse_what_cannot_be_launched(replace(resources, settings=orders(**change, instance_profile=None)))
    refuse_what_cannot_be_launched(resources)
    assert leftovers(resources) == []


def test_the_rights_are_of_a_rehearsals_own_things_alone(
    resources: Resources, cloud_of_it: ResourceCloud
) -> None:
    others = cloud_of_it.available_volume()
    calls: tuple[Callable[[], Any], ...] = (
        lambda: resources.client("ec2").delete_volume(VolumeId=others),
        lambda: resources.client("ec2").create_volume(AvailabilityZone="us-east-1a", Size=1),
        lambda: resources.client("sqs").create_queue(QueueName="letters"),
        lambda: resources.client("iam").put_role_policy(
            RoleName=resources.own_name, PolicyName="all", PolicyDocument="{}"
        ),
    )
    refused = {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"}
    assert {answer_of(call) for call in calls} <= refused
