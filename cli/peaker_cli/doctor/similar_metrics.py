"""Similar metrics are CloudWatch's list under a load metric's name: the metric itself, or those that it may
be taken for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peaker_contract.load_settings import LoadMetricSettings

# botocore, `ListMetrics`: so many of a metric's dimensions can be asked for at once.
_MOST_FILTERS = 10


def similar_metrics(client: Any, metric: LoadMetricSettings) -> list[dict[str, str]]:
    """The dimensions of this metric alone where it is listed, else those of the first 500 of its name.

    Those that nobody wrote for two weeks are not listed.
    """
    name = {"Namespace": metric.namespace, "MetricName": metric.name}
    wanted = dict(metric.dimensions)
    filters = [{"Name": key, "Value": value} for key, value in wanted.items()][:_MOST_FILTERS]
    # By its dimensions: under AWS's own names an account may have thousands.
    pages = client.get_paginator("list_metrics").paginate(**name, Dimensions=filters)
    if any(_dimensions(one) == wanted for page in pages for one in page["Metrics"]):
        return [wanted]
    return [_dimensions(one) for one in client.list_metrics(**name)["Metrics"]]


def _dimensions(found: Mapping[str, Any]) -> dict[str, str]:
    return {one["Name"]: one["Value"] for one in found["Dimensions"]}
