"""A service of AWS goes away as a run enters a state, and the run goes on; `make faults` has each state."""

from __future__ import annotations

import pytest

from bench.faults.outages import BUILDS, HOWS, SERVICES, Outage, run, states_of, undisturbed

ADD, PREWARM = "add_replica", "prewarm"


@pytest.mark.parametrize(
    "outage",
    [
        Outage("build", (ADD, "StartDatabase"), "Lambda", minutes=10),
        Outage("build", (ADD, "RecordMember"), "Lambda", minutes=60),
        Outage("build", (PREWARM, "ReportPrewarm"), "DynamoDB"),
        Outage("build", (ADD, "RegisterReplica"), "DynamoDB", "silent"),
        Outage("build", (ADD, "LaunchReplica"), "DynamoDB", "slow"),
        Outage("build", (ADD, "CreateVolumes"), "EC2", "slow"),
        Outage("build", (ADD, "VerifyStorage"), "SSM commands", "silent"),
        Outage("build", (ADD, "RampTraffic"), "read endpoint", "slow"),
        Outage("build", (ADD, "FinishPrewarm"), "Step Functions", minutes=60),
        Outage("return", (ADD, "AwaitParkedReplica"), "DynamoDB", minutes=60),
    ],
    ids=lambda one: f"{one.service}-{one.how}-{one.state[1]}",
)
def test_a_build_goes_on_once_the_service_is_back(outage: Outage) -> None:
    ended, without = run(outage), undisturbed(outage.situation)
    assert (ended.end, ended.warm) == (without.end, without.warm)
    assert not ended.findings


def test_an_outage_of_an_hour_may_end_an_undo_and_leaves_nothing() -> None:
    ended = run(Outage("build stopped", ("roll_back", "UndoStoppedRun"), "EC2", minutes=120))
    assert not ended.findings


def test_every_state_of_a_build_and_every_port_to_aws_is_met() -> None:
    states = {state for _, state in states_of(BUILDS, (ADD, PREWARM))}
    assert {(ADD, "StartParkedReplica"), (ADD, "MemberInService"), (PREWARM, "WaitForWarmth")} <= states
    assert len(states) >= 29
    assert len(SERVICES) * len(HOWS) >= 28
