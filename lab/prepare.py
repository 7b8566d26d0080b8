"""Prepares a local cloud once before its first start: the machine image and the seed dataset."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from lab.seed import Dataset, Seed, load_seed, make_seed
from localcloud.blockstore import ColdBlockStore
from localcloud.dataplane import DataPlane
from localcloud.hosts.images import ensure_image
from localcloud.hosts.instances import NamespaceHosts
from localcloud.read_endpoint import HaproxyReadEndpoints


def prepare(state_dir: Path, progress: Callable[[str], None], dataset: Dataset = Dataset()) -> Seed:
    """Make what is missing; a second call takes no time. Raises DataPlaneError with the remedy."""
    state_dir.mkdir(parents=True, exist_ok=True)
    ensure_image(dataset.server.image_id, state_dir / "images", progress)
    kept = load_seed(state_dir, dataset)
    if kept is not None and (state_dir / "pool.img").is_file():
        return kept
    started = time.monotonic()
    progress("seed dataset: about a minute")
    plane = DataPlane(ColdBlockStore(state_dir), NamespaceHosts(state_dir), HaproxyReadEndpoints(state_dir))
    try:
        kept = make_seed(plane, state_dir, dataset, lambda text: progress(f"seed dataset: {text}"))
    finally:
        plane.close()
    progress(f"seed dataset: ready in {time.monotonic() - started:.0f} s")
    return kept
