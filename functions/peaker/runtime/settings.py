"""The environment of a function, typed; a missing variable is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class MissingVariable(Exception):
    """The function lacks an environment variable that the stack must set."""


@dataclass(frozen=True)
class FunctionSettings:
    """The stack gives every function these settings. `operator_topic_arn` is empty where the environment
    names no address.
    """

    environment: str
    ledger_table: str
    package_bucket: str
    package_key: str
    package_sha256: str
    run_files_bucket: str
    state_machine_prefix: str
    operator_topic_arn: str = ""

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> FunctionSettings:
        """Raises MissingVariable that lists all that are missing."""
        names = {
            "environment": "PEAKER_ENVIRONMENT",
            "ledger_table": "LEDGER_TABLE",
            "package_bucket": "HOST_PACKAGE_BUCKET",
            "package_key": "HOST_PACKAGE_KEY",
            "package_sha256": "HOST_PACKAGE_SHA256",
            "run_files_bucket": "RUN_FILES_BUCKET",
            "state_machine_prefix": "STATE_MACHINE_PREFIX",
        }
        missing = [name for name in names.values() if not variables.get(name)]
        if missing:
            raise MissingVariable(f"environment variables are missing: {', '.join(missing)}; deploy again")
        given = {field: variables[name] for field, name in names.items()}
        return cls(**given, operator_topic_arn=variables.get("OPERATOR_TOPIC_ARN", ""))
