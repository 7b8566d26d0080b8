"""The only place where an alarm for people is made: each names its runbook, which must exist."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

REPOSITORY = Path(__file__).resolve().parents[2]
RUNBOOKS = REPOSITORY / "docs" / "runbooks"


# The environment's `runbook_url`, which the stage sets for all alarms in it.
RUNBOOK_URL = "peaker:runbook-url"


def runbook_description(scope: Construct, summary: str, runbook: str) -> str:
    """An alarm's description with the address of its runbook: below the environment's `runbook_url`, else the file.

    Raises ValueError when there is no `docs/runbooks/<runbook>.md`.
    """
    path = RUNBOOKS / f"{runbook}.md"
    if not path.is_file():
        raise ValueError(f"an alarm names the runbook {path.relative_to(REPOSITORY)}, which does not exist")
    base = scope.node.try_get_context(RUNBOOK_URL)
    return f"{summary} Runbook: {f'{base}/{path.name}' if base else path.relative_to(REPOSITORY)}"


class OperatorAlarm(Construct):
    """Goes off when the metric reaches the threshold in one period; tells the topic, if there is one.

    `tells_end`: for a state that lasts, whose end a person waits for. The end of a count, such as that of failed runs,
    is a period without another, and CloudWatch runs OK actions also on the way from INSUFFICIENT_DATA to OK.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        summary: str,
        runbook: str,
        metric: cloudwatch.IMetric,
        topic: sns.ITopic | None = None,
        tells_end: bool = False,
        threshold: float = 1,
        comparison: cloudwatch.ComparisonOperator = (
            cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
        ),
        evaluation_periods: int = 1,
        missing_data: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> None:
        super().__init__(scope, construct_id)
        self.alarm = cloudwatch.Alarm(
            self,
            "Alarm",
            alarm_name=name,
            alarm_description=runbook_description(self, summary, runbook),
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison,
            evaluation_periods=evaluation_periods,
            treat_missing_data=missing_data,
        )
        if topic is not None:
            self.alarm.add_alarm_action(actions.SnsAction(topic))
            if tells_end:
                self.alarm.add_ok_action(actions.SnsAction(topic))
