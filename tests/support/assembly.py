"""What synth writes for an environment, made once for all test processes that look at the same sources."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from importlib.metadata import version
from pathlib import Path

from stacks.application import build_app

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "assemblies"
# Whatever synth reads, or runs.
SOURCES = (
    *("environments", "functions", "host", "peaker_contract", "ssm_documents", "stacks", "statemachines"),
    *("cdk.json", "requirements.txt"),
)


def assembly(environment: str, output: Path) -> Path:
    """Fill `output` with what `synth` writes for the environment, its functions without their dependencies.

    Nothing is checked: that every environment passes the checks is in tests/infrastructure/test_synth.py.
    """
    kept = KEPT / f"{environment}-{_digest_of_sources()}"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f".{environment}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            for older in KEPT.glob(f"{environment}-*"):
                shutil.rmtree(older)
            written = KEPT / f".{environment}"
            shutil.rmtree(written, ignore_errors=True)
            build_app(
                environment=environment, output=written, context={"bundle": "sources"}, checked=False
            ).synth()
            written.rename(kept)
        shutil.copytree(kept, output)
    return output


def _digest_of_sources() -> str:
    digest = hashlib.sha256(version("aws-cdk-lib").encode())
    for name in SOURCES:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
