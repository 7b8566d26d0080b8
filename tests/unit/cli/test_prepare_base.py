"""peaker prepare-base: what EC2 and Systems Manager know is looked at first, then the host is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.host_results import Agent
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus
from peaker_cli.base_replica.prepare_base import (
    BaseStep,
    agent_step,
    base_parameters,
    prepare_host,
    volumes_step,
)
from peaker_cli.base_replica.register_base import register_base, why_not_base
from peaker_cli.failures import ControlPlaneError

from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, OWNER_TAG
from sim import others
from sim.calm import calm_ports
from sim.ssm import HostileCommands
from tests.support.builders import BASE, data_volumes_of, instance, orders
from tests.support.peak import commands_that

INSTALLED = {"version": 1, "ok": True, "installed": True, "sha256": "ab" * 32}
GOOD = {"name": "gtid", "state": "already there", "detail": "gtid_mode is ON", "remedy": ""}
WRONG = {"name": "gtid", "state": "refused", "detail": "gtid_mode is OFF", "remedy": "turn it on"}


def ended(result: dict[str, Any], status: CommandStatus = CommandStatus.SUCCESS) -> CommandOutcome:
    return CommandOutcome(status, status.value, f"progress\n{json.dumps(result)}\n", "")


def prepared(commands: HostileCommands) -> list[BaseStep]:
    return prepare_host(
        commands, others.Package, orders(), BASE, base_parameters(orders()), lambda _: None, lambda _: None
    )


def host_that(**results: CommandOutcome) -> HostileCommands:
    return commands_that(install_host_package=ended(INSTALLED), **results).commands


class TestTheHost:
    def test_the_package_comes_first_then_its_command(self) -> None:
        commands = host_that(prepare_base=ended({"ok": True, "changed": True, "steps": [GOOD]}))
        steps = prepared(commands)
        assert [(step.name, step.state) for step in steps] == [
            ("host package", "done"),
            ("gtid", "already there"),
        ]
        assert [document for document, _, _ in commands.sent] == ["install_host_package", "prepare_base"]

    def test_what_the_host_refuses_comes_with_its_remedy(self) -> None:
        failed = ended({"ok": False, "error": "BaseNotPrepared", "steps": [WRONG]}, CommandStatus.FAILED)
        assert prepared(host_that(prepare_base=failed))[-1] == BaseStep(**WRONG)

    def test_a_command_that_broke_is_refused_with_its_error(self) -> None:
        failed = ended({"ok": False, "error": "ToolMissing", "message": "mysql"}, CommandStatus.FAILED)
        step = prepared(host_that(prepare_base=failed))[-1]
        assert (step.state, step.detail) == ("refused", "prepare_base: ToolMissing: mysql")

    def test_a_command_without_a_result_tells_what_systems_manager_said(self) -> None:
        lost = CommandOutcome(CommandStatus.TIMED_OUT, "Delivery Timed Out", "", "")
        assert "Delivery Timed Out" in prepared(host_that(prepare_base=lost))[-1].detail

    def test_without_the_package_nothing_else_is_asked(self) -> None:
        commands = commands_that().commands
        said = {"ok": False, "error": "PackageNotFetched", "message": "URLError"}
        commands.said["install_host_package"] = ended(said, CommandStatus.FAILED)
        steps = prepared(commands)
        assert [(step.name, step.state) for step in steps] == [("host package", "refused")]
        assert len(commands.sent) == 1

    def test_a_command_that_does_not_end_is_named(self) -> None:
        with pytest.raises(ControlPlaneError, match=r"install_host_package .* command-0"):
            prepared(commands_that().commands)


class TestTheQuestion:
    def test_it_is_asked_in_the_settings_words(self) -> None:
        given = base_parameters(orders())
        assert given["Filesystems"] == "/var/lib/mysql=xfs,/var/lib/mysql-log=xfs"
        assert (given["Engine"], given["HealthPort"], given["HealthAccount"]) == (
            "mysql",
            "9200",
            "replicated",
        )
        assert given["LeastBinlogSeconds"] == str(2880 * 60)
        assert "AdminDefaultsFile" not in given, "the document's default stands: an empty value is no value"
        assert json.loads(given["Health"])["lag_seconds"] == 5


class TestTheAgent:
    @pytest.mark.parametrize(
        ("found", "why"),
        [
            (Agent(False), "not registered"),
            (Agent(False, "3.3.3050.0", "ConnectionLost"), "ConnectionLost"),
            (Agent(True, "3.3.987.0"), "3.3.987.0"),
            (Agent(True), "unknown version"),
        ],
    )
    def test_an_agent_that_would_not_do_is_refused(self, found: Agent, why: str) -> None:
        step = agent_step(found)
        assert step.state == "refused"
        assert why in step.detail
        assert step.remedy

    def test_the_oldest_one_that_does(self) -> None:
        assert agent_step(Agent(True, "3.3.2746.0")).state == "already there"


class TestTheVolumes:
    def test_they_are_found_as_a_donor_s_are(self) -> None:
        untagged = [replace(volume, tags={}) for volume in data_volumes_of(BASE)]
        assert volumes_step(orders(), instance(BASE), untagged).state == "already there"

    def test_one_that_is_missing_is_named_with_its_device(self) -> None:
        step = volumes_step(orders(), instance(BASE), data_volumes_of(BASE)[:1])
        assert step.state == "refused"
        assert "log at /dev/sdg" in step.detail
        assert "Key=peaker:volume,Value=log" in step.remedy


def test_a_base_replica_is_in_both_groups_also_when_asked_twice() -> None:
    endpoint = calm_ports(orders()).endpoint
    for _ in range(2):
        register_base(endpoint, orders(), instance(BASE))
        assert set(endpoint.health(orders())) == set(endpoint.warming_health(orders())) == {BASE}


@pytest.mark.parametrize(
    ("role", "tags", "why"),
    [
        ("source", {}, "is the source of orders .* never serves reads"),
        ("replica", {CLUSTER_TAG: "payments"}, "belongs to the cluster payments .* not to orders"),
        ("replica", {ENVIRONMENT_TAG: "prod"}, "belongs to the environment prod .* not to local"),
        (
            "donor",
            {},
            "is not tagged as a replica of orders: peaker:role is donor.* Key=peaker:role,Value=replica",
        ),
        ("replica", {OWNER_TAG: "prod"}, "was made by Peaker"),
    ],
)
def test_anything_else_is_refused_with_the_reason(role: str, tags: dict[str, str], why: str) -> None:
    endpoint = calm_ports(orders()).endpoint
    with pytest.raises(ControlPlaneError, match=why):
        register_base(endpoint, orders(), instance(BASE, role, tags=tags))
    assert (endpoint.health(orders()), endpoint.warming_health(orders())) == ({}, {})


def test_the_source_is_not_advised_to_become_a_replica() -> None:
    told = why_not_base(orders(), instance(BASE, "source"))
    assert told is not None
    assert "create-tags" not in told
    assert "replica of orders" not in told


def test_an_untagged_instance_gets_the_command_that_tags_it() -> None:
    bare = instance(BASE)
    bare.tags.clear()
    told = why_not_base(orders(), bare)
    assert told is not None
    tags = "Key=peaker:cluster,Value=orders Key=peaker:environment,Value=local Key=peaker:role,Value=replica"
    assert f"aws ec2 create-tags --resources {BASE} --tags {tags}" in told
