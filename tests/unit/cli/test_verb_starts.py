"""A verb starts its workflow once, asks before it acts, and takes a run by the end of its name."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer
from botocore.exceptions import ClientError
from peaker_cli.asking import agree
from peaker_cli.control_plane import ControlPlane, Execution
from peaker_cli.failures import ControlPlaneError
from peaker_cli.runs.command import named_run
from peaker_cli.runs.plan import planned, refused_text
from peaker_cli.verbs.following import end_of_run
from peaker_cli.verbs.start import checked, start_once

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:peaker-prod-scale_out"
PROD = ControlPlane("prod", "us-east-1")
ORDER = {"cluster": "orders"}
REFUSED = {"outcome": "refused", "error": "LeaseHeld", "reason": "another run is at work"}

# Of functions that still know the cluster in mode observe.
PLANNED = {"cluster": "orders", "planned_at": "2026-11-29T21:15:19Z"}


class Workflows:
    """Step Functions as it takes names: the same name again is the same execution while it runs, else refused."""

    def __init__(self) -> None:
        self.executions: dict[str, Execution] = {}

    def start(self, workflow: str, request: Any, name: str) -> str:
        arn = f"{MACHINE.replace(':stateMachine:', ':execution:')}:{name}"
        if arn in self.executions and self.executions[arn].ended:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists"}}, "StartExecution")
        self.executions[arn] = Execution(arn, "RUNNING", None, None)
        return arn

    def caller(self) -> str:
        return "arn:aws:iam::123456789012:user/alice"

    def state_machine_arn(self, workflow: str) -> str:
        return MACHINE

    def describe(self, arn: str) -> Execution:
        return self.executions[arn]

    def end(self, arn: str, status: str, output: Any = None) -> None:
        failure = ("ScaleOutRolledBack", "AttachVolumes: Throttled") if status == "FAILED" else None
        self.executions[arn] = Execution(arn, status, output, failure)


def begun(workflows: Workflows, *seen: str, **order: Any) -> str:
    return start_once(cast(ControlPlane, workflows), "scale_out", {**ORDER, **order}, list(seen))


def test_the_same_order_twice_is_one_execution_also_when_it_has_ended_meanwhile() -> None:
    workflows = Workflows()
    first = begun(workflows, "scale-out-orders-1")
    assert begun(workflows, "scale-out-orders-1") == first
    workflows.end(first, "SUCCEEDED", {"outcome": "succeeded"})
    assert begun(workflows, "scale-out-orders-1") == first


def test_another_order_and_the_same_one_after_another_run_are_executions_of_their_own() -> None:
    workflows = Workflows()
    made = {
        begun(workflows, "scale-out-orders-1"),
        begun(workflows, "scale-out-orders-2"),
        begun(workflows, "scale-out-orders-1", count=2),
    }
    assert len(made) == 3


@pytest.mark.parametrize(
    ("status", "output"), [("SUCCEEDED", REFUSED), ("SUCCEEDED", PLANNED), ("FAILED", None)]
)
def test_an_order_that_left_no_run_may_be_given_again(status: str, output: Any) -> None:
    workflows = Workflows()
    first = begun(workflows)
    workflows.end(first, status, output)
    assert begun(workflows) == f"{first.removesuffix('-1')}-2"


def test_an_order_that_was_only_planned_has_not_ended_well() -> None:
    only_planned = Execution(MACHINE, "SUCCEEDED", PLANNED, None)
    with pytest.raises(ControlPlaneError, match="only planned, and did nothing: functions know"):
        end_of_run(PROD, "scale_out", "orders", only_planned, None, quiet=False)


def test_the_line_to_type_next_names_the_environment() -> None:
    failed = Execution(MACHINE, "FAILED", None, ("ScaleOutRolledBack", "AttachVolumes: Throttled"))
    with pytest.raises(ControlPlaneError, match=r"\npeaker receipt scale-out-orders-1 --env prod$"):
        end_of_run(PROD, "scale_out", "orders", failed, "scale-out-orders-1", quiet=False)


def test_where_nobody_can_be_asked_the_line_to_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys, "argv", ["/usr/bin/peaker", "scale-out", "orders", "--reason", "the sale"])
    with pytest.raises(
        ControlPlaneError, match=r"nothing was done.*peaker scale-out orders --reason 'the sale' --yes"
    ):
        agree("Start?", yes=False)
    agree("Start?", yes=True)


@pytest.mark.parametrize(
    ("operation", "given", "typed"),
    [
        ("scale_out", {"cluster": "Orders!"}, "CLUSTER"),
        ("scale_out", {"cluster": "orders", "count": 0}, "--count"),
        ("scale_out", {"cluster": "orders", "above_limits": True}, "--reason"),
        ("scale_out", {"cluster": "orders", "reason": "a\x1bb"}, "--reason"),
        ("scale_in", {"cluster": "orders", "replica": "i-12"}, "INSTANCE"),
    ],
)
def test_a_wrong_input_names_what_was_typed_wrongly(
    operation: Any, given: dict[str, Any], typed: str
) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        checked(operation, **given)
    assert refused.value.param_hint == typed


def test_the_input_has_what_was_given_and_nothing_else() -> None:
    assert checked("scale_out", cluster="orders", count=None, above_limits=False, reason=None) == ORDER
    named = {"cluster": "orders", "replica": "i-0123456789abcdef0"}
    assert checked("scale_in", **named) == named


def test_a_plan_that_would_change_nothing_says_why() -> None:
    refusals = [
        {"code": "budget", "reason": "12.10 of 10.00 USD an hour"},
        {"code": "donor", "reason": "none"},
    ]
    assert refused_text({"refusals": refusals}, "prod") == "budget: 12.10 of 10.00 USD an hour; donor: none"
    limits_alone = refused_text({"cluster": "orders", "refusals": refusals[:1]}, "prod")
    assert limits_alone.endswith(
        "pass it once: peaker scale-out orders --above-limits --reason TEXT --env prod."
    )
    assert refused_text({"refusals": []}, "prod") == ""
    assert refused_text({"replicas": [], "text": "would take none away: no peak replica"}, "prod") == (
        "would take none away: no peak replica"
    )
    assert refused_text({"replicas": ["i-1"], "text": "would park i-1"}, "prod") == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("output", "told"), [(Terminal(), True), (io.StringIO(), False)])
def test_what_is_waited_for_is_told_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, output: io.StringIO, told: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", output)
    plan = Execution(MACHINE, "SUCCEEDED", PLANNED, None)
    control: Any = SimpleNamespace(start=lambda *_: MACHINE, wait=lambda *_: plan)
    assert planned(control, "scale_out", ORDER) == PLANNED
    named_run(cast(ControlPlane, Runs()), ["carts", "orders"], "last")
    for words in ("planning scale_out of orders ...", "reading the runs of orders ..."):
        assert (words in output.getvalue()) is told


class Runs:
    """The ledger's index of two clusters."""

    IDS = ("scale-out-orders-20261121T014000-aaaaaaaaaa", "scale-in-orders-20261121T054000-bbbbbbbbba")

    def runs(self, cluster: str, limit: int) -> list[dict[str, Any]]:
        ids = [*self.IDS, f"{self.IDS[1]}-2"] if cluster == "orders" else []
        return [{"run_id": one, "sk": f"run#{one.split('-')[3]}#{one}"} for one in ids][::-1][:limit]


@pytest.mark.parametrize(("text", "meant"), [("last", 1), ("aaa", 0), ("bbbba", 1), (Runs.IDS[0], 0)])
def test_a_run_is_named_by_its_end_or_as_the_last_one(text: str, meant: int) -> None:
    assert named_run(cast(ControlPlane, Runs()), ["carts", "orders"], text) == Runs.IDS[meant]


@pytest.mark.parametrize(
    ("text", "said"),
    [("zzz", "no run of orders ends in 'zzz'"), ("", "no run of orders"), ("a", "is the end of")],
)
def test_a_name_that_no_run_or_more_than_one_has_is_refused(text: str, said: str) -> None:
    with pytest.raises(ControlPlaneError, match=said):
        named_run(cast(ControlPlane, Runs()), ["orders"], text)


def test_a_run_at_work_that_has_no_row_yet_is_the_last_one() -> None:
    assert (
        named_run(cast(ControlPlane, Runs()), ["orders"], "last", ["scale-out-orders-x"])
        == "scale-out-orders-x"
    )
