"""Named situations in which a host boots anew while it works on a command: nobody waits for what nobody works on."""

from __future__ import annotations

import pytest

from sim import outside
from sim.ssm import AFTER_A_RESTART
from sim.world import World
from tests.faults.test_from_outside import audited, happens_at
from tests.faults.test_scenarios import HOUR, MINUTE, a_world, settled

# What a run may take longer because of a restart: silence, the questions, the work once more.
LONGER_SECONDS = 15 * MINUTE


def restarted_at(world: World, state: str) -> None:
    """The replica's host boots anew once it is at work on the command of this state."""
    happens_at(world, state, lambda: outside.restart_in_command(world, "orders"), after_seconds=0.0)


def sent(world: World, document: str) -> int:
    return sum(one["document"] == document for one in world.account.commands.values())


@pytest.mark.parametrize("end", AFTER_A_RESTART)
@pytest.mark.parametrize(
    ("state", "document"), [("VerifyStorage", "verify_storage"), ("StartDatabase", "start_database")]
)
def test_a_command_whose_host_booted_anew_is_sent_again(state: str, document: str, end: str) -> None:
    """AWS may call it InProgress until its time-out, fail it without a word, or begin it once more."""
    with a_world() as world:
        world.commands.after_a_restart = (end,)
        restarted_at(world, state)
        execution = world.run("scale_out")
        assert execution.status == "SUCCEEDED"
        assert sent(world, document) == (1 if end == "begun again" else 2)
        assert (execution.ended or 0) - execution.started < 25 * MINUTE + LONGER_SECONDS
        world.run_for(HOUR)
        settled(world, peaks=1)
        assert audited(world) == []


@pytest.mark.parametrize("state", ["WaitForCatchUp", "LoadBufferPool"])
def test_a_database_that_is_down_after_a_restart_fails_the_run_soon(state: str) -> None:
    with a_world() as world:
        world.commands.after_a_restart = ("silent",)
        restarted_at(world, state)
        execution = world.run("scale_out")
        assert (execution.status, execution.error) == ("FAILED", "HostCommandFailed")
        assert (execution.ended or 0) - execution.started < 25 * MINUTE + LONGER_SECONDS
        world.run_for(HOUR)
        settled(world)
        assert audited(world) == []
