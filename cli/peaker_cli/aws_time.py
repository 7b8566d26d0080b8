"""The time as AWS tells it: every answer carries a date.

Ages and remaining times are reckoned against times that AWS wrote down: neither a laptop whose clock is off nor a local
cloud whose clock runs fast distorts them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from peaker.domain.decoding import MISFITS


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
