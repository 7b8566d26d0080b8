"""How this control plane talks to AWS: short timeouts, standard retries."""

from __future__ import annotations

from botocore.config import Config

# A function runs for up to 60 s; three tries of a call must fit. States retry what still fails.
CLIENT_CONFIG = Config(
    connect_timeout=3,
    read_timeout=15,
    retries={"mode": "standard", "total_max_attempts": 3},
    user_agent_extra="peaker",
)
