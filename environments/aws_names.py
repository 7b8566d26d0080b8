"""The regions and instance types that AWS had when `aws_names.json` was written; synth asks nobody.

    python -m environments.aws_names          writes the file anew from the installed botocore (make aws-names)

A name that is newer than the file is refused until the file is written anew.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

NEWER = "for a newer one: pip install --upgrade botocore, then make aws-names"
PATH = Path(__file__).with_name("aws_names.json")
# A pseudo region stands for none.
_REGION = re.compile(r"^[a-z]{2,4}(-[a-z]+)+-[0-9]+$")


@cache
def _listed() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return document


@cache
def partitions() -> dict[str, frozenset[str]]:
    """Regions by ARN partition."""
    return {name: frozenset(regions) for name, regions in _listed()["regions_by_partition"].items()}


@cache
def regions() -> frozenset[str]:
    return frozenset().union(*partitions().values())


def partition_of(region: str) -> str:
    """The ARN partition that the region lies in; a region that is not listed lies where its name begins like."""
    prefixes = {
        "cn-": "aws-cn",
        "us-gov-": "aws-us-gov",
        "us-iso-": "aws-iso",
        "us-isob-": "aws-iso-b",
        "us-isof-": "aws-iso-f",
        "eu-isoe-": "aws-iso-e",
        "eusc-": "aws-eusc",
    }
    begins = (name for prefix, name in prefixes.items() if region.startswith(prefix))
    return next((name for name, held in partitions().items() if region in held), next(begins, "aws"))


@cache
def instance_types() -> frozenset[str]:
    families = _listed()["sizes_by_instance_family"]
    return frozenset(f"{family}.{size}" for family, sizes in families.items() for size in sizes)


def architecture_of(instance_type: str) -> str:
    """Returns the processor architecture: a family with a g behind its generation, and a1, is Graviton's."""
    family = instance_type.partition(".")[0]
    return "arm64" if family == "a1" or re.search(r"^[a-z]+[0-9]+[a-z]*g", family) else "x86_64"


def nearest(given: str, known: Iterable[str]) -> str:
    """`; did you mean x?`, or nothing when no known name is close."""
    near = difflib.get_close_matches(given, sorted(known), n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""


def nearest_instance_type(given: str) -> str:
    """The sizes of a family that exists, else the closest type."""
    family, _, _ = given.partition(".")
    sizes = _listed()["sizes_by_instance_family"].get(family)
    if sizes is None:
        return nearest(given, instance_types())
    near = difflib.get_close_matches(given, [f"{family}.{size}" for size in sizes], n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else f"; {family} has {', '.join(sizes)}"


def written() -> str:
    """The file as the installed botocore has it. Imports botocore, which synth does without."""
    import botocore
    from botocore.loaders import Loader

    loader = Loader()
    families: dict[str, list[str]] = {}
    for name in loader.load_service_model("ec2", "service-2")["shapes"]["InstanceType"]["enum"]:
        family, size = name.split(".", 1)
        families.setdefault(family, []).append(size)
    by_partition = {
        partition["id"]: sorted(name for name in partition["regions"] if _REGION.match(name))
        for partition in loader.load_data("partitions")["partitions"]
    }
    source = f"botocore {botocore.__version__}: ec2 InstanceType, partitions"
    lines = [
        f'  "source": {json.dumps(source)},',
        f'  "regions_by_partition": {_rows(by_partition)},',
        f'  "sizes_by_instance_family": {_rows({name: families[name] for name in sorted(families)})}',
    ]
    return "{\n" + "\n".join(lines) + "\n}\n"


def _rows(table: dict[str, list[str]]) -> str:
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(values)}" for name, values in table.items())
    return f"{{\n{rows}\n  }}"


if __name__ == "__main__":
    PATH.write_text(written(), encoding="utf-8")
    print(PATH)
