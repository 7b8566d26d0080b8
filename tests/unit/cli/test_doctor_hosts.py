"""peaker doctor on the hosts: one source, base replicas that can be donors, in the words of prepare-base."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError
from peaker.domain.host_results import Agent
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus, Instance
from peaker_cli.doctor.finding import Finding, NotTold
from peaker_cli.doctor.hosts import HostLook, look_at_host, look_at_hosts

from peaker_contract.errors import AwsCallRejected
from tests.support.builders import BASE, RUN_ID, SOURCE, data_volumes_of, instance, orders, replica
from tests.support.peak import commands_that

OTHER = "i-000000000000b0002"
ONLINE = Agent(True, "3.3.3050.0")
GTID = {"name": "gtid", "state": "already there", "detail": "gtid_mode is ON", "remedy": ""}
SOUND = {"ok": True, "steps": [GTID], "server_id": 7, "source_host": "10.77.2.20"}


def ended(result: dict[str, Any]) -> CommandOutcome:
    status = CommandStatus.SUCCESS if result["ok"] else CommandStatus.FAILED
    return CommandOutcome(status, status.value, json.dumps(result), "")


def look(
    outcome: CommandOutcome | None = None, agent: Any = ONLINE, name: str = BASE, commands: Any = None
) -> HostLook:
    asked = commands or commands_that(prepare_base=outcome or ended(SOUND)).commands
    return look_at_host(asked, orders(), instance(name), data_volumes_of(name), agent, lambda _: None)


def looked(
    *looks: HostLook, instances: Sequence[Instance] | Unknown | None = None, **settings: Any
) -> dict[str, Finding]:
    there = [instance(SOURCE, "source"), instance(BASE)] if instances is None else instances
    return {one.check: one for one in look_at_hosts(orders(**settings), there, looks)}


def test_sound_hosts_pass_in_every_line() -> None:
    found = looked(look())
    assert {one.verdict.value for one in found.values()} == {"pass"}
    assert f"{BASE}: gtid" in found


def test_the_host_is_asked_to_make_nothing() -> None:
    commands = commands_that(prepare_base=ended(SOUND)).commands
    look(commands=commands)
    [(document, instance_id, _)], [parameters] = commands.sent, commands.parameters
    assert (document, instance_id, parameters["Mode"]) == ("prepare_base", BASE, "check")
    assert parameters["HealthAccount"] == "replicated"


class TestTheSource:
    def test_none_and_two_are_refused_with_the_tags_that_make_one(self) -> None:
        none = looked(instances=[instance(BASE)])["source"]
        assert (none.verdict.value, "peaker:role,Value=source" in none.remedy) == ("refuse", True)
        two = looked(instances=[instance(SOURCE, "source"), instance(OTHER, "source"), instance(BASE)])[
            "source"
        ]
        assert (two.verdict.value, OTHER in two.detail) == ("refuse", True)

    def test_one_that_is_stopped(self) -> None:
        stopped = [instance(SOURCE, "source", state="stopped"), instance(BASE)]
        assert looked(instances=stopped)["source"].verdict.value == "refuse"


class TestTheBaseReplicas:
    def test_a_peak_replica_is_none(self) -> None:
        peak = replica(OTHER, peak_of=RUN_ID).instance
        line = looked(instances=[instance(SOURCE, "source"), peak])["base replicas"]
        assert (line.verdict.value, "no donor" in line.detail) == ("refuse", True)

    def test_fewer_than_min_replicas_is_told_and_as_many_as_max_replicas_refused(self) -> None:
        assert looked(min_replicas=2)["base replicas"].verdict.value == "warn"
        assert looked(max_replicas=1)["base replicas"].verdict.value == "refuse"

    def test_instances_that_are_not_told_are_unknown(self) -> None:
        found = looked(instances=NotTold("denied", "ec2:DescribeInstances"))
        assert {one.verdict.value for one in found.values()} == {"unknown"}


class TestAHost:
    @pytest.mark.parametrize(
        ("state", "verdict"), [("warning", "warn"), ("refused", "refuse"), ("done", "pass")]
    )
    def test_its_steps_keep_their_words(self, state: str, verdict: str) -> None:
        result = {**SOUND, "ok": state != "refused", "steps": [{**GTID, "state": state, "remedy": "do it"}]}
        line = looked(look(ended(result)))[f"{BASE}: gtid"]
        assert (line.verdict.value, line.detail, line.remedy) == (verdict, "gtid_mode is ON", "do it")

    def test_what_prepare_base_makes_names_the_whole_command(self) -> None:
        step = {**GTID, "state": "refused", "remedy": "run peaker prepare-base for this instance"}
        line = looked(look(ended({**SOUND, "ok": False, "steps": [step]})))[f"{BASE}: gtid"]
        assert line.remedy == f"peaker prepare-base orders {BASE} --env local"

    @pytest.mark.parametrize(
        ("said", "detail"),
        [
            (
                "python3: can't open file '/opt/peaker/current/peaker_host.pyz': [Errno 2] No such file",
                "no package",
            ),
            ("peaker_host prepare_base: error: unrecognized arguments: --mode check", "another release"),
        ],
    )
    def test_one_without_the_package_of_this_release(self, said: str, detail: str) -> None:
        line = looked(look(CommandOutcome(CommandStatus.FAILED, "Failed", "", said)))[f"{BASE}: host package"]
        assert (line.verdict.value, detail in line.detail) == ("refuse", True)
        assert "peaker prepare-base" in line.remedy

    def test_one_that_does_not_answer_is_unknown(self) -> None:
        line = looked(look(CommandOutcome(CommandStatus.TIMED_OUT, "Delivery Timed Out", "", "")))[
            f"{BASE}: server"
        ]
        assert line.verdict.value == "unknown"

    def test_one_whose_agent_is_offline_is_not_asked(self) -> None:
        commands = commands_that().commands
        found = looked(look(agent=Agent(False, status="ConnectionLost"), commands=commands))
        assert found[f"{BASE}: agent"].verdict.value == "refuse"
        assert commands.sent == []

    def test_a_person_who_may_not_ask_hears_which_permission_it_takes(self) -> None:
        refusal = AwsCallRejected("ssm:SendCommand: AccessDeniedException: no")
        code = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
        refusal.__cause__ = ClientError(code, "SendCommand")  # type: ignore[arg-type]
        ports = commands_that()
        ports.refuses("commands.send", refusal)
        line = looked(look(commands=ports.commands))[f"{BASE}: server"]
        assert (line.verdict.value, "ssm:SendCommand" in line.remedy) == ("unknown", True)


class TestAllTogether:
    def test_two_servers_of_one_id(self) -> None:
        line = looked(look(), look(name=OTHER))["server_ids"]
        assert (line.verdict.value, line.detail) == ("refuse", f"7 is that of {BASE} and {OTHER}")

    def test_each_with_its_own(self) -> None:
        other = look(ended({**SOUND, "server_id": 8}), name=OTHER)
        assert looked(look(), other)["server_ids"].verdict.value == "pass"

    def test_replicas_of_two_sources_and_of_another_than_the_tagged_one(self) -> None:
        other = look(ended({**SOUND, "server_id": 8, "source_host": "10.0.0.9"}), name=OTHER)
        assert looked(look(), other)["followed source"].verdict.value == "warn"
        assert looked(other)["followed source"].verdict.value == "warn"
        by_name = look(ended({**SOUND, "source_host": "db.example"}))
        assert looked(by_name)["followed source"].verdict.value == "pass"
