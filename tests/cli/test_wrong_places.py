"""What a person gets who asks for the wrong thing, in the wrong place, or without credentials: one line, status 1.

Of `status` a monitoring plugin gets it: on standard output, status 3.
"""

from __future__ import annotations

import socket

import pytest

from tests.support.deployed_product import DeployedProduct, Said, peaker

# One of each kind: by Step Functions, by the ledger, by the settings, by the hosts, over all clusters.
EVERY_COMMAND = [
    ("plan", "orders"),
    ("receipt", "scale-out-orders-20261121T014000-9f3a"),
    ("prepare-base", "orders", "i-0123456789abcdef0"),
    ("doctor", "orders"),
    ("status",),
]
OF_A_CLUSTER = [one for one in EVERY_COMMAND if "orders" in one]


def assert_one_line(command: tuple[str, ...], said: Said, *words: str) -> None:
    status, begins, line, other = 1, "peaker: ", said.err, said.out
    if command[0] == "status":
        status, begins, line, other = 3, "UNKNOWN: ", said.out, said.err
    assert (said.status, other) == (status, ""), said
    assert line.startswith(begins)
    assert line.count("\n") == 1, line
    assert "Traceback" not in line
    assert "stackTrace" not in line
    for word in words:
        assert word in line, line


@pytest.mark.parametrize("command", OF_A_CLUSTER, ids=lambda one: one[0])
def test_a_cluster_that_there_is_not_is_named_with_those_that_there_are(
    product: DeployedProduct, command: tuple[str, ...]
) -> None:
    name, _, *more = command
    assert_one_line(command, product.peaker(name, "ordres", *more), '"ordres"', "orders")


def test_a_run_that_there_is_not_leads_to_the_list(product: DeployedProduct) -> None:
    command = ("receipt", "scale-out-orders-20201121T014000-9f3a")
    assert_one_line(command, product.peaker(*command), "no run", "peaker runs CLUSTER")


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=" ".join)
def test_credentials_that_have_expired_are_to_be_renewed(
    product: DeployedProduct, command: tuple[str, ...]
) -> None:
    for target in ("stepfunctions:ListStateMachines", "dynamodb:Query", "dynamodb:GetItem", "ssm:GetParameter",
                   "ssm:GetParametersByPath"):  # fmt: skip
        product.cloud.faults.add(target, "ExpiredTokenException", times=-1)
    assert_one_line(command, product.peaker(*command), "ExpiredTokenException", "renew them")


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=" ".join)
def test_a_region_without_a_deployment_is_named(product: DeployedProduct, command: tuple[str, ...]) -> None:
    where = ("--env", "shop", "--region", "eu-west-1", "--endpoint", product.cloud.endpoint_url)
    told = ("none",) if command[0] == "prepare-base" else ("shop", "eu-west-1", "Deploy it")
    assert_one_line(command, peaker(*command, *where), *told)


@pytest.mark.parametrize("command", [("plan", "orders"), ("status",)], ids=" ".join)
def test_an_address_where_nobody_listens_is_named(command: tuple[str, ...]) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        where = ("--env", "local", "--region", "us-east-1", "--endpoint", address)
        assert_one_line(command, peaker(*command, *where), address, "--endpoint")


@pytest.mark.parametrize("command", [("plan", "orders"), ("status",)], ids=" ".join)
def test_missing_credentials_are_asked_for(command: tuple[str, ...]) -> None:
    where = ("--env", "prod", "--region", "us-east-1")
    assert_one_line(command, peaker(*command, *where), "no AWS credentials", "--profile")
