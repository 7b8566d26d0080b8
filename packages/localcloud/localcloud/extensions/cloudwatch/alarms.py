"""CloudWatch metric alarms that are evaluated, on the cloud clock, and act when their state changes.

Once a cloud minute every alarm looks at its last periods, which end at the last full minute (or at the last full
period, for periods under a minute). Missing data is treated by the rules of the CloudWatch user guide,
"Configuring how CloudWatch alarms treat missing data".
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from localcloud.extensions.cloudwatch.alarm_rules import (
    EVALUATION_SECONDS,
    AlarmRule,
    Verdict,
    dimension_pairs,
    judge,
    reason_of,
    rule_of,
    window_of,
)
from localcloud.extensions.events.eventbridge import Delivery, deliver

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)


class AlarmEvaluator:
    """Evaluates every alarm once a cloud minute, and acts on transitions."""

    def __init__(self, cloud: OpenCloud) -> None:
        self._cloud = cloud
        self._unsupported: set[str] = set()

    def run(self) -> None:
        clock = self._cloud.clock
        while not self._cloud.closing.is_set():
            self.evaluate()
            following = (clock.epoch() // EVALUATION_SECONDS + 1) * EVALUATION_SECONDS
            clock.wait_until(following, stop=self._cloud.closing.is_set)
            self._cloud.closing.wait(0.05)  # at the highest speeds a minute is no time at all

    def evaluate(self) -> None:
        """Evaluate all alarms now, each on its own: one that fails keeps no other from its turn."""
        for alarm in _alarms(self._cloud):
            with self._cloud.errors_logged(f"evaluation of alarm {alarm.name}"):
                self._evaluate(alarm)

    def _evaluate(self, alarm: Any) -> None:
        try:
            rule = rule_of(alarm)
        except ValueError as error:
            if alarm.name not in self._unsupported:
                self._unsupported.add(alarm.name)
                log.error("alarm %s stays as it is: %s", alarm.name, error)
            return
        window, end = window_of(self._cloud.metrics, rule, self._cloud.clock.epoch())
        verdict = judge(rule, window, alarm.state_value)
        if verdict.state != alarm.state_value:
            alarm.update_state(reason_of(rule, verdict), _reason_data(rule, verdict, end), verdict.state)


def _reason_data(rule: AlarmRule, verdict: Verdict, end: float) -> str:
    known = [value for value in verdict.points if value is not None]
    return json.dumps(
        {
            "version": "1.0",
            "queryDate": _stamp(end),
            "startDate": _stamp(end - rule.evaluation_periods * rule.period),
            "statistic": rule.statistic,
            "period": rule.period,
            "recentDatapoints": known,
            "threshold": rule.threshold,
        }
    )


def _stamp(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "+0000"


def _alarms(cloud: OpenCloud) -> list[Any]:
    from moto.cloudwatch.models import cloudwatch_backends

    return list(cloudwatch_backends[cloud.settings.account_id][cloud.settings.region].alarms.values())


def _event_detail(alarm: Any, previous: dict[str, Any], at: float) -> dict[str, Any]:
    state = _state_block(alarm.state_value, alarm.state_reason, alarm.state_reason_data, at)
    return {
        "alarmName": alarm.name,
        "state": state,
        "previousState": previous,
        "configuration": {"description": alarm.description or "", "metrics": _metrics_block(alarm)},
    }


def _state_block(value: str, reason: str, reason_data: str | None, at: float) -> dict[str, Any]:
    block = {"value": value, "reason": reason, "timestamp": _stamp(at)}
    return {**block, "reasonData": reason_data} if reason_data and reason_data != "{}" else block


def _metrics_block(alarm: Any) -> list[dict[str, Any]]:
    metric = {
        "namespace": alarm.namespace,
        "name": alarm.metric_name,
        "dimensions": dimension_pairs(alarm.dimensions),
    }
    return [
        {
            "id": "m1",
            "metricStat": {"metric": metric, "period": alarm.period, "stat": alarm.statistic},
            "returnData": True,
        }
    ]


def _actions(alarm: Any) -> list[str]:
    by_state = {
        "ALARM": alarm.alarm_actions,
        "OK": alarm.ok_actions,
        "INSUFFICIENT_DATA": alarm.insufficient_data_actions,
    }
    return list(by_state[alarm.state_value] or []) if alarm.actions_enabled else []


def _act(cloud: OpenCloud, alarm: Any, detail: dict[str, Any], old_state: str) -> None:
    for arn in _actions(alarm):
        service = arn.split(":")[2]
        if service == "sns":
            message = json.dumps(_sns_message(cloud, alarm, detail, old_state))
            deliver(cloud, Delivery(alarm.alarm_arn, arn, message, service="cloudwatch.amazonaws.com"))
        else:
            log.error("alarm %s: the local cloud has no action %s", alarm.name, arn)


def _sns_message(cloud: OpenCloud, alarm: Any, detail: dict[str, Any], old_state: str) -> dict[str, Any]:
    return {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.description,
        "AWSAccountId": cloud.settings.account_id,
        "NewStateValue": alarm.state_value,
        "NewStateReason": alarm.state_reason,
        "StateChangeTime": detail["state"]["timestamp"],
        "Region": cloud.settings.region,
        "AlarmArn": alarm.alarm_arn,
        "OldStateValue": old_state,
        "Trigger": {
            "MetricName": alarm.metric_name,
            "Namespace": alarm.namespace,
            "Statistic": alarm.statistic,
            "Dimensions": [
                {"name": key, "value": value} for key, value in dimension_pairs(alarm.dimensions).items()
            ],
            "Period": alarm.period,
            "EvaluationPeriods": alarm.evaluation_periods,
            "ComparisonOperator": alarm.comparison_operator,
            "Threshold": alarm.threshold,
            "TreatMissingData": alarm.treat_missing_data or "",
        },
    }


def install(cloud: OpenCloud) -> None:
    """Evaluate alarms; announce and act on every change of state, SetAlarmState's included."""
    from moto.cloudwatch.models import Alarm, CloudWatchBackend
    from moto.cloudwatch.responses import CloudWatchResponse
    from moto.core.responses import ActionResult

    evaluator = AlarmEvaluator(cloud)
    original_put = CloudWatchBackend.put_metric_alarm
    original_update = Alarm.update_state

    def put_metric_alarm(self: Any, name: str, *rest: Any, **named: Any) -> Any:
        known = self.alarms.get(name)
        alarm = original_put(self, name, *rest, **named)
        alarm.state_value = "INSUFFICIENT_DATA"
        if known is not None:  # an update keeps the state
            for attribute in ("state_value", "state_reason", "state_reason_data", "state_updated_timestamp"):
                setattr(alarm, attribute, getattr(known, attribute))
        return alarm

    def update_state(self: Any, reason: str, reason_data: str | None, state_value: str) -> None:
        old_state, old_at = self.state_value, self.state_updated_timestamp.replace(tzinfo=UTC).timestamp()
        previous = _state_block(old_state, self.state_reason, self.state_reason_data, old_at)
        original_update(self, reason, reason_data or "{}", state_value)
        if old_state == state_value:
            return
        detail = _event_detail(self, previous, cloud.clock.epoch())
        cloud.put_event("aws.cloudwatch", "CloudWatch Alarm State Change", detail, [self.alarm_arn])
        _act(cloud, self, detail, old_state)

    def describe_alarms(self: Any) -> Any:
        """Every filter that is given holds."""
        prefix, names = self._get_param("AlarmNamePrefix"), self._get_param("AlarmNames", [])
        state, action = self._get_param("StateValue"), self._get_param("ActionPrefix")
        found = [
            alarm
            for alarm in _alarms(cloud)
            if (not prefix or alarm.name.startswith(prefix))
            and (not names or alarm.name in names)
            and state in (None, alarm.state_value)
            and (not action or any(one.startswith(action) for one in alarm.alarm_actions))
        ]
        return ActionResult({"MetricAlarms": found})

    cloud.add_action(CloudWatchResponse, "describe_alarms", describe_alarms)
    cloud.patch(CloudWatchBackend, "put_metric_alarm", put_metric_alarm)
    cloud.patch(Alarm, "update_state", update_state)
    cloud.when_ready(lambda: cloud.background("alarms", evaluator.run))
