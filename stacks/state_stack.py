"""The state stack must survive a redeployment: the ledger of what each run made, and the leases."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from stacks.constructs.keeping import data_key
from stacks.naming import Names

EXPIRY_ATTRIBUTE = "expires_at"


class StateStack(Stack):
    """One table: leases, runs, their resources and receipts (see docs/architecture.md for the keys)."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, **stack: object) -> None:
        super().__init__(scope, construct_id, **stack)  # type: ignore[arg-type]
        retain = names.environment.retain_state
        key = data_key(self, names)
        dynamodb.Table(
            self,
            "Ledger",
            table_name=names.ledger_table,
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=(
                dynamodb.TableEncryption.AWS_MANAGED
                if key is None
                else dynamodb.TableEncryption.CUSTOMER_MANAGED
            ),
            encryption_key=key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute=EXPIRY_ATTRIBUTE,
            deletion_protection=retain,
            removal_policy=RemovalPolicy.RETAIN if retain else RemovalPolicy.DESTROY,
        )
