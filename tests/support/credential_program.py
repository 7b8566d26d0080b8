"""A profile whose credentials come from a program (a vault, a company's log-in): a prompt each time it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CredentialProgram:
    """The profile `prod` in `config`, which names a program that counts its runs."""

    config: Path
    _runs: Path

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0


def credential_program(folder: Path, key: str, secret: str) -> CredentialProgram:
    """Written into the folder, as `give`, `runs` and `config`."""
    program, runs, config = folder / "give", folder / "runs", folder / "config"
    given = json.dumps({"Version": 1, "AccessKeyId": key, "SecretAccessKey": secret})
    program.write_text(f"#!/bin/sh\necho run >> {runs}\necho '{given}'\n")
    program.chmod(0o755)
    config.write_text(f"[profile prod]\ncredential_process = {program}\n")
    return CredentialProgram(config, runs)
