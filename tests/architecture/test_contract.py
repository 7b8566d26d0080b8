"""What two sides need is written once, in peaker_contract, and both sides have it."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import peaker
import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import environments
import peaker_contract
from environments.schema import ENVIRONMENTS_DIRECTORY, available_environments, load_environment
from peaker_contract import names
from peaker_contract.cluster import ClusterBlock, ClusterSettings, deployed_document
from peaker_contract.endpoint_settings import NlbEndpoint
from peaker_contract.metrics import Metric, namespace

ROOT = Path(__file__).resolve().parents[2]
# The local cloud imports nothing of Peaker; what a person types stands in texts, which this leaves alone.
READERS = ("functions", "stacks", "environments", "cli", "demo", "lab", "sim", "bench")
FULL = ROOT / "tests" / "infrastructure" / "settings" / "environment_files"
ARNS = {
    "target_group_arn": "arn:aws:elasticloadbalancing:serving",
    "warming_target_group_arn": "arn:aws:elasticloadbalancing:warming",
    "listener_arn": "arn:aws:elasticloadbalancing:listener",
}


def files() -> list[tuple[str, Path]]:
    return [
        (name, folder) for folder in (ENVIRONMENTS_DIRECTORY, FULL) for name in available_environments(folder)
    ]


@pytest.mark.parametrize(("name", "folder"), files(), ids=[name for name, _ in files()])
def test_every_setting_of_a_file_arrives_at_the_functions(name: str, folder: Path) -> None:
    environment = load_environment(name, folder, warn=lambda line: None)
    for block in [*environment.clusters, *([complete(environment.clusters[0])] if name == "shop" else [])]:
        arns = ARNS if isinstance(block.read_endpoint, NlbEndpoint) else {}
        written = json.dumps(
            deployed_document(
                block, environment=environment.environment, region=environment.region, endpoint=arns
            )
        )
        arrived = ClusterSettings.model_validate_json(written)
        assert (arrived.environment, arrived.region) == (environment.environment, environment.region)
        # Without a load metric it is Peaker's own, which the next test reads.
        for setting in ClusterBlock.model_fields.keys() - (
            {"load_metric"} if block.load_metric is None else ()
        ):
            given, found = dumped(block).get(setting), dumped(arrived).get(setting)
            assert found == (
                {**block.read_endpoint.model_dump(), **arns} if setting == "read_endpoint" else given
            )


def test_without_a_load_metric_the_functions_read_what_the_check_of_the_replicas_publishes() -> None:
    block = load_environment("local", ENVIRONMENTS_DIRECTORY, warn=lambda line: None).clusters[0]
    block = block.model_copy(
        update={"load_metric": None, "health": block.health.model_copy(update={"check_minutes": 10})}
    )
    written = json.dumps(deployed_document(block, environment="prod", region="eu-west-1", endpoint=ARNS))
    assert ClusterSettings.model_validate_json(written).load_metric.model_dump() == {
        "namespace": "Peaker/prod",
        "name": "ReadQueriesPerSecond",
        "statistic": "Average",
        "period_seconds": 600,
        "dimensions": {"Cluster": block.name, "service": "peaker"},
    }


def dumped(block: ClusterBlock) -> dict[str, Any]:
    return block.model_dump(mode="json", exclude_none=True)


def complete(block: ClusterBlock) -> ClusterBlock:
    """With an example of what the file leaves out."""
    left_out = {
        name: field.examples[0]
        for name, field in ClusterBlock.model_fields.items()
        if field.examples and name not in block.model_fields_set
    }
    return ClusterBlock.model_validate({**dumped(block), **left_out, "keep_snapshots": False})


def test_no_setting_is_left_out_of_that() -> None:
    shop = load_environment("shop", FULL, warn=lambda line: None).clusters[0]
    assert set(ClusterBlock.model_fields) - complete(shop).model_fields_set == set()


# -- written once -----------------------------------------------------------------------------------------------


@functools.cache
def texts(path: Path, *, whole: bool = False) -> tuple[str, ...]:
    """The texts of a program; docstrings are for people. With the fixed parts of f-strings, unless `whole` is asked."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    if whole:
        told |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    return tuple(
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
    )


def programs() -> Iterator[Path]:
    for folder in READERS:
        yield from (path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def keys_of_tags() -> set[str]:
    return {value for name, value in vars(names).items() if name.endswith("_TAG")}


def names_written_again(words: set[str], beginnings: tuple[str, ...]) -> list[str]:
    found = []
    for path in programs():
        again = {text for text in texts(path, whole=True) if text in words}
        again |= {
            text
            for text in texts(path)
            if any(text.startswith(one) or f"={one}" in text for one in beginnings)
        }
        found += [f"{path.relative_to(ROOT)}: {text}" for text in sorted(again)]
    return found


def test_metrics_and_their_namespaces_are_named_once() -> None:
    # A word of two parts or more; "Observing" alone may mean something else.
    names = {metric.value for metric in Metric if sum(one.isupper() for one in metric.value) > 1}
    again = names_written_again(names, (namespace(""),))
    # A function is called like the metric.
    assert [one for one in again if not one.endswith("scheduled.py: ForecastLoad")] == []


def test_keys_of_tags_are_named_once() -> None:
    assert len(keys_of_tags()) >= 8
    assert names_written_again(keys_of_tags(), tuple(sorted(keys_of_tags()))) == []


def test_names_of_resources_are_made_in_one_place() -> None:
    made = ("peaker-", "Peaker-", "/peaker/")
    # Of this machine: a thread's name, a scratch file.
    elsewhere = ("bench/", "sim/", "demo/", "lab/", "cli/peaker_cli/failures.py")
    ours = [one for one in names_written_again(set(), made) if not one.startswith(elsewhere)]
    assert [one for one in ours if one.endswith(made)] == []


# -- models -----------------------------------------------------------------------------------------------------


def models(package: ModuleType) -> Iterator[type[BaseModel]]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, BaseModel) and one.__module__ == module.__name__:
                yield one


def own_fields(model: type[BaseModel]) -> set[str]:
    return set(vars(model).get("__annotations__", {})) & set(model.model_fields)


def test_no_bound_of_a_setting_is_written_outside_the_contract() -> None:
    settings = {name for model in models(peaker_contract) for name in model.model_fields}
    again = [
        f"{model.__name__}.{name}: {field.metadata}"
        for package in (environments, peaker)
        for model in models(package)
        for name, field in model.model_fields.items()
        if name in settings & own_fields(model) and bounds(field) and not is_shared(model, name)
    ]
    assert [one for one in again if one.split(":")[0] not in NAMED_BY_THE_HOST] == []


# The contract knows that it is a name; which names there are, the host package says.
NAMED_BY_THE_HOST = {"Prewarm.method"}


def bounds(field: FieldInfo) -> list[Any]:
    """Limits and patterns; which names a program knows is no bound."""
    kinds = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
    return [one for one in field.metadata if any(getattr(one, kind, None) is not None for kind in kinds)]


def is_shared(model: type[BaseModel], name: str) -> bool:
    """Whether the field takes a type of the contract, by its very objects."""
    written = str(vars(model)["__annotations__"][name])
    return any(written.split("[")[0].strip() in vars(module) for module in contract_modules())


def contract_modules() -> list[ModuleType]:
    names = [found.name for found in pkgutil.iter_modules(peaker_contract.__path__, "peaker_contract.")]
    return [importlib.import_module(name) for name in names]


def test_every_kind_of_endpoint_can_be_deployed() -> None:
    def kinds(model: type[ClusterBlock]) -> set[str]:
        union = model.model_fields["read_endpoint"].annotation
        return {get_args(one.model_fields["kind"].annotation)[0] for one in get_args(union)}

    assert kinds(ClusterBlock) == kinds(ClusterSettings)
