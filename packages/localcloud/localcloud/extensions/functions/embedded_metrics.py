"""CloudWatch metrics embedded in log lines (the Embedded Metric Format), as CloudWatch Logs extracts them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from localcloud.clock import CloudClock

_TOLERANCE_SECONDS = 1


def metrics_in(line: str, clock: CloudClock, ran_seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """(namespace, datum for PutMetricData) of each metric in a log line; none if it is no metric document.

    Libraries stamp the line with the machine's time. A stamp of the `ran_seconds` (real ones) for which the function
    has just run is taken for that and put on the cloud clock; any other was set on purpose and is kept.
    """
    if '"_aws"' not in line:
        return
    try:
        document = json.loads(line)
        directives = document["_aws"]["CloudWatchMetrics"]
    except (ValueError, KeyError, TypeError):
        return
    moment = _cloud_time(document["_aws"].get("Timestamp"), clock, ran_seconds)
    for directive in directives:
        for names in directive.get("Dimensions") or [[]]:
            dimensions = [{"Name": name, "Value": str(document[name])} for name in names if name in document]
            for metric in directive["Metrics"]:
                value = document.get(metric["Name"])
                if value is None:
                    continue
                yield (
                    directive["Namespace"],
                    {
                        "MetricName": metric["Name"],
                        "Unit": metric.get("Unit", "None"),
                        "Dimensions": dimensions,
                        "Timestamp": moment,
                        "Values": [float(item) for item in (value if isinstance(value, list) else [value])],
                    },
                )


def _cloud_time(milliseconds: Any, clock: CloudClock, ran_seconds: float) -> datetime:
    now = time.time()
    if not isinstance(milliseconds, int | float):
        return clock.now()
    stamp = milliseconds / 1000
    if -_TOLERANCE_SECONDS < now - stamp < ran_seconds + _TOLERANCE_SECONDS:
        return datetime.fromtimestamp(clock.epoch() - (now - stamp) * clock.scale, UTC)
    return datetime.fromtimestamp(stamp, UTC)
