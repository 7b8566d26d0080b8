"""What `propose_settings` said last of a cluster, as `peaker status` shows it. Pure; by Peaker's own record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replay.kept_proposal import KeptProposal, SettingsCost, in_force
from peaker.domain.replay.settings_proposal import Advice

from peaker_contract.cluster import ClusterSettings


@dataclass(frozen=True)
class WeekWithSettings:
    """What settings would have come to, per week on average."""

    quantile: float
    headroom: float
    keep_lead_times: float
    usd: float
    replica_hours: float
    short_minutes: float


@dataclass(frozen=True)
class ProposedSettings:
    """`advice` is change, stay or unknown. The rest is None where it is unknown; `proposed` also where they may stay.

    saved_usd_per_week is negative where the proposed settings cost more, for less shortage. `check` is the command that
    replays the same load. `outdated`: the settings were changed since, and the next look says it anew.
    """

    advice: str
    reason: str
    made_at: datetime
    weeks: int
    week_ends_at: datetime
    now: WeekWithSettings | None
    proposed: WeekWithSettings | None
    saved_usd_per_week: Reading
    check: str | None
    outdated: bool

    @property
    def lines(self) -> tuple[str, ...]:
        """For a person: what would have been cheaper and by how much, of which weeks, and how to look closer."""
        old = "; the settings were changed since, the next look says it anew" if self.outdated else ""
        if self.now is None or isinstance(self.saved_usd_per_week, Unknown):
            return (f"nothing is proposed: {self.reason}{old}",)
        of = f"{self.weeks} weeks until {self.week_ends_at:%d %b}"
        if self.proposed is None:
            return (f"{_named(self.now)} stay ({of}): {self.reason}{old}",)
        saved = self.saved_usd_per_week.value
        short = (
            f"{self.proposed.short_minutes:,.0f} min short a week instead of {self.now.short_minutes:,.0f}"
        )
        cost = f"${abs(saved):,.2f} {'less' if saved >= 0 else 'more'} a week"
        return (
            f"{_named(self.proposed)} would have cost {cost} than {_named(self.now)} ({of}), {short}{old}",
            f"{self.check}",
        )


def proposed_settings(
    kept: KeptProposal | Unknown, settings: ClusterSettings, environment: str
) -> ProposedSettings | Unknown | None:
    """None for a cluster that wants no proposals, and before the first look."""
    if isinstance(kept, Unknown):
        return kept
    if not settings.proposals.weekly or kept.made_at is None or kept.week_ends_at is None:
        return None
    saved = kept.saved_usd_per_week
    return ProposedSettings(
        advice=kept.advice.value,
        reason=kept.reason,
        made_at=kept.made_at,
        weeks=kept.weeks,
        week_ends_at=kept.week_ends_at,
        now=_week(kept.now),
        proposed=_week(kept.proposed) if kept.advice is Advice.CHANGE else None,
        saved_usd_per_week=Unknown(kept.reason) if saved is None else Known(saved, kept.made_at),
        check=_check(kept, settings.name, environment),
        outdated=kept.in_force != in_force(settings),
    )


def _check(kept: KeptProposal, cluster: str, environment: str) -> str | None:
    if kept.capacity_per_replica is None or kept.lead_seconds is None:
        return None
    return (
        f"peaker backtest --cluster {cluster} --env {environment} --capacity {kept.capacity_per_replica:g} "
        f"--lead-minutes {kept.lead_seconds / 60:.0f}"
    )


def _week(cost: SettingsCost | None) -> WeekWithSettings | None:
    return None if cost is None else WeekWithSettings(**cost.model_dump())


def _named(week: WeekWithSettings) -> str:
    return f"quantile {week.quantile:g}, headroom {week.headroom:g}, keep_lead_times {week.keep_lead_times:g}"
