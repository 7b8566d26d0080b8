"""The ports that run commands on hosts and hand them files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from peaker.domain.host_results import Agent
    from peaker.domain.replicas.inventory import CommandOutcome


class CommandRunner(Protocol):
    """Systems Manager commands on hosts."""

    def agent(self, instance_id: str) -> Agent:
        """Whether the host's agent answers now, and its version; offline where none has registered."""

    def send(self, document: str, instance_id: str, parameters: Mapping[str, str], comment: str) -> str:
        """Start the environment's document; returns the command id. Not idempotent: find() first.

        Raises AwsUnavailable for an instance whose agent does not answer.
        """

    def find(self, instance_id: str, comment: str, since: datetime) -> str | None:
        """The id of the newest command on that instance with exactly this comment, asked for after `since`, or None."""

    def outcome(self, command_id: str, instance_id: str) -> CommandOutcome:
        """How it stands; MISSING when Systems Manager does not know it yet."""

    def cancel(self, command_id: str, instance_id: str) -> None:
        """Ask to cancel. Best effort: a command that is over or unknown is not an error."""


class HostPackage(Protocol):
    """The code that runs on hosts."""

    def sha256(self) -> str:
        """Hash of the package, hexadecimal."""

    def download_url(self) -> str:
        """A URL that a host may fetch for the next hour without credentials."""


class RunFiles(Protocol):
    """Files that a run's hosts fetch; they vanish by themselves after some days."""

    def publish(self, run_id: str, name: str, text: str) -> str:
        """Store the file, or replace it; returns a URL that a host may fetch for the next hour."""
