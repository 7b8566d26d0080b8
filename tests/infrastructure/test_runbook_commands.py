"""Every name that a runbook uses exists; tests/typed runs its lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stacks.constructs.operator_alarm import RUNBOOKS
from tests.infrastructure.conftest import Assembly
from tests.support.pages import joined

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# A picture (mermaid) has nothing to type.
FENCE = re.compile(r"^( *)```(?!mermaid)[a-z]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SUBSTITUTED = "SUBSTITUTED"
PLACEHOLDER = re.compile(r"<[a-z][a-z ]*>")
# Made at run time: an alarm for each replica behind a DNS name (stacks/naming.py, replica_alarm_arns).
MADE_AT_RUN_TIME = {"peaker-prod-orders-serves-i-"}
VALUES = {"PEAKER_ENV": "prod", "AWS_REGION": "us-east-1", "CLUSTER": "orders"}


def lines_of(page: Path) -> Iterator[str]:
    """Command lines of a page's blocks, continued ones joined, as bash would see them."""
    for _, block in FENCE.findall(page.read_text(encoding="utf-8")):
        yield from joined(block)


def commands(page: Path, program: str) -> list[str]:
    """The calls of a program in a page, also inside $( ) and behind a pipe."""
    found = []
    for line in lines_of(page):
        text = line.strip()
        inner = re.findall(r"\$\((" + program + r" [^()]*)\)", text)
        found += inner
        outer = re.sub(r"\$\([^()]*\)", SUBSTITUTED, text)
        found += [
            part.strip()
            for part in re.split(r"\s\|\s|\s>\s|\s\s#\s", outer)
            if part.strip().startswith(f"{program} ")
        ]
    return found


def words(command: str, values: dict[str, str] | None = None) -> list[str]:
    known = {**VALUES, **(values or {})}
    text = re.sub(r"\$\{?([A-Z_]+)\}?", lambda m: known.get(m.group(1), m.group(1).lower()), command)
    return shlex.split(PLACEHOLDER.sub("value", text))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


@pytest.fixture(scope="module")
def prod(assemblies: dict[str, Assembly]) -> Assembly:
    return assemblies["prod"]


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: page.stem)
def test_rules_queues_alarms_workflows_and_functions_of_a_runbook_are_in_the_template(
    page: Path, prod: Assembly
) -> None:
    names = {text for template in prod.templates.values() for text in strings(template["Resources"])}
    names |= MADE_AT_RUN_TIME
    whole = "\n".join(names)
    values = {"WORKFLOW": "scale_out", "RULE": "peaker-prod-orders-replica-shortage", "STATES": "arn"}
    for command in commands(page, "aws"):
        for word in words(command, values):
            for name in re.findall(r"peaker-prod[\w-]*", word):
                is_prefix = name.endswith("-")
                assert any(one.startswith(name) if is_prefix else name in one for one in names), name
            for group in re.findall(r"/aws/lambda/[\w-]+", word):
                assert group.removeprefix("/aws/lambda/") in whole


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).is_file(), target
