"""A person's credentials: one session for all clients of a command, so that what gives credentials is asked once.

Credentials of a role that a profile names are kept where the AWS CLI keeps them, in files of their owner alone: a
one-time code opens a role once, and the next command, or the AWS CLI, would need the next code.
"""

from __future__ import annotations

import contextlib
import functools
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from botocore.utils import JSONFileCache
from peaker.domain.decoding import MISFITS


@functools.cache
def session_of(profile: str | None, region: str) -> boto3.Session:
    """The session of this profile in this process; without a profile, what the shell says. Asks for nothing yet."""
    # botocore reads the profile when its providers are made, so it is named first; STS is asked in this region.
    made = botocore.session.Session(profile=profile)
    made.set_config_variable("region", region)
    roles = made.get_component("credential_provider").get_provider("assume-role")
    roles.cache = _KeptCredentials(str(Path("~/.aws/cli/cache").expanduser()))
    return boto3.Session(botocore_session=made)


class _KeptCredentials(JSONFileCache):
    """Files that need not be there: what cannot be read or written is asked for anew by the next command."""

    def __contains__(self, cache_key: str) -> bool:
        try:
            return isinstance(self[cache_key], dict)
        except KeyError:
            return False

    def __setitem__(self, cache_key: str, value: object) -> None:
        with contextlib.suppress(OSError):
            super().__setitem__(cache_key, value)


class AwsClock:
    """Port Clock: the date of the newest answer; before the first one, this machine's clock."""

    def __init__(self) -> None:
        self._newest: datetime | None = None

    def now(self) -> datetime:
        """Aware, UTC, to the second."""
        return self._newest or datetime.now(UTC)

    def listen(self, client: Any) -> Any:
        """Note the date of each of this boto3 client's answers; returns the client."""
        client.meta.events.register("after-call", self._note)
        return client

    def _note(self, http_response: Any, **_: Any) -> None:
        text = http_response.headers.get("Date")
        if not text:
            return
        try:
            found = parsedate_to_datetime(text)
        except MISFITS:
            return
        self._newest = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
