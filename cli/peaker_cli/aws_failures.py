"""What goes wrong outside the command, as one line that says what to do."""

from __future__ import annotations

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

from peaker_contract.errors import PeakerError

_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError)
_NOT_RENEWED = (CredentialRetrievalError, SSOTokenLoadError, TokenRetrievalError, UnauthorizedSSOTokenError)
_NOBODY_THERE = (EndpointConnectionError, ConnectTimeoutError, ReadTimeoutError)
_REFUSED_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_RENEW = "renew them (aws sso login) or name others with --profile or AWS_PROFILE"


def one_line(error: BaseException) -> str:
    """The error for a person; AWS's own errors are looked for behind those that wrap them."""
    return " ".join(_text(_of_aws(error) or error).split())


def is_about_access(error: BaseException) -> bool:
    """Whether it is the credentials or the address, so that no other call would be answered."""
    return _of_aws(error) is not None


def reason(error: PeakerError) -> str:
    """What AWS said of the credentials or the address, where that is behind it; else the error's own sentence."""
    return one_line(error) if _of_aws(error) else error.sentence


def _of_aws(error: BaseException) -> BaseException | None:
    """A cause that says more than its wrapping: credentials, or nobody at the address."""
    cause: BaseException | None = error
    while cause is not None:
        if (
            isinstance(cause, (*_NO_CREDENTIALS, *_NOT_RENEWED, *_NOBODY_THERE))
            or _code(cause) in _REFUSED_CREDENTIALS
        ):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _text(error: BaseException) -> str:
    if isinstance(error, _NO_CREDENTIALS):
        return f"no AWS credentials ({error}); {_RENEW}"
    if isinstance(error, _NOT_RENEWED):
        return f"the AWS credentials cannot be read ({error}); {_RENEW}"
    if isinstance(error, ClientError) and _code(error) in _REFUSED_CREDENTIALS:
        message = error.response["Error"].get("Message", "")
        return f"AWS refuses the credentials ({_code(error)}: {message}); {_RENEW}"
    if isinstance(error, _NOBODY_THERE):
        return f"no answer: {error}; check --endpoint (AWS_ENDPOINT_URL), --region and the network"
    return str(error)


def _code(error: BaseException) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


EXPECTED = (ClientError, BotoCoreError)
