"""Each way in which a document can be wrong, with a document that is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ssm_documents.schema import InvalidDocument, check_document, load_document

GOOD: dict[str, Any] = {
    "schemaVersion": "2.2",
    "description": "Does a thing.",
    "parameters": {
        "RunId": {
            "type": "String",
            "description": "The run.",
            "interpolationType": "ENV_VAR",
            "allowedPattern": "^[a-z-]{1,80}$",
        }
    },
    "mainSteps": [
        {
            "action": "aws:runShellScript",
            "name": "do_it",
            "precondition": {"StringEquals": ["platformType", "Linux"]},
            "inputs": {"timeoutSeconds": "60", "runCommand": ['echo "$SSM_RunId"']},
        }
    ],
}

Change = Callable[[dict[str, Any]], Any]


def parameter(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["parameters"]["RunId"]
    return found


def step(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["mainSteps"][0]
    return found


def optional(document: dict[str, Any], line: str) -> None:
    parameter(document).update(allowedPattern="^[a-z-]{0,80}$", default="")
    run(document, line)


def run(document: dict[str, Any], line: str) -> None:
    step(document)["inputs"]["runCommand"] = [line]


BAD: dict[str, tuple[Change, str]] = {
    "misspelled action": (lambda d: step(d).update(action="aws:runShelScript"), "mainSteps.0.action"),
    "two steps of one name": (lambda d: d["mainSteps"].append(step(d)), "same name"),
    "unknown key": (lambda d: d.update(runtimeConfig={}), "runtimeConfig"),
    "bad parameter type": (lambda d: parameter(d).update(type="Integer"), "parameters.RunId.type"),
    "missing ENV_VAR": (lambda d: parameter(d).pop("interpolationType"), "interpolationType"),
    "missing allowedPattern": (lambda d: parameter(d).pop("allowedPattern"), "allowedPattern"),
    "pattern without anchors": (lambda d: parameter(d).update(allowedPattern="[a-z]+"), "anchored"),
    "pattern with lookahead": (lambda d: parameter(d).update(allowedPattern="^(?!x)[a-z]+$"), "Java"),
    "pattern with possessive": (lambda d: parameter(d).update(allowedPattern="^[a-z]++$"), "allowedPattern"),
    "pattern that Go refuses": (lambda d: parameter(d).update(allowedPattern="^a{1,2000}$"), "Go refuses"),
    "default against the pattern": (lambda d: parameter(d).update(default="A B"), "default"),
    "lower-case parameter name": (
        lambda d: d["parameters"].update({"run_id": parameter(d)}),
        "parameters.run_id",
    ),
    "pasted parameter": (lambda d: run(d, 'echo "{{ RunId }}" "$SSM_RunId"'), "{{ }}"),
    "empty variable without a guard": (lambda d: optional(d, 'echo "$SSM_RunId"'), "${SSM_RunId-}"),
    "empty variable guarded once of twice": (
        lambda d: optional(d, 'echo "${SSM_RunId-}" "$SSM_RunId"'),
        "${SSM_RunId-}",
    ),
    "undeclared variable": (lambda d: run(d, 'echo "$SSM_RunId" "$SSM_Other"'), "no parameter Other"),
    "unused parameter": (lambda d: run(d, "echo"), "never used"),
    "timeout beyond 48 hours": (lambda d: step(d)["inputs"].update(timeoutSeconds="172801"), "172800"),
    "other platform": (
        lambda d: step(d)["precondition"].update(StringEquals=["platformType", "Windows"]),
        "precondition",
    ),
    "over 64 KB": (lambda d: run(d, 'echo "$SSM_RunId" #' + "x" * 65536), "65536"),
}


def test_the_good_document_passes() -> None:
    check_document(copy.deepcopy(GOOD))


def test_a_parameter_that_may_be_empty_is_read_with_a_guard() -> None:
    """The agent may leave its variable unset, and `set -u` ends the script there."""
    document = copy.deepcopy(GOOD)
    optional(document, 'echo "${SSM_RunId-}"')
    check_document(document)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_document_is_refused_with_the_field_named(name: str) -> None:
    document = copy.deepcopy(GOOD)
    change, expected = BAD[name]
    change(document)
    with pytest.raises(InvalidDocument) as refused:
        check_document(document, "bad.yaml")
    assert expected in str(refused.value)
    assert str(refused.value).startswith("bad.yaml: ")


def test_a_file_that_is_no_yaml_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("a: [")
    with pytest.raises(InvalidDocument, match=r"broken\.yaml"):
        load_document(path)
