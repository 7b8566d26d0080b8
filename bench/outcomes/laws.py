"""How long AWS takes for what it promises no time for: a median, a p90, and now and then much longer.

Sources: EC2 user guide (launch, attach), EBS user guide ("Create Amazon EBS snapshots", "Initialize Amazon EBS
volumes"), Systems Manager user guide (delivery of commands), AWS Support in aws-load-balancer-controller#1834 (targets
of a network load balancer take 3 to 5 minutes). Nothing here was measured on AWS; where no source has a number it is
a wide guess.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

# Standard deviations from the median to the 90th percentile of a normal distribution.
_P90 = 1.2816


def spread(dice: random.Random, sigma: float) -> float:
    """A factor around 1, lognormal; `sigma` 0.1 is about a tenth."""
    return math.exp(dice.gauss(0.0, sigma))


@dataclass(frozen=True)
class Latency:
    """Seconds, lognormal by its median and p90; a share of the calls takes `tail_times` as long."""

    median: float
    p90: float
    tail_share: float = 0.03
    tail_times: float = 3.0

    def draw(self, dice: random.Random) -> float:
        seconds = self.median * spread(dice, math.log(self.p90 / self.median) / _P90)
        return seconds * (self.tail_times if dice.random() < self.tail_share else 1.0)


INSTANCE_RUNS = Latency(18, 35)
AGENT_ANSWERS = Latency(40, 70)
VOLUME_MADE = Latency(4, 9)
VOLUME_ATTACHED = Latency(6, 14, tail_times=5)
INSTANCE_STOPS = Latency(45, 110)
COMMAND_DELIVERED = Latency(1.2, 3.0)
COLD_START = Latency(1.4, 2.5, tail_share=0.02)
NLB_ACTS = Latency(210, 280, tail_share=0.02, tail_times=1.5)
DNS_CHECKED = Latency(100, 160, tail_share=0.02, tail_times=1.5)
# A function of which no call came for so long starts cold.
WARM_SECONDS = 600.0
# Of what a volume brings in without a paid rate: from volume to volume, and how often one is a third slower.
HYDRATION_SIGMA = 0.10
SLOW_VOLUME_SHARE = 0.08
SLOW_VOLUME_RATE = 2 / 3
# "Within 10 % of the rate in 99 % of cases": 2.6 standard deviations of a normal distribution.
PAID_RATE_SIGMA = 0.1 / 2.58
SNAPSHOT_SIGMA = 0.15
# Half an hour of burst at the instance's best bandwidth, on a type that has any.
BURST_SECONDS = 1800.0


def default_rate(dice: random.Random, cluster_mib_per_s: float) -> float:
    """What one new volume brings in, MiB/s, around what its cluster's volumes bring in as a rule."""
    slow = SLOW_VOLUME_RATE if dice.random() < SLOW_VOLUME_SHARE else 1.0
    return cluster_mib_per_s * spread(dice, HYDRATION_SIGMA) * slow


def paid_rate(dice: random.Random, mib_per_s: float) -> float:
    """The same of a volume with an initialization rate."""
    return mib_per_s * max(0.5, dice.gauss(1.0, PAID_RATE_SIGMA))
