"""Times of metrics in log lines, on a cloud clock that is not far from the machine's."""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest

from localcloud.clock import CloudClock
from localcloud.extensions.functions.embedded_metrics import metrics_in


def moment_of(stamp: float, clock: CloudClock) -> float:
    directive = {"Namespace": "Shop", "Dimensions": [[]], "Metrics": [{"Name": "Orders"}]}
    line = json.dumps({"_aws": {"Timestamp": stamp * 1000, "CloudWatchMetrics": [directive]}, "Orders": 1})
    [(_, datum)] = metrics_in(line, clock, ran_seconds=3)
    found = datum["Timestamp"]
    assert isinstance(found, datetime)
    return found.timestamp()


def test_a_time_that_was_set_on_purpose_is_kept_while_the_cloud_is_minutes_ahead() -> None:
    """It was taken for the machine's, and lay eleven hours in the future at sixty times its speed."""
    for minutes in (10, -10):
        stamp = time.time() + minutes * 60
        assert moment_of(stamp, CloudClock(scale=60)) == pytest.approx(stamp)


def test_a_stamp_of_the_machines_time_is_put_on_the_clouds() -> None:
    clock = CloudClock(scale=60)
    assert moment_of(time.time() - 1, clock) <= clock.epoch()
