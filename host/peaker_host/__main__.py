"""Entry point of the zip application and of `python3 -m peaker_host`."""

from __future__ import annotations

import sys

from peaker_host.cli import main

sys.exit(main(sys.argv[1:]))
