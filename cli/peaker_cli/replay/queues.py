"""The dead-letter queues of an environment: what lies in them, where its rules send, and sending again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from botocore.exceptions import ClientError

from peaker_cli.control_plane import ControlPlane
from peaker_cli.failures import ControlPlaneError
from peaker_cli.replay.dead_letter import Letter, Rule, Verdict
from peaker_contract.names import failed_invocations, named, operator_topic, undelivered

# Long enough to look at a queue and send what is in it; then others see again what was left.
HIDDEN_SECONDS = 300
AT_A_TIME = 10
# SQS API, ChangeMessageVisibility; the last is its answer 12 hours after the first receive.
NO_LONGER_HIDDEN = (
    "AWS.SimpleQueueService.MessageNotInflight",
    "MessageNotInflight",
    "ReceiptHandleIsInvalid",
    "InvalidParameterValue",
)
NO_QUEUE = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")


class DeadLetterQueues:
    """Reads and changes them as the person who types."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._sqs = control.client("sqs")
        self._events = control.client("events")

    def rules(self) -> list[Rule]:
        """Of this environment, with their targets. Raises ControlPlaneError when there is none."""
        prefix = named(self._control.environment, "")
        pages = self._events.get_paginator("list_rules").paginate(NamePrefix=prefix)
        found = [
            Rule(
                str(one["Name"]),
                str(one["Arn"]),
                one.get("State") != "DISABLED",
                self._events.list_targets_by_rule(Rule=one["Name"])["Targets"],
            )
            for page in pages
            for one in page["Rules"]
        ]
        if not found:
            raise ControlPlaneError(self._control.not_deployed("no rules"))
        return found

    def names(self, rules: Sequence[Rule]) -> list[str]:
        """Of all queues of these rules and the environment's functions; of its pages, where an address gets them."""
        environment = self._control.environment
        pages = undelivered(operator_topic(environment))
        return [
            *(undelivered(rule.name) for rule in rules),
            failed_invocations(environment),
            *([pages] if self._found_url(pages) else []),
        ]

    def count(self, queue: str) -> tuple[int, int]:
        """(lying there, hidden because somebody has just received them), as SQS counts: about a minute late."""
        wanted = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self._sqs.get_queue_attributes(QueueUrl=self._url(queue), AttributeNames=wanted)
        visible, hidden = (int(answer["Attributes"].get(name, 0)) for name in wanted)
        return visible, hidden

    def take(self, queue: str, counted: int) -> Iterator[Letter]:
        """Each once, the oldest first as far as SQS gives them so; hidden from others until put back or deleted.

        One answer need not hold all: asks until there are as many as were counted, or no more.
        """
        url, seen = self._url(queue), set[str]()
        while len(seen) < max(1, counted):
            answer = self._sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=AT_A_TIME,
                VisibilityTimeout=HIDDEN_SECONDS,
                WaitTimeSeconds=1,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["SentTimestamp"],
            )
            new = [one for one in answer.get("Messages", ()) if one["MessageId"] not in seen]
            if not new:
                return
            for one in new:
                seen.add(one["MessageId"])
                yield Letter(
                    queue=queue,
                    message_id=one["MessageId"],
                    receipt=one["ReceiptHandle"],
                    body=one["Body"],
                    attributes={
                        name: str(value.get("StringValue", ""))
                        for name, value in one.get("MessageAttributes", {}).items()
                    },
                    sent_at=datetime.fromtimestamp(int(one["Attributes"]["SentTimestamp"]) / 1000, UTC),
                )

    def put_back(self, letter: Letter) -> None:
        """Others see it again at once, or it was shown again, or deleted, while somebody looked at it for long."""
        try:
            self._sqs.change_message_visibility(
                QueueUrl=self._url(letter.queue), ReceiptHandle=letter.receipt, VisibilityTimeout=0
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in NO_LONGER_HIDDEN:
                raise

    def delete(self, letter: Letter) -> None:
        """It is gone for good."""
        self._sqs.delete_message(QueueUrl=self._url(letter.queue), ReceiptHandle=letter.receipt)

    def send(self, verdict: Verdict) -> None:
        """To its target, which has taken it when this returns. Raises ClientError and BotoCoreError.

        A workflow is started under a name made of the event's id: what was started before is not started twice. A
        function is called as the rule calls it, without waiting; each can run twice.
        """
        service = verdict.target.split(":")[2]
        if service == "lambda":
            self._control.client("lambda").invoke(
                FunctionName=verdict.target, InvocationType="Event", Payload=verdict.payload.encode()
            )
            return
        try:
            self._control.client("stepfunctions").start_execution(
                stateMachineArn=verdict.target, name=verdict.name, input=verdict.payload
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
                raise

    def _url(self, queue: str) -> str:
        url = self._found_url(queue)
        if url is None:
            raise ControlPlaneError(self._control.not_deployed(f"no queue {queue}"))
        return url

    def _found_url(self, queue: str) -> str | None:
        try:
            return str(self._sqs.get_queue_url(QueueName=queue)["QueueUrl"])
        except ClientError as error:
            if error.response["Error"]["Code"] not in NO_QUEUE:
                raise
            return None
