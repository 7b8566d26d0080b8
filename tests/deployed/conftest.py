"""What the tests of deployments share."""

from __future__ import annotations

import pytest
from peaker_cli.aws_session import session_of


@pytest.fixture(autouse=True)
def new_sessions() -> None:
    """Each test's people are of its own cloud; a command is a process, so that it keeps no other one's keys."""
    session_of.cache_clear()
