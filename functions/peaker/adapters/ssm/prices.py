"""The environment's fetched prices in Parameter Store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from peaker.adapters.aws_errors import translated
from peaker.domain.prices.price_table import FetchedPrices
from peaker.domain.reading import Unknown
from peaker_contract.errors import ResourceNotFound
from peaker_contract.names import prices_parameter

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

# A stack makes the parameter so; CloudFormation leaves what a function writes into it.
NOTHING_FETCHED = "{}"
NOT_YET = "the AWS Price List was not asked yet (it is within an hour of a deployment)"


class ParameterPrices:
    """Port StoredPrices: the parameter /peaker/<environment>/prices, of which a stack has made an empty one."""

    def __init__(self, ssm: SSMClient, environment: str) -> None:
        self._ssm = ssm
        self._name = prices_parameter(environment)

    def read(self) -> FetchedPrices | Unknown:
        try:
            with translated("ssm:GetParameter"):
                text = self._ssm.get_parameter(Name=self._name)["Parameter"]["Value"]
        except ResourceNotFound:
            return Unknown(f"there is no parameter {self._name}: deploy again")
        if text == NOTHING_FETCHED:
            return Unknown(NOT_YET)
        try:
            return FetchedPrices.model_validate_json(text)
        except ValidationError:
            return Unknown(
                f"{self._name} holds prices of another release; they are fetched anew within an hour"
            )

    def write(self, prices: FetchedPrices) -> None:
        with translated("ssm:PutParameter"):
            self._ssm.put_parameter(
                Name=self._name,
                Value=prices.model_dump_json(exclude_none=False),
                Type="String",
                Overwrite=True,
            )
