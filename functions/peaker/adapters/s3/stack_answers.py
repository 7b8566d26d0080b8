"""CloudFormation's custom resources: an answer is put to an address in S3 that the request signed."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from peaker_contract.errors import AwsCallRejected, AwsUnavailable

_TIMEOUT_SECONDS = 10


class SignedStackAnswers:
    """Port StackAnswers. The address is a secret of a few hours: no error names it."""

    def send(self, url: str, answer: dict[str, Any]) -> None:
        # The signature covers an empty content type.
        request = Request(url, data=json.dumps(answer).encode(), headers={"Content-Type": ""}, method="PUT")
        try:
            with urlopen(request, timeout=_TIMEOUT_SECONDS):
                pass
        except HTTPError as error:
            if error.code < 500:
                raise AwsCallRejected(f"CloudFormation's address refused the answer: {error.code}") from None
            raise AwsUnavailable(f"CloudFormation's address did not take the answer: {error.code}") from None
        except OSError as error:
            reason = type(error).__name__
            raise AwsUnavailable(f"CloudFormation's address cannot be reached: {reason}") from None
