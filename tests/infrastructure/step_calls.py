"""Which ports' methods and which SSM documents each handler's use case reaches, read from the source.

A use case reaches what it calls on `ports.<port>.<method>`, and what the functions that it names reach.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

PACKAGE = Path(__file__).resolve().parents[2] / "functions" / "peaker"


@dataclass
class Module:
    functions: dict[str, ast.AST] = field(default_factory=dict)
    # Local name of an imported function: (module file, name there).
    imported: dict[str, tuple[Path, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Reach:
    calls: frozenset[str]
    texts: frozenset[str]


@cache
def module(path: Path) -> Module:
    found = Module()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.functions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.functions |= {target.id: node for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("peaker.usecases."):
            source = PACKAGE / "usecases" / f"{(node.module or '').rsplit('.', 1)[1]}.py"
            for alias in node.names:
                found.imported[alias.asname or alias.name] = (source, alias.name)
    return found


def reach(path: Path, name: str) -> Reach:
    """What the function `name` of the file reaches, over all use cases that it names."""
    calls: set[str] = set()
    texts: set[str] = set()
    waiting, seen = [(path, name)], set()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        source, function = place
        here = module(source)
        for node in ast.walk(here.functions[function]):
            if isinstance(node, ast.Attribute):
                calls |= set(_port_call(node))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, ast.Name):
                if node.id in here.imported:
                    waiting.append(here.imported[node.id])
                elif node.id in here.functions:
                    waiting.append((source, node.id))
    return Reach(frozenset(calls), frozenset(texts))


def _port_call(node: ast.Attribute) -> Iterator[str]:
    """`ports.storage.attach`, `job.ports.storage.attach` and `ports.common.storage.attach` as storage.attach."""
    port = node.value
    if not isinstance(port, ast.Attribute):
        return
    holder = port.value
    name = holder.id if isinstance(holder, ast.Name) else getattr(holder, "attr", "")
    if name in ("ports", "common"):
        yield f"{port.attr}.{node.attr}"


def reach_of_handler(name: str) -> Reach:
    """What the use case of the handler `name` reaches; both modules have the handler's name."""
    return reach(PACKAGE / "usecases" / f"{name}.py", name)


# Each port's adapter: file, class, botocore's service, the prefix of its IAM actions.
ADAPTERS = {
    "clusters": ("parameter_clusters.py", "ParameterClusters", "ssm", "ssm"),
    "compute": ("ec2_compute.py", "Ec2Compute", "ec2", "ec2"),
    "storage": ("ec2_storage.py", "Ec2Storage", "ec2", "ec2"),
    "commands": ("ssm_commands.py", "SsmCommands", "ssm", "ssm"),
    "endpoint": ("elb_read_endpoint.py", "ElbReadEndpoint", "elbv2", "elasticloadbalancing"),
    "package": ("s3_host_package.py", "S3HostPackage", "s3", "s3"),
    "snapshot_blocks": ("ebs_snapshot_blocks.py", "EbsSnapshotBlocks", "ebs", "ebs"),
    "run_files": ("s3_run_files.py", "S3RunFiles", "s3", "s3"),
    "readings": ("cloudwatch_readings.py", "CloudWatchReadings", "cloudwatch", "cloudwatch"),
    "history": ("cloudwatch_metrics.py", "CloudWatchLoadHistory", "cloudwatch", "cloudwatch"),
    "metrics": ("cloudwatch_metrics.py", "CloudWatchMetricPublisher", "cloudwatch", "cloudwatch"),
}


def actions_of(call: str) -> set[str]:
    """The IAM actions that the adapter of `port.method` needs; empty for ports that call no AWS."""
    port, method = call.split(".")
    if port not in ADAPTERS:
        return set()
    file, class_name, service, prefix = ADAPTERS[port]
    operations = operations_of(service)
    adapter = module(PACKAGE / "adapters" / file).functions[class_name]
    methods = {node.name: node for node in ast.walk(adapter) if isinstance(node, ast.FunctionDef)}
    found: set[str] = set()
    waiting, seen = [method], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in methods:
            continue
        seen.add(name)
        for node in ast.walk(methods[name]):
            if isinstance(node, ast.Attribute):
                waiting.append(node.attr)
                # Powertools' provider: `self._provider.get` is GetParameter.
                text = "get_parameter" if ast.unparse(node) == "self._provider.get" else node.attr
            else:
                text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if text in operations:
                found.add(f"{prefix}:{operations[text]}")
    return found


@cache
def operations_of(service: str) -> dict[str, str]:
    """`describe_volumes` to `DescribeVolumes`, from botocore's model."""
    names = botocore.session.get_session().get_service_model(service).operation_names
    return {xform_name(name): name for name in names}
