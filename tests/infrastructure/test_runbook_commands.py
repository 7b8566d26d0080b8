"""What the docs tell people to type exists: every peaker and aws line, and every name that a runbook uses."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import typer
from botocore import xform_name
from botocore.model import Shape
from peaker_cli.app import app
from peaker_host.machine import errors as host_errors

from peaker_contract import errors
from peaker_contract.metrics import Metric
from stacks.constructs.operator_alarm import RUNBOOKS
from statemachines.structure import states
from tests.infrastructure.conftest import Assembly
from tests.support.pages import joined
from tests.support.workflows import MACHINES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# A picture (mermaid) has nothing to type.
FENCE = re.compile(r"^( *)```(?!mermaid)[a-z]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SUBSTITUTED = "SUBSTITUTED"
PLACEHOLDER = re.compile(r"<[a-z][a-z ]*>")
SESSION = botocore.session.get_session()
# Options that every aws command takes (AWS CLI reference, "Global options"), and those of its own making.
GLOBAL_OPTIONS = {
    "--query",
    "--output",
    "--region",
    "--profile",
    "--endpoint-url",
    "--cli-binary-format",
    "--no-cli-pager",
}
# What the AWS CLI adds to an operation's own parameters (its reference, `aws cloudwatch put-metric-data`).
CLI_OPTIONS = {
    ("cloudwatch", "put-metric-data"): {"--metric-name", "--dimensions", "--value", "--unit", "--timestamp"},
}
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


def all_commands(program: str) -> list[tuple[str, str]]:
    return [(str(page.relative_to(ROOT)), one) for page in PAGES for one in commands(page, program)]


PEAKER_LINES = all_commands("peaker")
AWS_LINES = all_commands("aws")


def test_there_are_lines_to_check() -> None:
    assert len(PEAKER_LINES) > 10
    assert len(AWS_LINES) > 40
    for page in RUNBOOKS.glob("*.md"):
        assert commands(page, "aws") or commands(page, "peaker"), f"{page.name} has nothing to copy"


@pytest.mark.parametrize(("page", "line"), PEAKER_LINES, ids=[f"{p}:{c[:50]}" for p, c in PEAKER_LINES])
def test_a_peaker_line_is_understood_by_the_command(page: str, line: str) -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("peaker", words(line)[1:], resilient_parsing=True)
    name, command, rest = group.resolve_command(context, words(line)[1:])
    command.make_context(name, list(rest), parent=context)


def wrong_in(command: str) -> str | None:
    """What is wrong with an aws line by botocore's models; None when service, operation and parameters exist."""
    _, service, action, *rest = words(command)
    if service not in SESSION.get_available_services():
        return f"no service {service}"
    if action == "wait":
        waiters = SESSION.create_client(service, region_name="us-east-1").waiter_names
        return None if xform_name(rest[0].replace("-", "_")) in waiters else f"no waiter {rest[0]}"
    model = SESSION.get_service_model(service)
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    if action not in operations:
        return f"{service} has no operation {action}"
    shape = model.operation_model(operations[action]).input_shape
    members = {f"--{xform_name(name, '-')}": one for name, one in (shape.members if shape else {}).items()}
    return wrong_parameters(rest, members, shape, service, action)


def wrong_parameters(
    rest: list[str], members: dict[str, Shape], shape: Any, service: str, action: str
) -> str | None:
    given: dict[str, list[str]] = {}
    option = ""
    for word in rest:
        if word.startswith("--"):
            option = word
            given[option] = []
        elif option:
            given[option].append(word)
        elif (service, action) != ("lambda", "invoke"):
            return f"{word} belongs to no option"
    if (service, action) == ("lambda", "invoke") and given:
        given = {name: values[:1] for name, values in given.items()}  # the file for the answer stands last
    for name, values in given.items():
        if name in GLOBAL_OPTIONS:
            continue
        if name in CLI_OPTIONS.get((service, action), set()):
            continue
        plain = name.replace("--no-", "--") if name not in members else name
        if plain not in members:
            return f"{service} {action} has no {name}"
        if problem := wrong_value(values, members[plain]):
            return f"{name}: {problem}"
    required = {f"--{xform_name(name, '-')}" for name in (shape.required_members if shape else ())}
    missing = required - given.keys()
    return f"{', '.join(sorted(missing))} is missing" if missing else None


def wrong_value(values: list[str], shape: Any) -> str | None:
    if shape.type_name == "boolean":
        return None if not values else "takes no value"
    if not values:
        return "has no value"
    if shape.type_name != "list" and len(values) != 1:
        return f"takes one value, not {values}"
    if values[0].startswith("file://"):
        return None
    if shape.type_name in ("integer", "long") and not values[0].replace(SUBSTITUTED, "0").isdigit():
        return f"{values[0]} is no whole number"
    if shape.type_name == "string" and shape.enum and values[0] not in shape.enum:
        return f"{values[0]} is none of {shape.enum}"
    if shape.type_name in ("list", "structure", "map"):
        return wrong_structure(values, shape)
    return None


def wrong_structure(values: list[str], shape: Any) -> str | None:
    if values[0].lstrip().startswith(("{", "[")):
        json.loads(values[0])
        return None
    inner = shape.member if shape.type_name == "list" else shape
    if inner.type_name != "structure":
        allowed = getattr(inner, "enum", None)
        return (
            None
            if not allowed
            else next((f"{v} is none of {allowed}" for v in values if v not in allowed), None)
        )
    for value in values:
        names = re.findall(r"(?:^|,)([A-Za-z]+)=", value)
        if not names or not set(names) <= set(inner.members):
            return f"{value} has not the fields of {sorted(inner.members)}"
    return None


@pytest.mark.parametrize(("page", "line"), AWS_LINES, ids=[f"{p}:{c[:60]}" for p, c in AWS_LINES])
def test_an_aws_line_fits_the_service_s_model(page: str, line: str) -> None:
    assert wrong_in(line) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("aws sqss purge-queue --queue-url x", "no service sqss"),
        ("aws sqs purge --queue-url x", "no operation purge"),
        ("aws sqs purge-queue --queue x", "has no --queue"),
        ("aws sqs purge-queue", "--queue-url is missing"),
        ("aws stepfunctions list-executions --state-machine-arn a --status-filter FAILD", "FAILD is none of"),
        ("aws stepfunctions list-executions --state-machine-arn a --max-results ten", "is no whole number"),
        ("aws ec2 describe-instances --filters tag=x", "has not the fields of"),
        ("aws ec2 wait instance-gone --instance-ids i-1", "no waiter instance-gone"),
    ],
)
def test_a_wrong_aws_line_is_found(line: str, said: str) -> None:
    assert said in (wrong_in(line) or "")


# -- names ------------------------------------------------------------------------------------------------------

ERROR_NAMES = {
    name
    for module in (errors, host_errors)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Exception)
}
STATE_NAMES = {state.name for machine in MACHINES.values() for state in states(machine)}
# What AWS itself calls by a name of this form.
AWS_NAMES = {
    "InstanceLimitExceeded", "InsufficientInstanceCapacity", "QueueUrl", "UnauthorizedOperation", "VcpuLimitExceeded",
}  # fmt: skip


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
def test_errors_states_and_metrics_of_a_runbook_exist(page: Path, prod: Assembly) -> None:
    published = {
        alarm["MetricName"] for alarm in prod.properties("AWS::CloudWatch::Alarm") if "MetricName" in alarm
    }
    dashboards = json.dumps(prod.properties("AWS::CloudWatch::Dashboard"))
    known = ERROR_NAMES | STATE_NAMES | AWS_NAMES | published | {metric.value for metric in Metric}
    text = page.read_text(encoding="utf-8")
    cited = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][A-Za-z]*)+)`", text))
    cited |= set(re.findall(r"--metric-name ([A-Za-z]+)", text))
    assert {name for name in cited if name not in known and f'\\"{name}\\"' not in dashboards} == set()


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
