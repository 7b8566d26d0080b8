"""`python -m statemachines`: write every workflow out to build/asl/, as a synth does."""

from __future__ import annotations

import sys

from statemachines.expansion import expand, workflow_names, write_asl
from statemachines.reading import WorkflowSourceError


def main() -> int:
    """Returns the exit status: 0; 2 for a source that cannot be expanded, told on stderr."""
    try:
        for name in workflow_names():
            print(write_asl(name, expand(name)))
    except WorkflowSourceError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
