"""How large the functions are, as they are deployed."""

from __future__ import annotations

import zipfile

from bench.forecast.figures import Figure, figure
from stacks.constructs.local_bundling import Target, bundle_functions


def bundle_figures() -> dict[str, Figure]:
    """Unzipped size of the bundle that synth makes for AWS; it is made where it is not there."""
    with zipfile.ZipFile(bundle_functions(Target.aws_lambda()).path) as archive:
        megabytes = sum(entry.file_size for entry in archive.infolist()) / 1e6
    return {"bundle_mb_unzipped": figure(megabytes, "<= 80", megabytes <= 80)}
