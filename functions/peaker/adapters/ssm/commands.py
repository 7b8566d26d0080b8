"""Host commands through Systems Manager."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from peaker.adapters.aws_errors import error_code, translated
from peaker.domain.decoding import understood
from peaker.domain.host_results import Agent
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus
from peaker_contract import names
from peaker_contract.errors import AwsCallRejected, AwsUnavailable, ResourceNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from mypy_boto3_ssm import SSMClient

# How long a command may wait for the agent; the run time limit is in the document.
DELIVERY_TIMEOUT_SECONDS = 600
# A function's clock and that of Systems Manager may differ by so much.
CLOCK_DIFFERENCE = timedelta(minutes=5)


class SsmCommands:
    """Port CommandRunner. Documents are named Peaker-<environment>-<document>."""

    def __init__(self, ssm: SSMClient, ssm_single_try: SSMClient, environment: str) -> None:
        self._ssm = ssm
        self._ssm_single_try = ssm_single_try
        self._environment = environment

    def agent(self, instance_id: str) -> Agent:
        with translated("ssm:DescribeInstanceInformation"):
            answer = self._ssm.describe_instance_information(
                Filters=[{"Key": "InstanceIds", "Values": [instance_id]}]
            )
        for one in answer["InstanceInformationList"]:
            status = one.get("PingStatus", "")
            return Agent(status == "Online", one.get("AgentVersion", ""), status)
        return Agent(is_online=False)

    def send(self, document: str, instance_id: str, parameters: Mapping[str, str], comment: str) -> str:
        with translated("ssm:SendCommand"):
            try:
                answer = self._ssm_single_try.send_command(
                    DocumentName=names.document(self._environment, document),
                    # A deployment may leave an older version as the default (cloudformation-coverage-roadmap#2539).
                    DocumentVersion="$LATEST",
                    InstanceIds=[instance_id],
                    Parameters={name: [value] for name, value in parameters.items()},
                    Comment=comment,
                    TimeoutSeconds=DELIVERY_TIMEOUT_SECONDS,
                )
            except ClientError as error:
                if error_code(error) != "InvalidInstanceId":
                    raise
                raise AwsUnavailable(
                    f"ssm:SendCommand: the SSM agent of {instance_id} does not answer: {error}"
                ) from error
        return answer["Command"]["CommandId"]

    def find(self, instance_id: str, comment: str, since: datetime) -> str | None:
        # ListCommands pages through 30 days of a host's commands without this.
        after = (since - CLOCK_DIFFERENCE).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        pages = self._ssm.get_paginator("list_commands").paginate(
            InstanceId=instance_id, Filters=[{"key": "InvokedAfter", "value": after}]
        )
        with translated("ssm:ListCommands"):
            commands = [one for page in pages for one in page["Commands"] if one.get("Comment") == comment]
        newest = max(commands, key=lambda one: one["RequestedDateTime"], default=None)
        return None if newest is None else newest["CommandId"]

    def outcome(self, command_id: str, instance_id: str) -> CommandOutcome:
        try:
            with translated("ssm:GetCommandInvocation"):
                answer = self._ssm.get_command_invocation(CommandId=command_id, InstanceId=instance_id)
        except ResourceNotFound:
            return CommandOutcome(CommandStatus.MISSING)
        with understood(AwsCallRejected, f"ssm:GetCommandInvocation: the status of {command_id}"):
            status = CommandStatus(answer["Status"])
        return CommandOutcome(
            status=status,
            status_details=answer.get("StatusDetails", ""),
            stdout=answer.get("StandardOutputContent", ""),
            stderr=answer.get("StandardErrorContent", ""),
        )

    def cancel(self, command_id: str, instance_id: str) -> None:
        # AWS gives no guarantee either; what ends the command for certain is that its host goes.
        with suppress(ResourceNotFound, AwsCallRejected), translated("ssm:CancelCommand"):
            self._ssm.cancel_command(CommandId=command_id, InstanceIds=[instance_id])
