"""Run ids, tokens, the execution input, and failures as a person reads them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker.domain.errors import InvalidRequest
from peaker.domain.host_results import parse_success
from peaker.domain.run import RUN_ID_LIMIT, Failure, client_token, parse_execution_input, run_id

from tests.support.fakes import NOON


def test_a_run_id_says_what_where_and_when_and_is_the_same_for_a_retry() -> None:
    found = run_id("scale_out", "orders", NOON, "execution-1")
    assert found.startswith("scale-out-orders-20261121T120000-")
    assert found == run_id("scale_out", "orders", NOON, "execution-1")
    assert found != run_id("scale_out", "orders", NOON, "execution-2")


@given(st.from_regex(r"[a-z][a-z0-9-]{0,60}", fullmatch=True), st.text())
def test_run_ids_and_tokens_fit_their_limits(cluster: str, execution: str) -> None:
    identity = run_id("scale_out", cluster, NOON, execution)
    assert len(f"{identity}-2") <= RUN_ID_LIMIT
    assert len(client_token(identity, "LaunchReplica", "us-east-1a")) == 64


def test_the_input_gets_its_defaults() -> None:
    found = parse_execution_input({"cluster": "orders"})
    assert (found.mode, found.count, found.trigger.kind) == ("act", 1, "manual")


@pytest.mark.parametrize(
    ("given_input", "text"),
    [
        (None, "input: "),
        ({}, "cluster: field required"),
        ({"cluster": ""}, "cluster: "),
        ({"cluster": "orders", "count": 0}, "count: "),
        ({"cluster": "orders", "count": True}, "count: "),
        ({"cluster": "orders", "count": 1.5}, "count: "),
        ({"cluster": "orders", "kount": 1}, "kount: no such field"),
        ({"cluster": "orders", "trigger": {"kind": "whim"}}, "trigger.kind: "),
        ({"cluster": "orders", "replica": "i-xyz"}, "replica: "),
    ],
)
def test_a_wrong_input_names_the_field_and_what_is_allowed(given_input: object, text: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        parse_execution_input(given_input)
    assert text in str(error.value)
    assert "Allowed fields: cluster, mode, count" in str(error.value)


LAMBDA_CAUSE = json.dumps(
    {"errorType": "StorageNotWarm", "errorMessage": "verdict not_warm", "stackTrace": []}
)


def test_a_failure_is_read_out_of_the_wrappings_of_the_workflow() -> None:
    plain = Failure(failed_step="VerifyStorage", error="StorageNotWarm", cause=LAMBDA_CAUSE)
    assert plain.innermost().sentence == "VerifyStorage: StorageNotWarm: verdict not_warm"
    branch = Failure(failed_step="SnapshotAndLaunch", error="X", cause=plain.model_dump_json())
    assert branch.innermost() == plain.innermost()
    child = {"Error": "PrewarmFailed", "Cause": f"ReportPrewarm: {LAMBDA_CAUSE}", "Status": "FAILED"}
    found = Failure(failed_step="Prewarm", error="States.TaskFailed", cause=json.dumps(child)).innermost()
    assert (found.failed_step, found.error, found.cause) == (
        "Prewarm/ReportPrewarm",
        "PrewarmFailed",
        "verdict not_warm",
    )
    text = Failure(failed_step="Prewarm", error="States.Timeout", cause="")
    assert text.innermost() == text


@pytest.mark.parametrize(
    ("stdout", "reason"),
    [
        ("", "not JSON"),
        ("no json\n", "not JSON"),
        ('{"version": 1, "ok": true}\ntrailing', "not JSON"),
        ('{"version": 2, "ok": true}', "result version 2"),
        (
            '{"version": 1, "ok": false, "error": "DiskFull", "message": "no space"}',
            "drain: DiskFull: no space",
        ),
        ('{"version": 1}', "failed without a result"),
    ],
)
def test_a_host_result_that_is_no_success_is_a_failure_with_the_hosts_words(stdout: str, reason: str) -> None:
    from peaker.domain.errors import HostCommandFailed

    with pytest.raises(HostCommandFailed, match=r".") as error:
        parse_success("drain", stdout)
    assert reason in str(error.value)
