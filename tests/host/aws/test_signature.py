"""Signatures against botocore's own signer."""

from __future__ import annotations

from datetime import UTC, datetime

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from peaker_host.aws.signature import Credentials, query_text, signed_headers

NOW = datetime(2026, 11, 23, 13, 5, 9, tzinfo=UTC)
KEYS = Credentials("ASIAEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "FwoGZXIvYXdzE/+token==")
SNAPSHOT = "/snapshots/snap-0a1b2c3d4e5f60718"

PLACES: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (f"{SNAPSHOT}/blocks/42", (("blockToken", "AAUBAcuWqOCnDNuKle11s7IIX6jp6FYcC/tt9+a0ZuNp/SLeUs=="),)),
    (f"{SNAPSHOT}/blocks", (("maxResults", "10000"), ("pageToken", "a+b/c="))),
    (
        f"{SNAPSHOT}/changedblocks",
        (("pageToken", "~-_."), ("firstSnapshotId", "snap-1"), ("maxResults", "100")),
    ),
)


@pytest.mark.parametrize(("path", "query"), PLACES)
@pytest.mark.parametrize("host", ["ebs.eu-west-1.amazonaws.com", "127.0.0.1:4566"])
def test_a_request_is_signed_as_botocore_signs_it(
    monkeypatch: pytest.MonkeyPatch, path: str, query: tuple[tuple[str, str], ...], host: str
) -> None:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: NOW.replace(tzinfo=None))
    theirs = AWSRequest("GET", f"https://{host}{path}?{query_text(query)}")
    keys = BotocoreCredentials(KEYS.access_key_id, KEYS.secret_access_key, KEYS.session_token)
    botocore.auth.SigV4Auth(keys, "ebs", "eu-west-1").add_auth(theirs)
    ours = signed_headers(KEYS, "eu-west-1", "ebs", host, path, query, NOW)
    assert ours["authorization"] == theirs.headers["Authorization"]
    assert ours["x-amz-date"] == theirs.headers["X-Amz-Date"]
    assert ours["x-amz-security-token"] == theirs.headers["X-Amz-Security-Token"]


def test_credentials_show_no_secret() -> None:
    assert "wJalr" not in repr(KEYS)
    assert "token" not in repr(KEYS).replace("session_token", "")
