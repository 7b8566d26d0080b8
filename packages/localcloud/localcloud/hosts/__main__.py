"""`python -m localcloud.hosts`: build the machine images."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from localcloud.dataplane import DataPlaneError
from localcloud.hosts.images import RECIPES, ensure_image


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m localcloud.hosts", description="Build machine images.")
    parser.add_argument("image_id", nargs="*", help=f"default: all ({', '.join(RECIPES)})")
    parser.add_argument("--images", type=Path, default=Path(".localcloud/images"), help="where they are kept")
    arguments = parser.parse_args()
    try:
        for image_id in arguments.image_id or RECIPES:
            ensure_image(image_id, arguments.images)
    except DataPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
