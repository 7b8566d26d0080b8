"""A profile whose credentials come from a program (a vault, a company's log-in): a prompt each time it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.deployed_product import CLUSTER, DeployedProduct, peaker_environment


@pytest.mark.parametrize("command", ["plan", "status", "doctor"])
def test_a_command_asks_for_the_credentials_of_its_profile_once(
    product: DeployedProduct, tmp_path: Path, command: str
) -> None:
    runs = tmp_path / "runs"
    program = tmp_path / "give"
    program.write_text(
        f"#!/bin/sh\necho run >> {runs}\n"
        'echo \'{"Version": 1, "AccessKeyId": "local", "SecretAccessKey": "local"}\'\n'
    )
    program.chmod(0o755)
    (tmp_path / "config").write_text(f"[profile prod]\ncredential_process = {program}\n")
    said = product.peaker(
        command,
        CLUSTER,
        "--profile",
        "prod",
        environment=peaker_environment(AWS_CONFIG_FILE=str(tmp_path / "config")),
    )
    assert CLUSTER in said.out, said.err
    assert runs.read_text() == "run\n"
