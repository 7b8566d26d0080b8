"""The `peaker` command. It shares the domain with the functions, whose folder is put on the path here."""

import sys
from pathlib import Path

_FUNCTIONS = str(Path(__file__).resolve().parent.parent / "functions")
if _FUNCTIONS not in sys.path:
    sys.path.insert(0, _FUNCTIONS)
