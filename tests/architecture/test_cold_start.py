"""What a step's function imports: each cold start pays for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from peaker_contract.catalogue import FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """
import importlib, sys
for handler in sys.argv[1:]:
    module, name = handler.rsplit(".", 1)
    getattr(importlib.import_module(module), name)
    assert "numpy" not in sys.modules, f"{handler} imports numpy, which the forecast alone needs"
"""


def test_only_the_forecast_imports_numpy() -> None:
    others = [one.handler for one in FUNCTIONS if one.name != "forecast_load"]
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *others],
        cwd=ROOT,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT / 'functions'}:{ROOT}",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-500:]
