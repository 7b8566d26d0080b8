"""How long 200 clusters take to synthesise, and how large their stacks are.

    python -m bench.scale.synth DIRECTORY     one synth of 200 clusters into it, and nothing else

Half of the clusters have a load balancer, half a DNS name; the rest is as in environments/prod.yaml. The time is that
of a fresh process, with the checks of synth and without building the functions' dependencies, which are built once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from bench.faults.figures import Figures, at_most
from environments.may_use import MayUse
from environments.schema import Cluster, Environment, load_environment
from peaker_contract.endpoint_settings import Route53EndpointSettings

CLUSTERS = 200
MOST_SECONDS = 60
MOST_RESOURCES = 400
# CloudFormation: a template in S3.
MOST_TEMPLATE_BYTES = 1_048_576


def fleet(clusters: int = CLUSTERS) -> Environment:
    """The environment `prod` with so many clusters. A pattern has their DNS names: a policy has no room for all."""
    given = load_environment("prod", warn=lambda _: None)
    clusters_of_fleet = tuple(_cluster(given.clusters[0], number) for number in range(clusters))
    may_use = MayUse(record_patterns=("shard-*.reads.internal",))
    return given.model_copy(update={"clusters": clusters_of_fleet, "may_use": may_use})


def _cluster(like: Cluster, number: int) -> Cluster:
    name = f"shard-{number:03d}"
    if number % 2 == 0:
        return like.model_copy(update={"name": name})
    by_name = Route53EndpointSettings(
        kind="route53",
        port=3306,
        health_port=9200,
        hosted_zone_id="Z0123456789ABCDEFGHIJ",
        record_name=f"{name}.reads.internal",
        ttl_seconds=30,
    )
    return like.model_copy(update={"name": name, "read_endpoint": by_name})


def synthesize(output: Path) -> None:
    """Write the fleet's templates, with all checks."""
    from stacks import application

    with patch.object(application, "load_environment", lambda _, **__: fleet()):
        application.build_app(environment="prod", output=output, context={"bundle": "sources"}).synth()


def templates(output: Path) -> Iterator[Path]:
    """Of all stacks of an assembly."""
    for stage in sorted(output.glob("assembly-*")):
        artifacts = json.loads((stage / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
        for artifact in artifacts.values():
            if artifact["type"] == "aws:cloudformation:stack":
                yield stage / artifact["properties"]["templateFile"]


def measure() -> Figures:
    """One synth in a fresh process, and what it wrote."""
    with tempfile.TemporaryDirectory(prefix="peaker-fleet-") as folder:
        output = Path(folder) / "cdk.out"
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "bench.scale.synth", str(output)], check=True)
        seconds = time.monotonic() - began
        written = list(templates(output))
        resources = max(len(json.loads(one.read_text(encoding="utf-8"))["Resources"]) for one in written)
        size = max(one.stat().st_size for one in written)
    shared = 3
    if len(written) != CLUSTERS + shared:
        raise SystemExit(f"{len(written)} stacks were written, not {CLUSTERS + shared}")
    return {
        f"synth of {CLUSTERS} clusters, seconds": at_most(seconds, MOST_SECONDS),
        "resources of the largest stack": at_most(resources, MOST_RESOURCES),
        "bytes of the largest template": at_most(size, MOST_TEMPLATE_BYTES),
    }


if __name__ == "__main__":
    synthesize(Path(sys.argv[1]))
