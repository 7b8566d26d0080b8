"""Which ports' methods and which SSM documents each handler's use case reaches, read from the source.

A use case reaches what it calls on `ports.<port>.<method>`, and what the functions that it names reach.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

PACKAGE = Path(__file__).resolve().parents[3] / "functions" / "peaker"


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
            source = PACKAGE.parent / f"{(node.module or '').replace('.', '/')}.py"
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
    """`ports.storage.attach` and `job.ports.storage.attach` as storage.attach."""
    port = node.value
    if not isinstance(port, ast.Attribute):
        return
    holder = port.value
    name = holder.id if isinstance(holder, ast.Name) else getattr(holder, "attr", "")
    if name == "ports":
        yield f"{port.attr}.{node.attr}"


def reach_of_handler(name: str) -> Reach:
    """What the use case of the handler `name` reaches; both modules have the handler's name."""
    [path] = (PACKAGE / "usecases").glob(f"*/{name}.py")
    return reach(path, name)


@dataclass(frozen=True)
class Adapter:
    """Classes and functions behind a port, by file, and the IAM prefix of each botocore service that they call."""

    classes: tuple[tuple[str, str], ...]
    services: Mapping[str, str]


def _adapter(file: str, class_name: str, service: str, prefix: str) -> Adapter:
    return Adapter(((file, class_name),), {service: prefix})


CLOUDWATCH, S3 = {"cloudwatch": "cloudwatch"}, {"s3": "s3"}
SIGNED_URL, INSTANCE = ("s3_files.py", "signed_url"), ("ec2/compute.py", "described_instance")
READ_POINTS = ("cloudwatch/metric_data.py", "read_points")
ADAPTERS = {
    "clusters": _adapter("ssm/clusters.py", "ParameterClusters", "ssm", "ssm"),
    "compute": Adapter((("ec2/compute.py", "Ec2Compute"), INSTANCE), {"ec2": "ec2"}),
    "storage": Adapter((("ec2/storage.py", "Ec2Storage"), INSTANCE), {"ec2": "ec2"}),
    "commands": _adapter("ssm/commands.py", "SsmCommands", "ssm", "ssm"),
    "package": Adapter((("s3_files.py", "S3HostPackage"), SIGNED_URL), S3),
    "snapshot_blocks": _adapter("ec2/snapshot_blocks.py", "EbsSnapshotBlocks", "ebs", "ebs"),
    "run_files": Adapter((("s3_files.py", "S3RunFiles"), SIGNED_URL), S3),
    "volume_keys": _adapter("ec2/volume_keys.py", "KmsVolumeKeys", "kms", "kms"),
    "executions": _adapter(
        "step_functions_executions.py", "StepFunctionsExecutions", "stepfunctions", "states"
    ),
    "readings": Adapter((("cloudwatch/readings.py", "CloudWatchReadings"), READ_POINTS), CLOUDWATCH),
    "price_list": _adapter("aws_price_list.py", "AwsPriceList", "pricing", "pricing"),
    "stored_prices": _adapter("ssm/prices.py", "ParameterPrices", "ssm", "ssm"),
    "account_quotas": _adapter("service_quotas.py", "AwsServiceQuotas", "service-quotas", "servicequotas"),
    "operators": _adapter("sns_operators.py", "SnsOperators", "sns", "sns"),
    "events": _adapter("eventbridge_events.py", "EventBridgeEvents", "events", "events"),
    "history": Adapter((("cloudwatch/metrics.py", "CloudWatchLoadHistory"), READ_POINTS), CLOUDWATCH),
    "metrics": _adapter("cloudwatch/metrics.py", "CloudWatchMetricPublisher", "cloudwatch", "cloudwatch"),
}
# The port `endpoint` has an adapter for each kind of read endpoint.
ENDPOINTS = {
    "nlb": _adapter("read_endpoint/elb.py", "ElbReadEndpoint", "elbv2", "elasticloadbalancing"),
    "route53": Adapter(
        (
            ("read_endpoint/route53.py", "Route53ReadEndpoint"),
            ("read_endpoint/health_checks.py", "ReplicaHealthChecks"),
        ),
        {"route53": "route53", "cloudwatch": "cloudwatch", "ec2": "ec2"},
    ),
}


def actions_of(call: str, kind: str = "nlb") -> set[str]:
    """The IAM actions that the adapter of `port.method` needs, with read endpoints of that kind.

    Empty for ports that call no AWS.
    """
    port, method = call.split(".")
    adapter = {**ADAPTERS, "endpoint": ENDPOINTS[kind]}.get(port)
    if adapter is None:
        return set()
    methods = _methods_of(adapter)
    found: set[str] = set()
    waiting, seen = [method], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in methods:
            continue
        seen.add(name)
        for node in ast.walk(methods[name]):
            if isinstance(node, ast.Attribute):
                # Not `settings.health`: only what the adapter itself has.
                waiting += [node.attr] if ast.unparse(node).startswith("self.") else []
                # Powertools' provider: `self._provider.get` is GetParameter.
                text = "get_parameter" if ast.unparse(node) == "self._provider.get" else node.attr
            elif isinstance(node, ast.Name):
                waiting.append(node.id)
                continue
            else:
                text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            for service, prefix in adapter.services.items():
                if text in operations_of(service):
                    found.add(f"{prefix}:{operations_of(service)[text]}")
    return found


def _methods_of(adapter: Adapter) -> dict[str, ast.FunctionDef]:
    bodies = [module(PACKAGE / "adapters" / file).functions[name] for file, name in adapter.classes]
    return {
        node.name: node for body in bodies for node in ast.walk(body) if isinstance(node, ast.FunctionDef)
    }


@cache
def operations_of(service: str) -> dict[str, str]:
    """`describe_volumes` to `DescribeVolumes`, from botocore's model."""
    names = botocore.session.get_session().get_service_model(service).operation_names
    return {xform_name(name): name for name in names}
