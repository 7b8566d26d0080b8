"""Failures outside the command become one line that says what to do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from peaker.adapters.aws_errors import error_code

from peaker_contract.errors import PeakerError

FoundT = TypeVar("FoundT")

_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError)
_NOT_RENEWED = (CredentialRetrievalError, SSOTokenLoadError, TokenRetrievalError, UnauthorizedSSOTokenError)
_NOBODY_THERE = (EndpointConnectionError, ConnectTimeoutError, ReadTimeoutError)
_REFUSED_CREDENTIALS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
# A signature holds for some minutes; what is signed by a clock that is off is refused like what is signed wrongly.
_CLOCK_IS_OFF = frozenset({"RequestInTheFuture", "RequestTimeTooSkewed"})
_CLOCK_IN_MESSAGE = ("Signature expired", "Signature not yet current")
# EC2's, of a clock that is off and of credentials that are wrong or expired (aws-sdk-java#519, aws-sdk-go-v2#1674).
_EITHER = frozenset({"AuthFailure", "RequestExpired"})
_SET_CLOCK = "set it (timedatectl set-ntp true)"
_RENEW = "renew them (aws sso login) or name others with --profile or AWS_PROFILE"


def one_line(error: BaseException) -> str:
    """The error for a person; AWS's own errors are looked for behind those that wrap them."""
    return " ".join(_text(_of_aws(error) or error).split())


def is_about_access(error: BaseException) -> bool:
    """Tells whether credentials or address are the cause, so that no other call would be answered."""
    return _of_aws(error) is not None


def reason(error: BaseException) -> str:
    """Returns AWS's words on credentials or address, where they are the cause; else the error's own sentence."""
    if isinstance(error, PeakerError) and not _of_aws(error):
        return " ".join(error.sentence.split())
    return one_line(error)


def unless(codes: Collection[str], ask: Callable[[], FoundT]) -> FoundT | None:
    """Returns AWS's answer, None where it refuses with a code that has one of these words: there is no such thing."""
    try:
        return ask()
    except ClientError as error:
        if any(word in error_code(error) for word in codes):
            return None
        raise


def _of_aws(error: BaseException) -> BaseException | None:
    """A cause that says more than its wrapping: credentials, or nobody at the address."""
    cause: BaseException | None = error
    while cause is not None:
        if (
            isinstance(cause, (*_NO_CREDENTIALS, *_NOT_RENEWED, *_NOBODY_THERE))
            or _code(cause) in _REFUSED_CREDENTIALS | _CLOCK_IS_OFF | _EITHER
        ):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _text(error: BaseException) -> str:
    if isinstance(error, _NO_CREDENTIALS):
        return f"no AWS credentials ({error}); {_RENEW}"
    if isinstance(error, _NOT_RENEWED):
        return f"the AWS credentials cannot be read ({error}); {_RENEW}"
    if refused := _refusal(error):
        return refused
    if isinstance(error, _NOBODY_THERE):
        return f"no answer: {error}; check --endpoint (AWS_ENDPOINT_URL), --region and the network"
    return str(error)


def _refusal(error: BaseException) -> str:
    """Returns AWS's objection to the signature and its remedy; empty where it is about something else."""
    code = _code(error)
    message = str(error.response["Error"].get("Message", "")) if isinstance(error, ClientError) else ""
    told = f"({code}: {message})"
    if code in _EITHER:
        return (
            f"AWS refuses the request {told}: either its credentials, {_RENEW}, or this machine's clock is off, "
            f"{_SET_CLOCK}"
        )
    if code in _CLOCK_IS_OFF or (
        code in _REFUSED_CREDENTIALS and any(one in message for one in _CLOCK_IN_MESSAGE)
    ):
        return f"AWS says that this machine's clock is off {told}; {_SET_CLOCK}"
    return f"AWS refuses the credentials {told}; {_RENEW}" if code in _REFUSED_CREDENTIALS else ""


def _code(error: BaseException) -> str:
    return error_code(error) if isinstance(error, ClientError) else ""


EXPECTED = (ClientError, BotoCoreError)
