"""Measurements that can be repeated: `python -m bench.<name>` prints tables and writes build/bench/<name>.json."""

import sys
from pathlib import Path

# The functions are packaged by the stack, not installed: their folder is put on the path here.
_FUNCTIONS = str(Path(__file__).resolve().parent.parent / "functions")
if _FUNCTIONS not in sys.path:
    sys.path.insert(0, _FUNCTIONS)
