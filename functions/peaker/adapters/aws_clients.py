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

# For calls without a ClientToken (CreateSnapshots, AttachVolume, SendCommand): a try whose answer was lost must be
# looked for before the next one, which the use cases do; botocore would just send it again.
SINGLE_TRY_CONFIG = CLIENT_CONFIG.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))
