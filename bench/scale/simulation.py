"""10,000 clusters of one account and region, and a day with a common peak: do they hit a quota, and is it fair?

    python -m bench.scale simulation

What it draws and what is the product's: peak_day.py. Nothing here has run on AWS.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.faults.figures import Figure, Figures, at_most, exactly
from bench.scale import monthly_cost
from bench.scale.call_rates import BUCKETS, busiest_minute, refused
from bench.scale.peak_day import Day, Ended, simulate

CLUSTERS, SEED = 10_000, 20261123
# One account and region each; docs/operating.md has what else an account bounds.
ACCOUNTS = 10
MOST_UNFAIR = 3.0
# Shorter than a second is no wait: it is the answer of DynamoDB.
NO_WAIT_SECONDS = 1.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so many of the values do not pass; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def waits(ended: Sequence[Ended]) -> list[float]:
    """Of those that waited at all: where most do not, the median of all would be 0 and say nothing."""
    return [one.waited for one in ended if one.waited >= NO_WAIT_SECONDS]


def unfairness(waited: Sequence[float]) -> float:
    """The p99 of the waits over their median; 1 where nobody waits."""
    return percentile(waited, 0.99) / median(waited) if waited else 1.0


def late(day: Day) -> float:
    """The share of builds that serve later than they were needed."""
    return sum(one.served > one.build.needed for one in day.ended) / len(day.ended)


def measure() -> Figures:
    """All figures; half a minute."""
    day, alone = simulate(SEED, CLUSTERS), simulate(SEED, CLUSTERS, reserving=False)
    each = CLUSTERS // ACCOUNTS
    accounts = [simulate(SEED + number, each) for number in range(ACCOUNTS)]
    alone_each = [simulate(SEED + number, each, reserving=False) for number in range(ACCOUNTS)]
    return {
        **_quotas(day, alone, accounts),
        **_fairness(day, accounts),
        **_commands(day, accounts),
        **_lateness((day, alone), (accounts, alone_each)),
        **_costs(),
    }


def _quotas(day: Day, alone: Day, accounts: Sequence[Day]) -> Figures:
    calls, calls_alone = refused(day.ended), refused(alone.ended)
    in_accounts = [refused(one.ended) for one in accounts]
    every = monthly_cost.FORECAST.every_minutes, monthly_cost.REPLICA_CHECK.every_minutes
    looks = sum(1 / (60 * minutes) for minutes in every)
    return {
        f"{CLUSTERS:,} clusters, one account: refusals by the quota of initialization rates": exactly(
            day.ebs.rejected, 0
        ),
        f"{CLUSTERS:,} clusters, one account: EC2 calls of builds refused for their rate": exactly(
            sum(calls.values()), 0
        ),
        f"{ACCOUNTS} accounts of {CLUSTERS // ACCOUNTS:,}: both together": exactly(
            sum(one.ebs.rejected for one in accounts) + sum(sum(one.values()) for one in in_accounts), 0
        ),
        "the same day without shared limits: both": _stated([alone.ebs.rejected, sum(calls_alone.values())]),
        "most of the 5,000 MiB/s in use, reservations at a time": _stated(
            [round(day.ebs.most), day.most_reservations]
        ),
        "builds that paid for a rate and had it, of those that asked": _stated(
            [sum(one.rated for one in day.ended), sum(_asked_for_a_rate(one) for one in day.ended)]
        ),
        "clusters whose scheduled looks take half of DescribeInstances' bucket": _stated(
            round(BUCKETS["DescribeInstances"][1] / 2 / looks)
        ),
    }


def _commands(day: Day, accounts: Sequence[Day]) -> Figures:
    """AWS publishes no rate for Systems Manager's calls: what is refused is sent again."""
    checks = 1 / (60 * monthly_cost.REPLICA_CHECK.every_minutes)
    found = {
        "one account, builds": busiest_minute(day.ended),
        f"{ACCOUNTS} accounts, builds, the busiest": max(
            (busiest_minute(one.ended) for one in accounts), key=lambda rates: rates["SendCommand"]
        ),
    }
    return {
        **{
            f"commands a second in the busiest minute, {where}": _stated(
                ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items())
            )
            for where, rates in found.items()
        },
        "SendCommand a second of the scheduled looks, for each 100 registered replicas": _stated(
            round(100 * checks, 2)
        ),
    }


def _fairness(day: Day, accounts: Sequence[Day]) -> Figures:
    waited = waits(day.ended)
    in_accounts = waits([one for account in accounts for one in account.ended])
    large = [one for one in day.ended if len(one.build.volumes) >= 4]
    small = [one for one in day.ended if len(one.build.volumes) == 1]
    return {
        f"{CLUSTERS:,} clusters, one account: p99 wait / median, of those that wait": at_most(
            unfairness(waited), MOST_UNFAIR
        ),
        f"{ACCOUNTS} accounts: p99 wait / median, of those that wait": at_most(
            unfairness(in_accounts), MOST_UNFAIR
        ),
        "one account: builds, those that wait, their median and p99 in minutes": _stated(
            [len(day.ended), len(waited), _minutes(median(waited or [0])), _minutes(percentile(waited, 0.99))]
        ),
        f"{ACCOUNTS} accounts: those that wait, their median and p99 in minutes": _stated(
            [
                len(in_accounts),
                _minutes(median(in_accounts or [0])),
                _minutes(percentile(in_accounts, 0.99)),
            ]
        ),
        "one account: p99 wait of builds of four volumes / of one": _stated(
            round(percentile(waits(large), 0.99) / max(1.0, percentile(waits(small), 0.99)), 2)
        ),
    }


def _lateness(one: tuple[Day, Day], many: tuple[Sequence[Day], Sequence[Day]]) -> Figures:
    of_many = [sum(late(day) for day in days) / len(days) for days in many]
    return {
        "share later than needed, one account: with shared limits, if AWS had none": _stated(
            [round(late(day), 3) for day in one]
        ),
        f"share later than needed, {ACCOUNTS} accounts: with shared limits, if AWS had none": _stated(
            [round(share, 3) for share in of_many]
        ),
    }


def _costs() -> Figures:
    found = monthly_cost.parts()
    shown = ", ".join(f"{name} {usd:.2f}" for name, usd in found.items())
    return {
        "control plane, dollars a cluster and month": _stated(f"{sum(found.values()):.2f}: {shown}"),
        "a schedule each, one Distributed Map: dollars a cluster and month": _stated(
            [round(monthly_cost.schedule_each(), 3), round(monthly_cost.distributed_map(), 3)]
        ),
    }


def _asked_for_a_rate(one: Ended) -> bool:
    return any(volume.initialization_rate_mib_per_s for volume in one.build.volumes)


def _minutes(seconds: float) -> float:
    return round(seconds / 60, 1)


def _stated(value: object) -> Figure:
    return {"value": value, "must": "stated", "holds": True}
