"""Route 53's CLOUDWATCH_METRIC health checks: healthy while their alarm is OK.

Route 53 follows the data of the alarm's metric; here it follows the alarm, which is evaluated once a cloud minute.
A deleted check's CallerReference stays taken, as on AWS for some days. Checks of other types are never probed and
are healthy; a record whose check was deleted is unhealthy, where AWS says that it cannot be predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.responses import ActionResult
from moto.route53.exceptions import Route53ClientError
from moto.route53.models import HealthCheck, Route53Backend, route53_backends
from moto.route53.responses import Route53

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

ON_ALARM = "CLOUDWATCH_METRIC"


class HealthChecks:
    """What moto does not keep of health checks, and how they stand."""

    def __init__(self, cloud: OpenCloud) -> None:
        self._cloud = cloud
        self._backend: Route53Backend = route53_backends[cloud.settings.account_id]["aws"]
        self._asked: dict[str, Mapping[str, Any]] = {}  # by CallerReference, of deleted ones too
        self._last_known: dict[str, bool] = {}

    def known(self, reference: str, config: Mapping[str, Any]) -> Any | None:
        """The check that the same request made before. Raises HealthCheckAlreadyExists and InvalidInput."""
        if reference not in self._asked:
            self._check(config)
            self._asked[reference] = config
            return None
        found = [one for one in self._backend.health_checks.values() if one.caller_reference == reference]
        if not found or self._asked[reference] != config:
            raise Route53ClientError(
                "HealthCheckAlreadyExists",
                f"A health check with the CallerReference {reference} already exists.",
            )
        return found[0]

    def config_of(self, check: Any) -> dict[str, Any] | None:
        """HealthCheckConfig of a check on an alarm; None for other types."""
        asked = self._asked.get(check.caller_reference, {})
        return dict(asked) if asked.get("Type") == ON_ALARM else None

    def is_healthy(self, health_check_id: str | None) -> bool:
        """As Route 53 counts a record with that health check, or without any."""
        if health_check_id is None:
            return True
        check = self._backend.health_checks.get(health_check_id)
        if check is None:
            return False
        config = self.config_of(check)
        return True if config is None else self._by_alarm(health_check_id, config)

    def _by_alarm(self, health_check_id: str, config: Mapping[str, Any]) -> bool:
        alarm = self._alarm(config)
        state = "INSUFFICIENT_DATA" if alarm is None else alarm.state_value
        if state == "INSUFFICIENT_DATA":
            otherwise = config.get("InsufficientDataHealthStatus", "LastKnownStatus")
            return (
                self._last_known.get(health_check_id, True)
                if otherwise == "LastKnownStatus"
                else otherwise == "Healthy"
            )
        healthy = (state == "OK") != bool(config.get("Inverted"))
        self._last_known[health_check_id] = healthy
        return healthy

    def _alarm(self, config: Mapping[str, Any]) -> Any | None:
        wanted = config["AlarmIdentifier"]
        alarms = cloudwatch_backends[self._cloud.settings.account_id][wanted["Region"]].alarms
        return alarms.get(wanted["Name"])

    def _check(self, config: Mapping[str, Any]) -> None:
        if config["Type"] != ON_ALARM:
            return
        if not config.get("AlarmIdentifier"):
            raise Route53ClientError(
                "InvalidInput", f"AlarmIdentifier is required for health checks of {ON_ALARM}."
            )
        if self._alarm(config) is None:
            name = config["AlarmIdentifier"]["Name"]
            raise Route53ClientError("InvalidInput", f"The CloudWatch alarm {name} does not exist.")


def install(cloud: OpenCloud) -> HealthChecks:
    """Make health checks on alarms, in moto's place."""
    checks = HealthChecks(cloud)

    def create(self: Any) -> ActionResult:
        if self.current_account != cloud.settings.account_id:
            return original_create(self)
        known = checks.known(self._get_param("CallerReference"), self._get_param("HealthCheckConfig"))
        return original_create(self) if known is None else ActionResult({"HealthCheck": known})

    def delete(self: Any, health_check_id: str) -> None:
        self.get_health_check(health_check_id)
        original_delete(self, health_check_id)

    def config(self: Any) -> dict[str, Any]:
        on_alarm = checks.config_of(self)
        return moto_config(self) if on_alarm is None else on_alarm

    moto_config: Callable[[Any], dict[str, Any]] = vars(HealthCheck)["health_check_config"].fget
    original_create: Callable[[Any], ActionResult] = cloud.patch(Route53, "create_health_check", create)
    original_delete: Callable[..., None] = cloud.patch(Route53Backend, "delete_health_check", delete)
    cloud.patch(HealthCheck, "health_check_config", property(config))
    return checks
