"""The prices that hold for a deployed cluster, as its functions reckon with them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ssm.prices import ParameterPrices
from peaker.domain.prices.fetched_prices import price_table
from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Unknown
from peaker.usecases.plan.refresh_prices import billed_as

from peaker_cli.aws_failures import one_line
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import Retryable


def deployed_prices(client: Callable[[str], Any], settings: ClusterSettings, now: datetime) -> PriceTable:
    """Returns the cluster's prices; an instance's is unknown where EC2 does not say how its image is billed.

    Raises what the stored prices' read does.
    """
    stored = ParameterPrices(client("ssm"), settings.environment).read()
    return price_table(settings, stored, now, _billed_as(client, settings))


def _billed_as(client: Callable[[str], Any], settings: ClusterSettings) -> str | Unknown:
    compute = Ec2Compute(client("ec2"), settings.environment)
    try:
        return billed_as(compute.platform, settings)
    except Retryable as error:
        return Unknown(f"what {settings.image_id} is billed as is not known: {one_line(error)}")
