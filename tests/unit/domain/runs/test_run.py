"""Run ids, tokens, and failures as a person reads them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker.domain.host_results import parse_success
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import RUN_ID_LIMIT, client_token, run_id

from sim.workflows.virtual_time import START as NOON


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


LAMBDA_CAUSE = json.dumps(
    {"errorType": "StorageNotWarm", "errorMessage": "verdict not_warm", "stackTrace": []}
)


def test_a_failure_is_read_out_of_the_wrappings_of_the_workflow() -> None:
    plain = Failure(failed_step="VerifyStorage", error="StorageNotWarm", cause=LAMBDA_CAUSE)
    assert plain.innermost().sentence == "VerifyStorage failed (StorageNotWarm): verdict not_warm"
    branch = Failure(failed_step="LaunchBesideSnapshots", error="X", cause=plain.model_dump_json())
    assert branch.innermost() == plain.innermost()
    child = {"Error": "PrewarmFailed", "Cause": f"ReportPrewarm: {LAMBDA_CAUSE}", "Status": "FAILED"}
    found = Failure(failed_step="Prewarm", error="States.TaskFailed", cause=json.dumps(child)).innermost()
    assert (found.failed_step, found.error, found.cause) == (
        "Prewarm/ReportPrewarm",
        "PrewarmFailed",
        "verdict not_warm",
    )
    text = Failure(failed_step="Prewarm", error="PrewarmFailed", cause="plain already")
    assert text.innermost() == text


# As AWS gives them: documents of the runtime, text, nothing, and a document cut behind its message.
CAUSES_OF_SERVICES = {
    "timeout-without-cause": ("States.Timeout", "", "no cause was given. The step took longer"),
    "killed-function": (
        "Sandbox.Timedout",
        '{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: 1 Error: Task timed out after 60.00 seconds"}',
        "Task timed out after 60.00 seconds. The function took longer",
    ),
    "half-deployed-function": (
        "Runtime.ImportModuleError",
        '{"errorType":"Runtime.ImportModuleError","errorMessage":"No module named \'peaker.handlers.steps\'"}',
        "No module named 'peaker.handlers.steps'. The function's code and configuration do not fit",
    ),
    "no-answer": (
        "Lambda.Unknown",
        "The cause could not be determined because Lambda did not return an error type.",
        "did not return an error type. The function ended",
    ),
    "cut-document": (
        "StorageNotWarm",
        LAMBDA_CAUSE.replace("not_warm", 'not \\"warm\\"').replace("[]}", '["File a.py'),
        'verdict not "warm"',
    ),
    "not-json-at-all": ("States.Runtime", "{% broken", "{% broken. Read the log"),
    "service-exception": ("Lambda.ServiceException", "{}", "{}. Read the log"),
}


@pytest.mark.parametrize(
    ("error", "cause", "read"), CAUSES_OF_SERVICES.values(), ids=CAUSES_OF_SERVICES.keys()
)
def test_a_cause_of_a_service_has_words_and_a_remedy(error: str, cause: str, read: str) -> None:
    found = Failure(failed_step="VerifyStorage", error=error, cause=cause).innermost()
    assert read in found.cause
    assert "stackTrace" not in found.cause
    assert found.innermost() == found, "read twice, it is said once"


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
    from peaker_contract.errors import HostCommandFailed

    with pytest.raises(HostCommandFailed, match=r".") as error:
        parse_success("drain", stdout)
    assert reason in str(error.value)
