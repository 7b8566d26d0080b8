"""The operators' topic, by which alarms page people too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated
from peaker_contract.errors import OperatorsUnreachable

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

# A subject is ASCII without control characters, at most so long (botocore, sns:Publish).
LONGEST_SUBJECT = 100


class SnsOperators:
    """Port Operators. `topic_arn` is empty where there is no topic."""

    def __init__(self, sns: SNSClient, topic_arn: str) -> None:
        self._sns = sns
        self._topic_arn = topic_arn

    def tell(self, subject: str, text: str) -> None:
        if not self._topic_arn:
            raise OperatorsUnreachable("alarm_email is not set: there is nobody to tell")
        with translated("sns:Publish"):
            self._sns.publish(TopicArn=self._topic_arn, Subject=subject[:LONGEST_SUBJECT], Message=text)
