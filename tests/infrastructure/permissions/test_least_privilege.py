"""Each function may do exactly what its step does: nothing is missing on AWS, and nothing is left over.

What a step does is read from its source (see step_calls.py), so a new call without its permission fails here,
not at three in the morning.
"""

from __future__ import annotations

import pytest

from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.steps import FunctionDefinition
from ssm_documents.schema import document_paths
from stacks.rights.hosts import command_statements
from stacks.rights.permissions import statements
from tests.infrastructure.permissions.step_calls import actions_of, reach_of_handler
from tests.infrastructure.permissions.test_permissions import BY_NAME, DEPLOYMENT

# Making a resource with tags, or an instance with a profile, needs more than the call itself; who sends commands may
# look for the one whose answer was lost.
IMPLIED = {
    "ssm:SendCommand": {"ssm:ListCommands"},
    "ec2:RunInstances": {"ec2:CreateTags", "iam:PassRole"},
    "ec2:CreateVolume": {"ec2:CreateTags"},
    "cloudwatch:PutMetricAlarm": {"cloudwatch:TagResource"},
}
WRITE_LEDGER = {
    f"dynamodb:{name}" for name in ("GetItem", "Query", "PutItem", "UpdateItem", "ConditionCheckItem")
}
KEEP_FORECASTS = {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem"}
# Granted on the customer-managed keys that the settings name; these environments name none.
ONLY_WITH_KEYS = {"kms:GenerateDataKeyWithoutPlaintext"}
# What the read endpoints of an environment are, and what its functions may do.
DEPLOYMENTS = {"nlb": DEPLOYMENT, "route53": BY_NAME}
# ValidateRequest runs before there is a run; CheckReplicas reads who drains; forecast_load keeps rows of its own.
LEDGER = {
    "validate_request": set[str](),
    "check_replicas": {"dynamodb:Query"},
    "refresh_prices": set[str](),
    "forecast_load": KEEP_FORECASTS,
}


def granted(definition: FunctionDefinition, kind: str) -> set[str]:
    deployment = DEPLOYMENTS[kind]
    found = [s for permission in definition.permissions for s in statements(permission, deployment)]
    found += command_statements(definition.sent_documents, deployment)
    return {action for statement in found for action in statement.actions}


def needed(definition: FunctionDefinition, kind: str) -> set[str]:
    actions = {
        action for call in reach_of_handler(definition.name).calls for action in actions_of(call, kind)
    }
    for action in list(actions):
        actions |= IMPLIED.get(action, set())
    return (actions - ONLY_WITH_KEYS) | LEDGER.get(definition.name, WRITE_LEDGER)


@pytest.mark.parametrize("kind", DEPLOYMENTS)
@pytest.mark.parametrize("definition", FUNCTIONS, ids=lambda definition: definition.name)
def test_function_may_do_exactly_what_its_step_does(definition: FunctionDefinition, kind: str) -> None:
    has, needs = granted(definition, kind), needed(definition, kind)
    missing, left_over = needs - has, has - needs
    assert not missing, f"peaker_contract/catalogue.py: {definition.name} also needs {sorted(missing)}"
    assert not left_over, f"peaker_contract/catalogue.py: {definition.name} never uses {sorted(left_over)}"


@pytest.mark.parametrize("definition", FUNCTIONS, ids=lambda definition: definition.name)
def test_function_may_send_exactly_the_documents_that_its_step_names(definition: FunctionDefinition) -> None:
    every = {path.stem for path in document_paths()}
    assert set(definition.sent_documents) == reach_of_handler(definition.name).texts & every


def test_every_port_is_read() -> None:
    """The source reader sees what it should: the calls of the two most dangerous steps."""
    assert {"compute.terminate", "storage.delete_volume"} <= reach_of_handler("undo_run").calls
    assert actions_of("storage.create_snapshots") >= {"ec2:CreateSnapshots", "ec2:DescribeVolumes"}
