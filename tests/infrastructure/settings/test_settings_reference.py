"""docs/settings.md is what the models say, and so is the schema that editors read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic_core import PydanticUndefined

from environments import reference
from environments.faults import UnclearWord
from environments.schema import ENVIRONMENTS_DIRECTORY, available_environments
from environments.yaml_text import read_document

ROOT = ENVIRONMENTS_DIRECTORY.parent
REMEDY = "run `make settings-reference`"


def test_reference_is_what_the_models_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main([]) == 0
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == capsys.readouterr().out, REMEDY


def test_the_schema_is_printed_and_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main(["--schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == reference.json_schema()
    Draft202012Validator.check_schema(printed)


def test_every_setting_says_what_it_means_and_has_an_example() -> None:
    for model in reference.models():
        assert model.__doc__, model
        for name, field in model.model_fields.items():
            assert field.description, (model, name)
            holds_settings = any(
                inner is not model and _holds(field.annotation, inner) for inner in reference.models()
            )
            has_example = bool(field.examples) or field.default not in (None, PydanticUndefined)
            assert has_example or holds_settings, (model, name)


def _holds(annotation: Any, model: type) -> bool:
    return annotation is model or any(_holds(one, model) for one in getattr(annotation, "__args__", ()))


def test_examples_are_within_the_bounds_of_their_settings() -> None:
    schema = reference.json_schema()
    for block in (schema, *schema["$defs"].values()):
        for setting in block["properties"].values():
            for example in setting.get("examples", ()):
                Draft202012Validator({**setting, "$defs": schema["$defs"]}).validate(example)


def test_every_link_of_the_reference_leads_somewhere() -> None:
    text = reference.markdown()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9_-]", "", heading.lower().replace(" ", "-")) for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= anchors


@pytest.mark.parametrize("name", available_environments())
def test_editors_find_the_schema_and_it_takes_the_given_files(name: str) -> None:
    path = ENVIRONMENTS_DIRECTORY / f"{name}.yaml"
    assert path.read_text(encoding="utf-8").splitlines()[0] == "# yaml-language-server: $schema=schema.json"
    faults = Draft202012Validator(reference.json_schema()).iter_errors(
        in_json(read_document(path, name).value)
    )
    assert [fault.message for fault in faults] == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("max_replica", 3),
        ("max_replicas", 600),
        ("mode", "watch"),
        ("image_id", "debian-12"),
        ("subnets", {"us-east-1": "subnet-0b0d000000000001a"}),
        ("drain", {"limit_seconds": -1}),
        ("calendar", [{"from": "27.11.2026", "until": "2026-11-28T02:00", "reason": "sale"}]),
    ],
)
def test_editors_see_what_is_wrong(place: str, value: Any) -> None:
    document = in_json(read_document(ENVIRONMENTS_DIRECTORY / "prod.yaml", "prod").value)
    document["clusters"][0][place] = value
    assert not Draft202012Validator(reference.json_schema()).is_valid(document)


def in_json(value: Any) -> Any:
    """The document as an editor reads it: a moment is text."""
    match value:
        case dict():
            return {name: in_json(item) for name, item in value.items()}
        case list():
            return [in_json(item) for item in value]
        case UnclearWord():
            return value.text
        case _:
            return value
