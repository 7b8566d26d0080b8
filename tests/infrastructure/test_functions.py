"""Every function is made the same way, and the catalogue is the code's."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

from peaker.handlers import scheduled
from peaker.runtime import wiring

from peaker_contract.catalogue import FUNCTIONS
from tests.infrastructure.conftest import Assembly

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = REPOSITORY / "ssm_documents"
# An operator takes a host out of the read endpoint with it, from the Systems Manager console.
DOCUMENTS_FOR_PEOPLE = {"set_maintenance", "prepare_base"}
ENVIRONMENT_VARIABLES = {
    *wiring.VARIABLES,
    "POWERTOOLS_SERVICE_NAME",
    "POWERTOOLS_METRICS_NAMESPACE",
    "OPENBLAS_NUM_THREADS",
    "LOG_LEVEL",
}


def test_what_no_workflow_calls_has_a_handler_of_its_own() -> None:
    functions = inspect.getmembers(scheduled, inspect.isfunction)
    handlers = {name for name, one in functions if "context" in inspect.signature(one).parameters}
    assert {definition.name for definition in FUNCTIONS if not definition.steps} == handlers


def test_every_document_is_sent_by_a_function_or_meant_for_people() -> None:
    sent = {document for definition in FUNCTIONS for document in definition.sent_documents}
    assert sent | DOCUMENTS_FOR_PEOPLE == {path.stem for path in DOCUMENTS.glob("*.yaml")}


def test_every_catalogue_row_is_a_function(assembly: Assembly) -> None:
    names = {function["FunctionName"] for function in assembly.properties("AWS::Lambda::Function")}
    assert names == {f"peaker-{assembly.environment}-{definition.name}" for definition in FUNCTIONS}


def test_every_function_traces_logs_json_and_ends_in_time(assembly: Assembly) -> None:
    for function in assembly.properties("AWS::Lambda::Function"):
        assert function["TracingConfig"] == {"Mode": "Active"}
        assert function["LoggingConfig"]["LogFormat"] == "JSON"
        assert 10 <= function["Timeout"] <= 300
        assert 128 <= function["MemorySize"] <= 1024
        told = {"OPERATOR_TOPIC_ARN"} if assembly.properties("AWS::SNS::Subscription") else set()
        assert set(function["Environment"]["Variables"]) == ENVIRONMENT_VARIABLES | told


def test_every_function_has_a_role_of_its_own(assembly: Assembly) -> None:
    functions = assembly.properties("AWS::Lambda::Function")
    assert len({json.dumps(function["Role"]) for function in functions}) == len(functions)


def test_every_log_group_ends_its_logs(assembly: Assembly) -> None:
    groups = assembly.properties("AWS::Logs::LogGroup")
    assert groups
    assert all(group["RetentionInDays"] == 90 for group in groups)


def test_a_function_s_handler_is_its_row_s(assembly: Assembly) -> None:
    handlers = {definition.name: definition.handler for definition in FUNCTIONS}
    for function in assembly.properties("AWS::Lambda::Function"):
        name = re.sub(rf"^peaker-{assembly.environment}-", "", function["FunctionName"])
        assert function["Handler"] == handlers[name]
