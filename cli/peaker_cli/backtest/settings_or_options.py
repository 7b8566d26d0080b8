"""The options of the replay: those that were given, those of the cluster's settings, and the defaults."""

from __future__ import annotations

from typing import Any

from peaker.domain.reading import Known, Unknown
from peaker.domain.service.retirement import QUIET_SECONDS
from peaker_backtest.scenario import OWN_USD_A_MONTH_DNS, Options

from peaker_cli.backtest.live_load import Deployed
from peaker_contract.cluster import ClusterSettings


def replay_options(
    asked: dict[str, float | str | None],
    deployed: Deployed | None,
    days: int,
) -> Options:
    """An option that was given wins over the cluster's settings, and these over the defaults."""
    configured: dict[str, float | str | None] = {}
    settings = deployed.settings if deployed else None
    if deployed is not None and settings is not None:
        hour = deployed.replica_hour
        configured = {
            "--capacity": settings.capacity_per_replica,
            "--min-replicas": settings.min_replicas,
            "--max-replicas": settings.max_replicas,
            "--replica-hour-usd": hour.value if isinstance(hour, Known) else None,
            "--minimum-lifetime-minutes": settings.limits.minimum_lifetime_minutes,
            "--headroom": settings.forecast.headroom,
            "--quantile": settings.forecast.quantile,
            "--time-zone": settings.time_zone,
        }
    values = {option: configured.get(option) if value is None else value for option, value in asked.items()}
    basis = {
        option: "from the cluster's settings" for option, value in configured.items() if value is not None
    }
    if deployed is not None:
        basis["--replica-hour-usd"] = (
            hour.why if isinstance(hour, Unknown) else f"by {deployed.prices.source}"
        )
    basis |= {option: "given" for option, value in asked.items() if value is not None}
    named: dict[str, Any] = {
        option.removeprefix("--").replace("-", "_"): value
        for option, value in values.items()
        if value is not None
    }
    if "capacity" in named:
        named["capacity_per_replica"] = named.pop("capacity")
    if settings is not None:
        named["rule"] = settings.forecast.rule
        named["schedule_minutes"] = settings.forecast.schedule_minutes
        named["drain_minutes"] = _drain_minutes(settings)
        if settings.read_endpoint.kind != "nlb":
            named["own_usd_a_month"] = OWN_USD_A_MONTH_DNS
    return Options(**named, days=days, given_by=basis)


def _drain_minutes(settings: ClusterSettings) -> float:
    """Returns the shortest drain: of one whose clients leave at once."""
    endpoint = settings.read_endpoint.clients_follow_within_seconds
    return (endpoint + QUIET_SECONDS + settings.retirement.idle_seconds) / 60
