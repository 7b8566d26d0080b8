"""The only place where an alarm for people is made: each names its runbook, which must exist."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

REPOSITORY = Path(__file__).resolve().parents[2]
RUNBOOKS = REPOSITORY / "docs" / "runbooks"


def runbook_description(summary: str, runbook: str) -> str:
    """An alarm's description that names `docs/runbooks/<runbook>.md`; raises ValueError if there is none."""
    path = RUNBOOKS / f"{runbook}.md"
    if not path.is_file():
        raise ValueError(f"an alarm names the runbook {path.relative_to(REPOSITORY)}, which does not exist")
    return f"{summary} Runbook: {path.relative_to(REPOSITORY)}"


class OperatorAlarm(Construct):
    """Goes off when the metric reaches the threshold in one period; tells the topic, if there is one."""

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
            alarm_description=runbook_description(summary, runbook),
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison,
            evaluation_periods=evaluation_periods,
            treat_missing_data=missing_data,
        )
        if topic is not None:
            self.alarm.add_alarm_action(actions.SnsAction(topic))
            self.alarm.add_ok_action(actions.SnsAction(topic))
