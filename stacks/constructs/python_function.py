"""The only place where a Lambda function is made: it decides runtime, role, logs, tracing, environment."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from environments.schema import Environment
from peaker_contract.steps import FunctionDefinition
from stacks.constructs.acknowledgements import acknowledge, role_that_may
from stacks.constructs.keeping import log_group
from stacks.naming import Names
from stacks.rights.statement import Statement

# Lambda's own most, after one and two more minutes.
INVOCATION_RETRIES = 2
# Each event says no more than "look now", and is followed by newer ones: so long it may wait while Lambda throttles.
# Three tries of three minutes and both pauses fit in.
LONGEST_INVOCATION_AGE_SECONDS = 900


def runtime(settings: Environment) -> lambda_.Runtime:
    """Python 3.13 on AWS; on the local cloud the Python that runs this synth, and later the functions."""
    if not settings.is_local:
        return lambda_.Runtime.PYTHON_3_13
    return lambda_.Runtime(
        f"python{sys.version_info.major}.{sys.version_info.minor}", lambda_.RuntimeFamily.PYTHON
    )


def architecture(settings: Environment) -> lambda_.Architecture:
    """Returns arm64 on AWS; on the local cloud the processor of this machine."""
    on_arm = not settings.is_local or platform.machine() in ("aarch64", "arm64")
    return lambda_.Architecture.ARM_64 if on_arm else lambda_.Architecture.X86_64


class PythonFunction(Construct):
    """One function of the catalogue, with a role of its own that holds just these statements.

    An invocation without a caller that waits, and which fails for the last time, goes to `failed_invocations`.
    """

    def __init__(
        self,
        scope: Construct,
        definition: FunctionDefinition,
        *,
        names: Names,
        code: lambda_.Code,
        environment: Mapping[str, str],
        statements: Sequence[Statement],
        failed_invocations: sqs.IQueue | None = None,
    ) -> None:
        super().__init__(scope, definition.pascal_name)
        settings = names.environment
        name = names.function(definition.name)
        role, policy = role_that_may(
            self,
            service="lambda.amazonaws.com",
            description=f"{name}: {definition.purpose}",
            statements=statements,
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            description=definition.purpose,
            runtime=runtime(settings),
            architecture=architecture(settings),
            handler=definition.handler,
            code=code,
            role=role.without_policy_updates(),
            memory_size=definition.memory_mib,
            timeout=Duration.seconds(definition.timeout_seconds),
            environment=dict(environment),
            tracing=lambda_.Tracing.ACTIVE,
            logging_format=lambda_.LoggingFormat.JSON,
            log_group=log_group(self, names, f"/aws/lambda/{name}"),
        )
        self.function.node.add_dependency(policy)
        if failed_invocations is not None:
            lambda_.CfnEventInvokeConfig(
                self,
                "Asynchronous",
                function_name=self.function.function_name,
                qualifier="$LATEST",
                maximum_retry_attempts=INVOCATION_RETRIES,
                maximum_event_age_in_seconds=LONGEST_INVOCATION_AGE_SECONDS,
                destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
                    on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(
                        destination=failed_invocations.queue_arn
                    )
                ),
            )
        acknowledge(
            self.function,
            "AwsSolutions-L1",
            "The runtime is pinned to the Python that the tests and the bundled wheels are for; "
            "environments/*.yaml moves it.",
        )
