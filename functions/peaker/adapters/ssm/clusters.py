"""Cluster settings from Parameter Store, through Powertools' cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_lambda_powertools.utilities.parameters import SSMProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
from botocore.exceptions import ClientError
from pydantic import ValidationError

from peaker.adapters.aws_errors import domain_error, error_code, translated
from peaker.domain.decoding import misfits
from peaker.domain.runs.execution_input import unknown_cluster
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsUnavailable, InvalidRequest, UnknownCluster
from peaker_contract.names import cluster_parameter, cluster_parameters

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

# Settings change with a deployment only.
CACHE_SECONDS = 60


class ParameterClusters:
    """Port ClusterDirectory; parameters are /peaker/<environment>/clusters/<cluster>."""

    def __init__(self, ssm: SSMClient, environment: str) -> None:
        self._ssm = ssm
        self._provider = SSMProvider(boto3_client=ssm)
        self._environment = environment

    def settings(self, cluster: str) -> ClusterSettings:
        text = self._read(cluster)
        try:
            # A withdrawn setting stays in the parameter until the cluster's stack is deployed, after the functions.
            return ClusterSettings.model_validate_json(text, extra="ignore")
        except ValidationError as error:
            raise InvalidRequest(
                f"settings of {cluster} do not fit this release; deploy again: {misfits(error)}"
            ) from error

    def names(self) -> list[str]:
        pages = self._ssm.get_paginator("get_parameters_by_path").paginate(
            Path=cluster_parameters(self._environment)
        )
        with translated("ssm:GetParametersByPath"):
            found = [one["Name"].rsplit("/", 1)[-1] for page in pages for one in page["Parameters"]]
        return sorted(found)

    def _read(self, cluster: str) -> str:
        if "/" in cluster:
            raise UnknownCluster(self._unknown(cluster))
        try:
            value = self._provider.get(self._path(cluster), max_age=CACHE_SECONDS)
        except GetParameterError as error:
            cause = error.__cause__ or error.__context__
            if isinstance(cause, ClientError):
                if error_code(cause) == "ParameterNotFound":
                    raise UnknownCluster(self._unknown(cluster)) from error
                raise domain_error("ssm:GetParameter", cause) from error
            raise AwsUnavailable(f"ssm:GetParameter {self._path(cluster)}: {error}") from error
        return value if isinstance(value, str) else str(value)

    def _path(self, cluster: str) -> str:
        return cluster_parameter(self._environment, cluster)

    def _unknown(self, cluster: str) -> str:
        return unknown_cluster(cluster, self.names())
