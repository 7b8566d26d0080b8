"""In front of the API: who sent this request, what does it ask for, and may they? Refusals look as each service's.

Signatures are not verified: the access key and its session token say who calls. S3 alone is asked for the version
of the signature, because buckets made since June 2020 and encrypted objects take Signature Version 4 only.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from moto.core.exceptions import ServiceException
from moto.core.model import OperationModel, ServiceModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from localcloud.iam.access import Access, Refused, error_of
from localcloud.iam.identities import ADMINISTRATOR_KEY, Identity, NotAuthenticated

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

# botocore's service by the name that requests are signed with, where the two differ.
SIGNED_AS = {
    "monitoring": "cloudwatch",
    "elasticloadbalancing": "elbv2",
    "states": "stepfunctions",
    "eventbridge": "events",
    "servicequotas": "service-quotas",
}
# Services that call an unknown key an unrecognized client.
WITH_THEIR_OWN_WORD = frozenset(["dynamodb", "ssm", "stepfunctions", "events", "lambda", "logs", "kms"])
CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/\d+/([^/]+)/([^/]+)/aws4_request")
OLD_SIGNATURE = re.compile(r"^AWS ([^:]+):")
NEEDS_VERSION_4 = (
    "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."
)
KMS_NEEDS_VERSION_4 = (
    "Requests specifying Server Side Encryption with AWS KMS managed keys require AWS Signature Version 4."
)

WsgiApplication = Callable[[dict[str, Any], Any], Iterable[bytes]]


class RequestRefused(Exception):
    """An error to answer with, before the request reaches its service."""

    def __init__(self, code: str, message: str, status: int = 403) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


# In the WSGI environment: what the call's own work will be refused after the answer, in sentences.
REFUSED_LATER = "peaker.refused_later"


class RefusalAnswer(ServiceException):
    """What the serializers of moto write as the service's own error."""


@dataclass(frozen=True)
class Signed:
    """What the signature says."""

    access_key_id: str
    session_token: str | None
    service: str


def guarded(cloud: OpenCloud, application: WsgiApplication) -> WsgiApplication:
    """`application` behind this cloud's access control."""
    # AccessDenied and its like are common to all services; no model of one names them.
    warnings.filterwarnings("ignore", message=r"Exception\(RefusalAnswer\)")

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        signed: Signed | None = None
        try:
            signed = _signed(environ)
            if signed is None or signed.access_key_id != ADMINISTRATOR_KEY:
                _check(cloud.access, signed, environ)
        except RequestRefused as refusal:
            response = _error(signed.service if signed else "s3", environ, refusal)
            return response(environ, start_response)
        return application(environ, start_response)

    return answer


def _signed(environ: dict[str, Any]) -> Signed | None:
    """Who signed. Raises RequestRefused for a signature that S3 does not take any more."""
    header = environ.get("HTTP_AUTHORIZATION", "")
    match = CREDENTIAL.search(header)
    if match:
        key, _, service = match.groups()
        token = environ.get("HTTP_X_AMZ_SECURITY_TOKEN")
        return Signed(key, token, SIGNED_AS.get(service, service))
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if OLD_SIGNATURE.match(header) or ("AWSAccessKeyId" in query and "Signature" in query):
        raise RequestRefused(*_old_signature(environ, query), status=400)
    if "X-Amz-Credential" in query:
        match = CREDENTIAL.search(f"Credential={query['X-Amz-Credential'][0]}")
        if match is None:
            raise RequestRefused("AuthorizationQueryParametersError", "X-Amz-Credential is malformed.", 400)
        _check_expiry(query)
        key, _, service = match.groups()
        [token] = query.get("X-Amz-Security-Token", [""])[:1]
        return Signed(key, token or None, SIGNED_AS.get(service, service))
    return None


def _old_signature(environ: dict[str, Any], query: dict[str, list[str]]) -> tuple[str, str]:
    from moto.s3.models import s3_backends

    bucket, _, key = unquote(environ.get("PATH_INFO", "")).lstrip("/").partition("/")
    for account in list(s3_backends.values()):
        holder = account["aws"].buckets.get(bucket)
        item = holder.keys.get(key) if holder is not None else None
        if getattr(item, "encryption", None) == "aws:kms":
            return "InvalidArgument", KMS_NEEDS_VERSION_4
    return "InvalidRequest", NEEDS_VERSION_4


def _check_expiry(query: dict[str, list[str]]) -> None:
    """A presigned address is good for so many real seconds: hosts and functions sign by the machine's clock."""
    made = datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if made + timedelta(seconds=int(query["X-Amz-Expires"][0])) < datetime.now(UTC):
        raise RequestRefused("AccessDenied", "Request has expired")


def _check(access: Access, signed: Signed | None, environ: dict[str, Any]) -> None:
    if signed is None:
        raise RequestRefused("AccessDenied", "Anonymous requests are refused: sign the request.")
    identity = _identity(access, signed)
    try:
        service_model = get_service_model(signed.service)
    except Exception as error:  # botocore has no such service
        raise RequestRefused("AccessDenied", f"the local cloud knows no service {signed.service}") from error
    request = _request(environ)
    operation, params = _parsed(signed.service, service_model, request)
    try:
        later = access.check_request(
            identity, signed.service, operation.name, params, environ.get("REMOTE_ADDR", "")
        )
        environ[REFUSED_LATER] = [refused.message for refused in later]
    except Refused as refused:
        protocol = determine_request_protocol(service_model, request.content_type)
        raise RequestRefused(*error_of(signed.service, protocol, refused)) from refused


def _identity(access: Access, signed: Signed) -> Identity:
    try:
        return access.identities.by_key(signed.access_key_id, signed.session_token)
    except NotAuthenticated as error:
        code = {"ec2": "AuthFailure", "s3": "InvalidAccessKeyId"}.get(signed.service, "InvalidClientTokenId")
        if signed.service in WITH_THEIR_OWN_WORD:
            code = "UnrecognizedClientException"
        raise RequestRefused(code, str(error)) from error


def _request(environ: dict[str, Any]) -> Request:
    """The request, read whole, so that moto can read it again."""
    if environ.get("HTTP_TRANSFER_ENCODING", "") == "":
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length) if length else b"")
    copy = {key: value for key, value in environ.items() if not key.startswith("werkzeug.")}
    request = Request(copy)
    request.get_data(cache=True, parse_form_data=False)
    if environ.get("HTTP_TRANSFER_ENCODING", "") != "":
        environ["wsgi.input"] = io.BytesIO(request.get_data())
    else:
        environ["wsgi.input"].seek(0)
    return request


@cache
def _operation(service: str, name: str) -> OperationModel:
    model: OperationModel = get_service_model(service).operation_model(name)
    return model


def _parsed(service: str, model: ServiceModel, request: Request) -> tuple[OperationModel, dict[str, Any]]:
    form = dict(request.form) if request.content_type == "application/x-www-form-urlencoded" else {}
    target = request.headers.get("X-Amz-Target")
    in_path: dict[str, Any] = {}
    name = request.args.get("Action") or form.get("Action") or (target.split(".")[-1] if target else None)
    if name is None:
        try:
            routed, in_path = get_service_router(service).match(request)
        except (HTTPException, NotImplementedError) as error:
            place = f"{request.method} {request.path}"
            message = f"the local cloud does not know how to authorize {service}: {place}"
            raise RequestRefused("AccessDenied", message) from error
        name = routed.name
    operation = _operation(service, name)
    protocol = determine_request_protocol(model, request.content_type)
    parser = PROTOCOL_PARSERS[protocol](operation, map_type=dict)
    body = b"" if service == "s3" and name in ("PutObject", "UploadPart") else request.get_data()
    parsed = parser.parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": body,
            "url_path": request.path,
            "url_params": in_path,
        }
    )
    return operation, {**(parsed or {}), **in_path}


def _error(service: str, environ: dict[str, Any], refusal: RequestRefused) -> Response:
    model = get_service_model(service)
    protocol = determine_request_protocol(model, environ.get("CONTENT_TYPE", ""))
    serializer = get_serializer_class(model.service_name, protocol)(
        operation_model=OperationModel({}, model), pretty_print=False
    )
    written = serializer.serialize(RefusalAnswer(refusal.code, refusal.message))
    headers = {key: str(value) for key, value in dict(written["headers"]).items()}
    status = 400 if protocol == "json" and refusal.status == 403 else refusal.status
    return Response(written["body"], status=status, headers=headers)
