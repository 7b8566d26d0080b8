"""The SSM agent of a host: whether it answers, and whether it gives Peaker's documents their parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from peaker_contract.errors import AgentTooOld

# The first that hands parameters to the shell as environment variables (Systems Manager guide, interpolationType).
OLDEST_AGENT = "3.3.2746.0"
_VERSION = re.compile(r"\d{1,9}(\.\d{1,9})*")
# What any shell says under `set -u` of a variable that nobody set; the rest of the line is in the system's language.
_NOT_SET = re.compile(r"\bSSM_[A-Za-z0-9]+: .*")


@dataclass(frozen=True)
class Agent:
    """An agent as Systems Manager knows it; `version` is empty where it knows none."""

    is_online: bool
    version: str = ""

    @property
    def is_too_old(self) -> bool:
        """Tells whether no document can work there. An unreadable version counts as new enough."""
        return _numbers(self.version) < _numbers(OLDEST_AGENT)


def require_parameters(instance_id: str, agent: Agent) -> None:
    """Raises AgentTooOld."""
    if agent.is_too_old:
        found = agent.version[:40] or "of unknown version"
        raise AgentTooOld(
            f"the SSM agent of {instance_id} is {found}; Peaker's documents need {OLDEST_AGENT} or newer"
        )


def require_set_parameters(document: str, instance_id: str, stderr: str) -> None:
    """Raises AgentTooOld for a failed document whose parameters never came to the shell.

    A host's agent may go back to an older version at any time: its package manager takes back what was installed.
    """
    said = _NOT_SET.search(stderr)
    if said:
        raise AgentTooOld(
            f"{document}: the SSM agent of {instance_id} gives the shell no parameters ({said.group(0)[:120]}); "
            f"Peaker's documents need {OLDEST_AGENT} or newer"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")) if _VERSION.fullmatch(version) else ()
