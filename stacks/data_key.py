"""The key of what an environment keeps, where `data_key_arn` names one: who uses it, and what its policy must say.

`python -m stacks.data_key prod` prints the statements that the key's policy needs. AWS's services act as themselves
there, which no role's policy can allow: without them an alarm cannot page, and what EventBridge or SNS cannot deliver
is lost. Sources: the guides of SNS ("Key management", "Dead-letter queues"), SQS ("Key management"), CloudWatch Logs
("Encrypt log data"), EventBridge ("Using dead-letter queues"), DynamoDB ("Encryption at rest: usage notes").
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from environments.schema import EnvironmentFileError, load_environment
from stacks.naming import Names
from stacks.rights.data import SEND

LOGS = ("Encrypt", "Decrypt", "ReEncryptFrom", "ReEncryptTo", "GenerateDataKey", "DescribeKey")


def key_policy(names: Names) -> dict[str, Any]:
    """The statements that the policy of the key needs: the account's own policies count, and four services act."""
    environment = names.environment
    of_account = {"StringEquals": {"aws:SourceAccount": environment.account}}
    log_groups = [
        names.arn("logs", f"log-group:{begin}/{names.prefix}-*")
        for begin in ("/aws/lambda", "/aws/vendedlogs/states")
    ]
    return {
        "Version": "2012-10-17",
        "Statement": [
            _allow(
                "PoliciesOfTheAccount",
                {"AWS": f"arn:{environment.partition}:iam::{environment.account}:root"},
                ("*",),
            ),
            _allow("AlarmsPublish", {"Service": "cloudwatch.amazonaws.com"}, SEND, of_account),
            # EventBridge tells KMS no source account and no source ARN: a condition on one would let it in never.
            _allow("DeadLettersOfRules", {"Service": "events.amazonaws.com"}, SEND),
            _allow("DeadLettersOfPages", {"Service": "sns.amazonaws.com"}, SEND, of_account),
            _allow(
                "LogGroups",
                {"Service": f"logs.{environment.region}.amazonaws.com"},
                LOGS,
                {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": log_groups}},
            ),
        ],
    }


def _allow(
    sid: str, principal: dict[str, str], actions: Sequence[str], condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Principal": principal,
        "Action": [f"kms:{one}" for one in actions],
        "Resource": "*",
        **({"Condition": condition} if condition else {}),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the policy; returns the exit status, 2 for an environment that cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m stacks.data_key", description=__doc__.split("\n\n")[0])
    parser.add_argument("environment", help="environments/<environment>.yaml")
    try:
        names = Names(load_environment(parser.parse_args(arguments).environment))
    except EnvironmentFileError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(key_policy(names), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
