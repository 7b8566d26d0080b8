"""Writes the contents of the functions' bundle as a CycloneDX document beside it: `python -m stacks.sbom
[environment]`.

Read from the bundle itself, not from what was asked of pip. Equal bundles have equal documents: there is no time in
them, and the serial number comes from the bundle's bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tomllib
import uuid
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseAcknowledgement
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from environments.schema import EnvironmentFileError, load_environment
from stacks.constructs.local_bundling import (
    REPOSITORY,
    BundlingError,
    bundle_functions,
    distributions_in,
    target_of,
)


def write_sbom(bundle: Path) -> Path:
    """Write `<digest>.cdx.json` beside the bundle's zip; returns its path."""
    packed = hashlib.sha256(bundle.read_bytes()).hexdigest()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    root = Component(
        type=ComponentType.APPLICATION,
        bom_ref="functions",
        name=f"{project['name']}-functions",
        version=project["version"],
        description=f"The code of Peaker's Lambda functions: {bundle.name}",
        licenses=[LicenseFactory().make_from_string(project["license"])],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=packed)],
    )
    document = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{packed}"))
    document.metadata.component = root
    contained = distributions_in(bundle)
    components = {canonicalize_name(one.name): _component(one) for one in contained}
    for component in components.values():
        document.components.add(component)
    document.register_dependency(root, components.values())
    for one in contained:
        needed = [components[name] for name in _needed_by(one) if name in components]
        document.register_dependency(components[canonicalize_name(one.name)], needed)
    path = bundle.with_suffix(".cdx.json")
    written = json.loads(JsonV1Dot6(document).output_as_string())
    del written["metadata"]["timestamp"]
    path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return path


def _component(one: Distribution) -> Component:
    name = canonicalize_name(one.name)
    given = _field(one, "License-Expression") or _field(one, "License")
    licenses = []
    if given and "\n" not in given:  # some have the whole text of the licence there
        made = LicenseFactory().make_from_string(
            given, license_acknowledgement=LicenseAcknowledgement.DECLARED
        )
        licenses.append(made)
    address = PackageURL("pypi", name=name, version=one.version)
    return Component(
        type=ComponentType.LIBRARY,
        bom_ref=str(address),
        name=one.name,
        version=one.version,
        description=_field(one, "Summary") or None,
        licenses=licenses,
        purl=address,
    )


def _field(one: Distribution, name: str) -> str:
    """Returns a field of a distribution's metadata; empty where it is not given."""
    given = one.metadata.get_all(name)
    return str(given[0]) if given else ""


def _needed_by(one: Distribution) -> Iterator[NormalizedName]:
    """Names, whatever their markers and extras: what is not in the bundle is left out by the caller."""
    yield from (canonicalize_name(Requirement(line).name) for line in one.requires or ())


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the bundle unless it is there, and prints the document's path; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m stacks.sbom", description=__doc__.split("\n\n")[0])
    parser.add_argument("environment", nargs="?", default="prod", help="environments/<environment>.yaml")
    options = parser.parse_args(arguments)
    try:
        environment = load_environment(options.environment)
        print(write_sbom(bundle_functions(target_of(environment.is_local))))
    except EnvironmentFileError as error:
        print(error, file=sys.stderr)
        return 2
    except BundlingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
