"""Measurements that can be repeated: `python -m bench.<name>` prints tables and writes build/bench/<name>.json."""

import sys
from pathlib import Path

# Functions and host package are built and delivered, not installed: their folders are put on the path here.
for _folder in ("functions", "host"):
    _path = str(Path(__file__).resolve().parent.parent / _folder)
    if _path not in sys.path:
        sys.path.insert(0, _path)
