"""A command on which nobody works any more is sent again; nobody waits hours for its time-out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus
from peaker.domain.runs.run import StepInput
from peaker.usecases.run.lost_commands import INSTALLED_WITHIN
from peaker.usecases.run.run_host_command import LOST_AT_MOST, run_host_command

from peaker_contract.errors import HostCommandFailed, HostCommandRunning
from sim.calm import CalmPorts, calm_ports
from sim.workflows.interferences import Watches
from tests.support.builders import BASE, leased, orders, with_cluster
from tests.support.peak import AT_WORK, STILL_RUNNING

RUN = {"RunId": "scale-out-orders-1"}
DOCUMENT = "load_buffer_pool"


@pytest.fixture
def ports() -> CalmPorts:
    """A host that works on whatever it is told."""
    ports = with_cluster(calm_ports(orders()))
    ports.commands.said |= {"*": STILL_RUNNING, "report_work": AT_WORK}
    return ports


@pytest.fixture
def step(ports: CalmPorts) -> StepInput:
    return leased(ports, "LoadBufferPool")


def ended(**result: object) -> CommandOutcome:
    return CommandOutcome(CommandStatus.SUCCESS, stdout=json.dumps({"version": 1, "ok": True, **result}))


def nobody_is_at_work(ports: CalmPorts) -> None:
    ports.commands.said["report_work"] = ended(at_work=False)


def asked(ports: CalmPorts, step: StepInput) -> Any:
    """The state's function is called once more: what it says."""
    with pytest.raises((HostCommandRunning, HostCommandFailed)) as said:
        run_host_command(ports, step, DOCUMENT, BASE, RUN)
    return said


def sent(ports: CalmPorts, document: str = DOCUMENT) -> int:
    return sum(one[0] == document for one in ports.commands.sent)


def waits(ports: CalmPorts, step: StepInput, minutes: float) -> None:
    """Called every half a minute, as the state's Retry does."""
    for _ in range(int(minutes * 2)):
        ports.clock.advance(seconds=30)
        asked(ports, step)


def test_a_command_on_which_nobody_works_is_sent_again_within_three_minutes(
    ports: CalmPorts, step: StepInput
) -> None:
    asked(ports, step)
    nobody_is_at_work(ports)
    waits(ports, step, minutes=3)
    assert (sent(ports), ports.done("commands.cancel")) == (2, list(ports.world.account.commands)[:1])
    ports.commands.said[DOCUMENT] = ended(pages=7)
    assert run_host_command(ports, step, DOCUMENT, BASE, RUN) == {"pages": 7}


def test_of_two_calls_that_judge_a_command_lost_one_sends_it_again(ports: CalmPorts, step: StepInput) -> None:
    asked(ports, step)
    nobody_is_at_work(ports)
    waits(ports, step, minutes=2)
    # Right before the second answer, after which the command is lost, is settled.
    ports.meets(Watches(at="ledger.mark", hit=lambda: asked(ports, step)))
    waits(ports, step, minutes=1)
    assert sent(ports) == 2


def test_a_parked_replica_s_first_command_is_sent_again_where_the_agent_updated_itself_under_it(
    ports: CalmPorts, step: StepInput
) -> None:
    """After a long stop the agent updates itself, and the command that it had stays InProgress for good."""
    package = {"PackageUrl": "https://packages.test/peaker_host.pyz?signature=s"}

    def install() -> None:
        run_host_command(ports, step, "install_host_package", BASE, package)

    with pytest.raises(HostCommandRunning):
        install()
    ports.clock.advance(seconds=INSTALLED_WITHIN.total_seconds() - 1)
    with pytest.raises(HostCommandRunning, match="InProgress"):
        install()
    assert sent(ports, "install_host_package") == 1
    ports.clock.advance(seconds=1)
    with pytest.raises(HostCommandRunning, match="sent again"):
        install()
    assert ports.done("commands.cancel") == list(ports.world.account.commands)[:1]
    ports.commands.said["install_host_package"] = ended(installed=True)
    install()
    assert sent(ports, "install_host_package") == 2


def test_one_look_is_not_enough(ports: CalmPorts, step: StepInput) -> None:
    """It may have ended a moment ago: its result shows a little later."""
    asked(ports, step)
    nobody_is_at_work(ports)
    waits(ports, step, minutes=2)
    ports.commands.said[DOCUMENT] = ended(pages=7)
    assert run_host_command(ports, step, DOCUMENT, BASE, RUN) == {"pages": 7}
    assert sent(ports) == 1


def test_a_host_that_does_not_answer_is_waited_for(ports: CalmPorts, step: StepInput) -> None:
    """It may be booting; what is unknown is not lost (I4)."""
    asked(ports, step)
    ports.commands.silence(BASE)
    waits(ports, step, minutes=20)
    assert sent(ports) == 1
    ports.world.account.happened(BASE, ports.world.time.seconds, "up", True)
    nobody_is_at_work(ports)
    waits(ports, step, minutes=2.5)
    assert sent(ports) == 2


def test_an_answer_that_is_none_is_unknown(ports: CalmPorts, step: StepInput) -> None:
    asked(ports, step)
    ports.commands.said["report_work"] = ended(at_work="no")
    waits(ports, step, minutes=12)
    assert sent(ports) == 1


def test_a_host_that_loses_one_command_after_the_other_fails_the_step(
    ports: CalmPorts, step: StepInput
) -> None:
    asked(ports, step)
    nobody_is_at_work(ports)
    waits(ports, step, minutes=2.5 * LOST_AT_MOST)
    assert sent(ports) == LOST_AT_MOST + 1
    waits(ports, step, minutes=2)
    ports.clock.advance(seconds=30)
    said = asked(ports, step)
    assert said.type is HostCommandFailed
    assert said.match(f"was lost {LOST_AT_MOST + 1} times")


@pytest.mark.parametrize(
    "outcome",
    [
        CommandOutcome(CommandStatus.TIMED_OUT, "Delivery Timed Out"),
        CommandOutcome(CommandStatus.FAILED, "Undeliverable"),
        CommandOutcome(
            CommandStatus.FAILED, "Failed", "progress\n", "failed to run commands: exit status 143"
        ),
        CommandOutcome(CommandStatus.FAILED, "Failed"),
    ],
    ids=lambda outcome: f"{outcome.status_details} {outcome.stderr}".strip(),
)
def test_a_command_that_was_not_delivered_or_was_killed_is_sent_again(
    ports: CalmPorts, step: StepInput, outcome: CommandOutcome
) -> None:
    ports.commands.said[DOCUMENT] = outcome
    assert asked(ports, step).type is HostCommandRunning
    assert sent(ports) == 2
    ports.commands.said[DOCUMENT] = ended(pages=7)
    assert run_host_command(ports, step, DOCUMENT, BASE, RUN) == {"pages": 7}


@pytest.mark.parametrize(
    "outcome",
    [
        CommandOutcome(CommandStatus.TIMED_OUT, "ExecutionTimedOut"),
        CommandOutcome(CommandStatus.CANCELLED, "Cancelled"),
        CommandOutcome(
            CommandStatus.FAILED, "Failed", "", "No such file\nfailed to run commands: exit status 2"
        ),
        CommandOutcome(CommandStatus.FAILED, "Failed", '{"version": 1, "ok": false, "error": "DiskFull"}'),
    ],
    ids=lambda outcome: f"{outcome.status_details} {outcome.stdout}".strip(),
)
def test_a_command_that_ran_to_an_end_of_its_own_is_not(
    ports: CalmPorts, step: StepInput, outcome: CommandOutcome
) -> None:
    ports.commands.said[DOCUMENT] = outcome
    assert asked(ports, step).type is HostCommandFailed
    assert sent(ports) == 1
