"""These clients talk to AWS for the control plane: short timeouts, standard retries, made on first use."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

# A function runs for up to 60 s; three tries of a call must fit. States retry what still fails.
CLIENT_CONFIG = Config(
    connect_timeout=3,
    read_timeout=15,
    retries={"mode": "standard", "total_max_attempts": 3},
    user_agent_extra="peaker",
)
# For calls without a ClientToken (CreateSnapshots, AttachVolume, SendCommand): a try whose answer was lost must be
# looked for before the next one, which the use cases do; botocore would just send it again.
SINGLE_TRY_CONFIG = CLIENT_CONFIG.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))

# Prices and quotas are asked for within a plan, hosts' answers within a look at all replicas: what is late is unknown,
# and the plan or the look goes on.
ASKED_ASIDE_CONFIG = CLIENT_CONFIG.merge(
    Config(read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
)

# S3's presigned addresses: botocore signs them with Signature Version 2 in the regions that ever had it, which S3
# refuses for buckets made since June 2020 and for objects encrypted with KMS; and it addresses them to
# s3.amazonaws.com, which redirects to a new bucket's own region, where the signature does not fit. Virtual
# addressing names the region.
S3_CONFIG = Config(signature_version="s3v4", s3={"addressing_style": "virtual"})


def config_for(service: str, config: Config) -> Config:
    """The config with what this service needs besides."""
    return config.merge(S3_CONFIG) if service == "s3" else config


class LazyClient:
    """A boto3 client that is made when it is first used: a cold function pays only for the services it calls."""

    def __init__(self, service: str, config: Config) -> None:
        self._service = service
        self._config = config
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._client is None:
            # The service name is data here, which the typed overloads of boto3.client do not take.
            make: Any = boto3.client
            self._client = make(self._service, config=config_for(self._service, self._config))
        return getattr(self._client, name)


def pricing_client(region: str) -> Any:
    """A client of the Price List API, which is served in few regions: not in this function's own, as a rule."""
    return lazy_client("pricing", ASKED_ASIDE_CONFIG.merge(Config(region_name=region)))


def lazy_client(service: str, config: Config = CLIENT_CONFIG) -> Any:
    """A LazyClient, typed so that it passes for the client it becomes."""
    return LazyClient(service, config)
