"""The `peaker` command. It shares code with the functions and the hosts, whose folders are put on the path here."""

import sys
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent
for _folder in ("functions", "host"):
    if str(_CHECKOUT / _folder) not in sys.path:
        sys.path.insert(0, str(_CHECKOUT / _folder))
