"""Leading metrics: what rises before the load does, such as logins; when that counts, and what a forecast makes of it.

Pure, on numpy. series: a metric on the load's steps, and how far it is above its usual; lag: how long before the load
it rises; learning: what that foretells, and whether it is proven; with_leading: forecasts that reckon with it.
"""

from .learning import LearnedMetric, learn_metric
from .series import LeadingMetric, on_load_steps, unknown_metric
from .with_leading import LEADING_REASON, forecast_with_leading, rolling_with_leading

__all__ = [
    "LEADING_REASON",
    "LeadingMetric",
    "LearnedMetric",
    "forecast_with_leading",
    "learn_metric",
    "on_load_steps",
    "rolling_with_leading",
    "unknown_metric",
]
