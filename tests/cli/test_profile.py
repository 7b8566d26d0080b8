"""A profile whose credentials come from a program, through a whole command."""

from __future__ import annotations

from pathlib import Path

from tests.support.credential_program import credential_program
from tests.support.deployed_product import CLUSTER, DeployedProduct, peaker_environment


def test_a_command_asks_for_the_credentials_of_its_profile_once(
    product: DeployedProduct, tmp_path: Path
) -> None:
    program = credential_program(tmp_path, "local", "local")
    said = product.peaker(
        "doctor",
        CLUSTER,
        "--profile",
        "prod",
        environment=peaker_environment(AWS_CONFIG_FILE=str(program.config)),
    )
    assert CLUSTER in said.out, said.err
    assert program.runs == 1
