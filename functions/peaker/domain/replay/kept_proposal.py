"""The weekly answer about a cluster's settings: when it is due, and what is kept of it. Pure, and without numpy.

A week ends on Monday, 00:00 UTC. What is replayed ends there too, so that another look in the week sees the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from peaker.domain.planning.scaling_policy import served_quantile
from peaker_contract.cluster import ClusterSettings

from .settings_proposal import Advice, Choice, SettingsProposal, Trial

# What was unknown may be known tomorrow: a price, a first check, a few days more.
_UNKNOWN_FOR = timedelta(days=1)


class SettingsInForce(BaseModel):
    """What the cluster's settings say of it; another proposal is due when they change."""

    model_config = ConfigDict(frozen=True)

    quantile: float
    headroom: float
    keep_lead_times: float
    capacity_per_replica: float
    min_replicas: int
    max_replicas: int
    accepted_short_minutes: float | None = None


class SettingsCost(BaseModel):
    """What settings would have come to, per week on average."""

    model_config = ConfigDict(frozen=True)

    quantile: float
    headroom: float
    keep_lead_times: float
    usd: float = Field(allow_inf_nan=False)
    replica_hours: float = Field(allow_inf_nan=False)
    short_minutes: float = Field(allow_inf_nan=False)

    @property
    def choice(self) -> Choice:
        return Choice(self.quantile, self.headroom, self.keep_lead_times)


class KeptProposal(BaseModel):
    """The newest answer for one cluster. `version` grows with each write; week_ends_at None: nobody has looked yet.

    `weeks` whole weeks until `week_ends_at` were compared, with replicas that serve `capacity_per_replica` and take
    `lead_seconds`. `proposed` is None unless the advice is to change. saved_usd_per_week None: unknown; negative where
    less shortage costs more.
    """

    model_config = ConfigDict(frozen=True)

    version: int = 0
    week_ends_at: AwareDatetime | None = None
    made_at: AwareDatetime | None = None
    in_force: SettingsInForce | None = None
    advice: Advice = Advice.UNKNOWN
    reason: str = "nobody has looked yet"
    weeks: int = 0
    capacity_per_replica: float | None = Field(default=None, allow_inf_nan=False)
    lead_seconds: float | None = Field(default=None, allow_inf_nan=False)
    now: SettingsCost | None = None
    proposed: SettingsCost | None = None
    saved_usd_per_week: float | None = Field(default=None, allow_inf_nan=False)


@dataclass(frozen=True)
class Measured:
    """What the newest check reckons with: what a replica serves, in load-metric units, and how long one takes."""

    capacity_per_replica: float
    lead_seconds: float


def in_force(settings: ClusterSettings) -> SettingsInForce:
    """The settings that a proposal is about."""
    return SettingsInForce(
        quantile=served_quantile(settings.forecast).value,
        headroom=settings.forecast.headroom,
        keep_lead_times=settings.forecast.keep_lead_times,
        capacity_per_replica=settings.capacity_per_replica,
        min_replicas=settings.min_replicas,
        max_replicas=settings.max_replicas,
        accepted_short_minutes=settings.proposals.accepted_short_minutes,
    )


def week_end(now: datetime) -> datetime:
    """The Monday, 00:00 UTC, with which the last whole week ended."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=today.weekday())


def is_due(kept: KeptProposal, settings: ClusterSettings, now: datetime) -> bool:
    """Once a week, at once for other settings, and every day while the answer is not known."""
    if not settings.proposals.weekly:
        return False
    if kept.made_at is None or kept.week_ends_at != week_end(now) or kept.in_force != in_force(settings):
        return True
    return kept.advice is Advice.UNKNOWN and now - kept.made_at >= _UNKNOWN_FOR


def in_turn(clusters: list[str], now: datetime) -> list[str]:
    """All of them, every hour from another one on: one on which a look ends early keeps none from its turn for long."""
    first = int(now.timestamp() // 3600) % max(1, len(clusters))
    return [*clusters[first:], *clusters[:first]]


def unknown_proposal(
    before: KeptProposal, settings: ClusterSettings, reason: str, now: datetime
) -> KeptProposal:
    """Nothing is proposed, and why."""
    return KeptProposal(
        version=before.version,
        week_ends_at=week_end(now),
        made_at=now,
        in_force=in_force(settings),
        reason=reason,
    )


def kept_proposal(
    before: KeptProposal,
    settings: ClusterSettings,
    measured: Measured,
    found: SettingsProposal,
    replica_hour_usd: float,
    now: datetime,
) -> KeptProposal:
    """The answer as it is kept."""
    usd = found.saved_usd
    return KeptProposal(
        version=before.version,
        week_ends_at=week_end(now),
        made_at=now,
        in_force=in_force(settings),
        advice=found.advice,
        reason=found.reason,
        weeks=len(found.now.weeks),
        capacity_per_replica=measured.capacity_per_replica,
        lead_seconds=measured.lead_seconds,
        now=_cost(found.now, replica_hour_usd),
        proposed=None if found.proposed is None else _cost(found.proposed, replica_hour_usd),
        saved_usd_per_week=None if usd is None else round(usd, 4),
    )


def _cost(trial: Trial, replica_hour_usd: float) -> SettingsCost:
    return SettingsCost(
        quantile=trial.choice.quantile,
        headroom=trial.choice.headroom,
        keep_lead_times=trial.choice.keep_lead_times,
        usd=round(trial.replica_hours_a_week * replica_hour_usd, 4),
        replica_hours=round(trial.replica_hours_a_week, 2),
        short_minutes=round(trial.short_minutes_a_week, 2),
    )
