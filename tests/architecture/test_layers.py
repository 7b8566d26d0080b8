"""The rules of the layout, as failing tests."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from peaker.domain.runs.execution_input import Operation

from peaker_contract import errors
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.steps import FunctionDefinition
from statemachines import structure
from tests.support.workflows import MACHINES

ROOT = Path(__file__).resolve().parents[2]
PEAKER = ROOT / "functions" / "peaker"
HANDLERS = sorted((PEAKER / "handlers").glob("[a-z]*.py"))
OURS = (
    *(
        "functions",
        "host",
        "stacks",
        "environments",
        "packages",
        "cli",
        "peaker_contract",
        "lab",
    ),
    *("demo", "sim", "bench", "statemachines", "tests"),
)


def modules() -> Iterator[Path]:
    for folder in OURS:
        yield from (path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def test_use_cases_read_no_clock() -> None:
    found = [
        path.name
        for path in (*(PEAKER / "domain").rglob("*.py"), *(PEAKER / "usecases").rglob("*.py"))
        if re.search(r"datetime\.(now|utcnow)\(|time\.time\(|date\.today\(", path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("path", HANDLERS, ids=lambda path: path.stem)
def test_a_handler_is_short_and_decides_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    handlers = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert all((one.end_lineno or 0) - one.lineno < 10 for one in handlers)
    branching = ast.If | ast.IfExp | ast.Match | ast.Try
    assert not [node for node in ast.walk(ast.parse(text)) if isinstance(node, branching)]


@pytest.mark.parametrize("definition", FUNCTIONS, ids=lambda definition: definition.name)
def test_a_function_is_named_after_its_use_case(definition: FunctionDefinition) -> None:
    """Lambda finds its handler by the name that the template has."""
    use_case = importlib.import_module(f"peaker.usecases.{definition.phase}.{definition.name}")
    assert callable(getattr(use_case, definition.name))
    module, attribute = definition.handler.rsplit(".", 1)
    handler = getattr(importlib.import_module(module), attribute)
    assert len(inspect.signature(handler).parameters) == 2


def test_every_error_is_raised_somewhere() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in PEAKER.rglob("*.py"))
    families = {"PeakerError", "NotYet", "Retryable", "Refused", "Failed"}
    names = {name for name, kind in vars(errors).items() if inspect.isclass(kind)} - families
    assert {name for name in names if not re.search(rf"(?<!class ){name}\(", source)} == set()


def test_a_refusal_is_never_retried() -> None:
    refused = {
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.Refused | errors.Failed)  # type: ignore[arg-type]
    }
    for machine in MACHINES.values():
        for state in structure.states(machine):
            retried = {name for rule in state.body.get("Retry", []) for name in rule["ErrorEquals"]}
            assert retried & refused == set(), state.place


def test_every_document_that_code_names_exists() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules()
        if "tests" not in path.parts
        for name in re.findall(r"\bdocs/[A-Za-z0-9_./-]+\.md", path.read_text(encoding="utf-8"))
        if not (ROOT / name).is_file()
    ]
    assert missing == []


def test_operations_have_a_workflow_of_their_name() -> None:
    assert set(get_args(Operation)) <= set(MACHINES)


# Ports whose only stand-in is the script of one test file; their adapters are tried in tests/unit/adapters.
SCRIPTED_IN_ONE_TEST = {"LoadHistory", "MetricPublisher"}


def test_every_port_has_a_contract_suite() -> None:
    """A fake that nothing holds against its adapter may promise what AWS does not."""
    ports = {
        one.name
        for path in (PEAKER / "ports").glob("*.py")
        for one in ast.parse(path.read_text()).body
        if isinstance(one, ast.ClassDef) and any(getattr(base, "id", "") == "Protocol" for base in one.bases)
    }
    suites = "".join(path.read_text() for path in (ROOT / "tests" / "contract").glob("*.py"))
    assert {one for one in ports if not re.search(rf"\b(Fake)?{one}\b", suites)} == SCRIPTED_IN_ONE_TEST
