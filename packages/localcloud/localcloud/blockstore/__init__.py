"""Volumes that are cold after a restore, and snapshots of one instant, on this machine."""

from localcloud.blockstore.daemon import build_daemon
from localcloud.blockstore.recovery import cleanup
from localcloud.blockstore.store import ColdBlockStore

__all__ = ["ColdBlockStore", "build_daemon", "cleanup"]
