"""Steps that build and warm read the run's plan; of today's settings only what protects."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from peaker_contract.cluster import ClusterSettings

ROOT = Path(__file__).resolve().parents[2]
ROOMS = [ROOT / "functions/peaker/usecases" / room for room in ("create", "warm")]
# MaintainSnapshots builds nothing: it keeps the first set of an observed cluster, for which nothing is planned.
NO_STEPS_OF_A_BUILD = {"__init__", "maintain_snapshots"}
STEPS = sorted(path for room in ROOMS for path in room.glob("*.py") if path.stem not in NO_STEPS_OF_A_BUILD)

# What is built by, and therefore planned.
PLANNED = {
    "image_id", "instance_type", "fallback_instance_types", "capacity_reservation_group_arn", "instance_profile",
    "security_group_ids", "subnets", "volumes",
    "initialization_rate_mib_per_s", "prewarm",
}  # fmt: skip
# What protects while it is built, and therefore today's; knee_seconds is time for a search and planned with the rest.
PROTECTING = {"gates", "limits"}
PLANNED_AMONG_GATES = "knee_seconds"
# What hosts are told: engine and health port, which are those of the read endpoint as it is now.
TOLD_TO_HOSTS = {"host_parameters"}
# What a run decides by before it has a plan, or what becomes of a replica that is built.
NOT_OF_A_BUILD = {
    "name", "environment", "region", "engine", "mode", "min_replicas", "max_replicas", "instance_hourly_usd",
    "kms_key_arns", "initialization_usd_per_gib", "read_endpoint", "load_metric",
    "capacity_per_replica", "time_zone", "forecast",
    "calendar", "holds", "observation_days", "ramp", "health", "drain",
    "retirement", "keep_snapshots", "bootstrap_qualifier",
}  # fmt: skip
# They look at the fleet as it is; what is built does not pass through them.
LOOKS_AT_THE_FLEET = {"gather_fleet", "possible_donors"}


def readings_of_planned_settings(source: str) -> list[str]:
    """Each place where settings are used for anything but what protects, as `line: text`."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_settings_call(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = [
        node
        for node in ast.walk(tree)
        if (_is_settings_call(node) or (isinstance(node, ast.Name) and node.id in named))
        and not _is_allowed(node, parents)
    ]
    imported = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and any(one.name == "ClusterSettings" for one in node.names)
    ]
    of_gates = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == PLANNED_AMONG_GATES
        and ast.unparse(node.value).endswith("gates")
    ]
    return [f"{node.lineno}: {ast.unparse(parents[node])}" for node in (*found, *imported, *of_gates)]


def _is_settings_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("clusters.settings")


def _is_allowed(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    parent = parents[node]
    if isinstance(parent, ast.Attribute):
        return parent.attr in PROTECTING | TOLD_TO_HOSTS
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name):
        return parent.func.id in LOOKS_AT_THE_FLEET
    return isinstance(parent, ast.Assign)


def test_every_setting_is_planned_or_protects_or_is_not_of_a_build() -> None:
    sets = (PLANNED, PROTECTING, NOT_OF_A_BUILD)
    assert sorted(name for one in sets for name in one) == sorted(ClusterSettings.model_fields)


def test_the_page_names_every_setting_that_is_planned() -> None:
    page = (ROOT / "docs/states-and-invariants.md").read_text(encoding="utf-8")
    (paragraph,) = [one for one in page.split("\n\n") if one.startswith("**The plan is what is built.**")]
    assert [name for name in {*PLANNED, *PROTECTING, PLANNED_AMONG_GATES} if name not in paragraph] == []


@pytest.mark.parametrize("step", STEPS, ids=lambda path: str(path.stem))
def test_a_step_that_builds_reads_the_plan(step: Path) -> None:
    assert readings_of_planned_settings(step.read_text(encoding="utf-8")) == []
