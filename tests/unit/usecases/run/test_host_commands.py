"""A host command runs once per step, whatever is asked again and whichever answer is lost (I10)."""

from __future__ import annotations

import json

import pytest
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus
from peaker.domain.runs.ledger import ResourceKind
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import intend
from peaker.usecases.run.sent_commands import BEGINS_WITHIN, command_comment, fence_parameters

from peaker_contract.errors import AgentTooOld, BinlogsGone, HostCommandFailed, HostCommandRunning, LeaseLost
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import BASE, instance, leased, orders, with_cluster
from tests.support.peak import AT_WORK, STILL_RUNNING

OTHER = "i-0000000000000000b"
RUN = {"RunId": "scale-out-orders-1"}


@pytest.fixture
def ports() -> CalmPorts:
    ports = with_cluster(calm_ports(orders()))
    ports.compute.add(instance(OTHER))
    ports.commands.said |= {"*": STILL_RUNNING, "report_work": AT_WORK}
    return ports


def ended(**result: object) -> CommandOutcome:
    return CommandOutcome(CommandStatus.SUCCESS, stdout=json.dumps({"version": 1, "ok": True, **result}))


def test_it_is_sent_once_and_polled(ports: CalmPorts) -> None:
    step = leased(ports, "LoadBufferPool")
    for _ in range(3):
        with pytest.raises(HostCommandRunning):
            run_host_command(ports, step, "load_buffer_pool", BASE, RUN)
    ports.commands.said["load_buffer_pool"] = ended(pages=7)
    assert run_host_command(ports, step, "load_buffer_pool", BASE, RUN) == {"pages": 7}
    assert run_host_command(ports, step, "load_buffer_pool", BASE, RUN) == {"pages": 7}
    assert len(ports.commands.sent) == 1
    assert ports.commands.sent[0][2] == command_comment(step.run_id, "LoadBufferPool#1")


def test_a_lost_answer_is_looked_for_before_it_is_sent_again(ports: CalmPorts) -> None:
    step = leased(ports, "LoadBufferPool")
    details = {"document": "load_buffer_pool", "instance_id": BASE}
    intend(ports, step, ResourceKind.COMMAND, "LoadBufferPool#1", details)
    parameters = {**RUN, **fence_parameters(ports, step.holder)}
    ports.commands.send(
        "load_buffer_pool", BASE, parameters, command_comment(step.run_id, "LoadBufferPool#1")
    )
    ports.commands.said["load_buffer_pool"] = ended(pages=7)
    assert run_host_command(ports, step, "load_buffer_pool", BASE, RUN) == {"pages": 7}
    assert len(ports.commands.sent) == 1


def test_an_intent_without_a_command_is_sent_only_after_a_while(ports: CalmPorts) -> None:
    step = leased(ports, "LoadBufferPool")
    details = {"document": "load_buffer_pool", "instance_id": BASE}
    intend(ports, step, ResourceKind.COMMAND, "LoadBufferPool#1", details)
    with pytest.raises(HostCommandRunning, match="may still show"):
        run_host_command(ports, step, "load_buffer_pool", BASE, RUN)
    assert ports.commands.sent == []
    ports.clock.advance(minutes=2)
    ports.commands.said["load_buffer_pool"] = ended(pages=7)
    assert run_host_command(ports, step, "load_buffer_pool", BASE, RUN) == {"pages": 7}
    assert len(ports.commands.sent) == 1


def test_a_command_that_did_not_succeed_fails_with_what_is_known(ports: CalmPorts) -> None:
    ended_late = CommandOutcome(CommandStatus.TIMED_OUT, "Execution Timed Out", "", "killed")
    ports.commands.said["load_buffer_pool"] = ended_late
    with pytest.raises(HostCommandFailed, match="load_buffer_pool: Execution Timed Out on"):
        run_host_command(ports, leased(ports, "LoadBufferPool"), "load_buffer_pool", BASE, RUN)


def test_one_step_has_a_command_of_its_own_on_each_host(ports: CalmPorts) -> None:
    """The peers of a ramp may change while its window runs: the other replica of its batch comes into service. Systems
    Manager knows nothing of one host's command on another, so that its answer would be awaited for good."""
    step = leased(ports, "RampTraffic/1/2")
    for host in (BASE, OTHER):
        with pytest.raises(HostCommandRunning):
            run_host_command(ports, step, "load_buffer_pool", host, RUN)
    ports.commands.said["load_buffer_pool"] = ended(pages=7)
    for host in (BASE, OTHER):
        assert run_host_command(ports, step, "load_buffer_pool", host, RUN) == {"pages": 7}
    assert [host for _, host, _ in ports.commands.sent] == [BASE, OTHER]


SHELLS = {
    "dash": "_script.sh: 3: SSM_RunId: parameter not set",
    "bash": "/var/lib/amazon/ssm/i-1/document/orchestration/1/_script.sh: line 3: SSM_RunId: unbound variable",
    "bash in German": "_script.sh: Zeile 3: SSM_RunId: Variable ist nicht gesetzt.",
}


@pytest.mark.parametrize("said", SHELLS.values(), ids=SHELLS.keys())
def test_an_agent_that_went_back_to_an_older_version_is_named(ports: CalmPorts, said: str) -> None:
    """It gives the shell no parameters, and every document ends at the first that it uses."""
    step = leased(ports, "LoadBufferPool")
    stderr = f"{said}\nfailed to run commands: exit status 2"
    ports.commands.said["load_buffer_pool"] = CommandOutcome(CommandStatus.FAILED, "Failed", "", stderr)
    told = rf"load_buffer_pool: the SSM agent of {BASE} gives .*{said.split(': ', 2)[-1]}.* 3\.3\.2746\.0 or newer"
    with pytest.raises(AgentTooOld, match=told):
        run_host_command(ports, step, "load_buffer_pool", BASE, RUN)


def test_comments_of_long_names_fit_and_differ() -> None:
    """ssm:SendCommand takes 100 characters; two tries of a step differ in their last one."""
    names = [f"RestoreStoppedRun#2.wait_for_catch_up.10.77.100.100#{number}" for number in (1, 2)]
    run_id = f"scale-in-{'o' * 32}-20261122T120000-8cf1"
    first, second = (command_comment(run_id, name) for name in names)
    assert first != second
    assert max(len(first), len(second)) <= 100


class TestFence:
    """The host refuses a command of an older lease, and one that comes late."""

    def test_a_command_that_changes_the_host_carries_its_lease_and_a_latest_time(
        self, ports: CalmPorts
    ) -> None:
        step = leased(ports, "StopDatabase")
        with pytest.raises(HostCommandRunning):
            run_host_command(ports, step, "stop_database", BASE, RUN)
        assert ports.commands.parameters == [
            {
                **RUN,
                "FencingToken": f"{ports.environment}/{step.cluster}:{step.fencing_token}.0",
                "NotAfter": str(int((ports.clock.now() + BEGINS_WITHIN).timestamp())),
            }
        ]

    def test_one_that_only_looks_carries_neither(self, ports: CalmPorts) -> None:
        with pytest.raises(HostCommandRunning):
            run_host_command(ports, leased(ports, "CheckMounts"), "check_mounts", BASE, RUN)
        assert ports.commands.parameters == [RUN]

    @pytest.mark.parametrize("error", ["CommandTooLate", "HostBusy"])
    def test_one_that_was_not_begun_is_sent_again_with_a_new_latest_time(
        self, ports: CalmPorts, error: str
    ) -> None:
        step = leased(ports, "StopDatabase")
        with pytest.raises(HostCommandRunning):
            run_host_command(ports, step, "stop_database", BASE, RUN)
        ports.commands.said["stop_database"] = refused_by_the_host(error)
        ports.clock.advance(minutes=20)
        with pytest.raises(HostCommandRunning, match=f"{error}.*sent again"):
            run_host_command(ports, step, "stop_database", BASE, RUN)
        first, second = (int(one["NotAfter"]) for one in ports.commands.parameters)
        assert second - first == 20 * 60
        ports.commands.said["stop_database"] = ended(gtid_set="a:1")
        assert run_host_command(ports, step, "stop_database", BASE, RUN) == {"gtid_set": "a:1"}

    def test_a_host_whose_clock_is_wrong_fails_the_step_and_says_what_it_shows(
        self, ports: CalmPorts
    ) -> None:
        step = leased(ports, "StopDatabase")
        ports.commands.said["stop_database"] = refused_by_the_host("CommandTooLate")
        for _ in range(3):
            with pytest.raises(HostCommandRunning):
                run_host_command(ports, step, "stop_database", BASE, RUN)
        with pytest.raises(HostCommandFailed, match=r"4 times.*CommandTooLate: the host's clock says"):
            run_host_command(ports, step, "stop_database", BASE, RUN)

    def test_a_run_whose_host_was_taken_over_has_lost_its_lease(self, ports: CalmPorts) -> None:
        step = leased(ports, "StopDatabase")
        with pytest.raises(HostCommandRunning):
            run_host_command(ports, step, "stop_database", BASE, RUN)
        ports.commands.said["stop_database"] = refused_by_the_host("CommandFenced")
        ports.lease.acquire(
            step.cluster,
            step.run_id,
            "scale_out",
            ports.clock.now(),
            lease_end(ports.clock.now()),
            fence=True,
        )
        with pytest.raises(LeaseLost):
            run_host_command(ports, step, "stop_database", BASE, RUN)

    def test_a_host_of_an_older_ledger_is_told_to_be_prepared_anew(self, ports: CalmPorts) -> None:
        """The lease is the run's: it is the host that remembers another ledger's tokens."""
        ports.commands.said["stop_database"] = refused_by_the_host("CommandFenced")
        with pytest.raises(HostCommandFailed, match="CommandFenced"):
            run_host_command(ports, leased(ports, "StopDatabase"), "stop_database", BASE, RUN)


def refused_by_the_host(error: str) -> CommandOutcome:
    said = {"version": 1, "ok": False, "error": error, "message": "the host's clock says 12:20"}
    return CommandOutcome(CommandStatus.FAILED, "Failed", json.dumps(said))


def test_the_hosts_own_error_is_told(ports: CalmPorts) -> None:
    step = leased(ports, "StartReplication")
    said = json.dumps({"version": 1, "ok": False, "error": "BinlogsGone", "message": "1-7 purged"})
    ports.commands.said["start_replication"] = CommandOutcome(CommandStatus.FAILED, "Failed", said)
    with pytest.raises(BinlogsGone, match="start_replication: BinlogsGone: 1-7 purged"):
        run_host_command(ports, step, "start_replication", BASE, {**RUN, "SourceHost": "10.77.0.10"})
