"""A person's credentials: one session for all clients of a command, so that what gives credentials is asked once.

Credentials of a role that a profile names are kept where the AWS CLI keeps them, in files of their owner alone: a
one-time code opens a role once, and the next command, or the AWS CLI, would need the next code.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

import boto3
import botocore.session
from botocore.utils import JSONFileCache


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
