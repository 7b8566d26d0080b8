"""`make bench-scale`: many clusters, many replicas in one run. Figures in build/bench/scale.json.

python -m bench.scale              all parts
python -m bench.scale synth        one of them; it replaces its own figures and leaves those of others
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.faults.figures import Figures, shown, written
from bench.scale import batches, beside, simulation, synth, together, waiting

RESULT = Path(__file__).resolve().parents[2] / "build" / "bench" / "scale.json"
PARTS: Mapping[str, Callable[[], Figures]] = {
    "synth": synth.measure,
    "batches": batches.measure,
    "waiting": waiting.measure,
    "beside": beside.measure,
    "together": together.measure,
    "simulation": simulation.measure,
}


def main(arguments: Sequence[str]) -> int:
    """Returns 1 when a figure does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="default: all")
    wanted = parser.parse_args(arguments).parts or list(PARTS)
    found: dict[str, dict[str, object]] = {}
    for name in wanted:
        found.update(PARTS[name]())
        written(found, RESULT)
    shown(found)
    return 0 if all(figure["holds"] for figure in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
