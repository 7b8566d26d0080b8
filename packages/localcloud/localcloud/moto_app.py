"""The WSGI application of the local cloud: our admin endpoints under /_peaker/; the rest, mostly moto, behind IAM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from moto import backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from localcloud.admin import PREFIX, admin_application
from localcloud.extensions.pricing import is_for_pricing, pricing_application
from localcloud.iam.gateway import WsgiApplication, guarded

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


@cache
def moto_application() -> DomainDispatcherApplication:
    """moto's dispatcher; its Flask apps are costly to make and hold no state, so one serves every cloud."""
    return DomainDispatcherApplication(create_backend_app)


def application(cloud: OpenCloud) -> WsgiApplication:
    """Route a request to the admin endpoints, or past access control to moto."""
    admin = admin_application(cloud)
    moto = guarded(cloud, moto_application())
    pricing = guarded(cloud, pricing_application(cloud))
    # moto lists its own folder on every request; that is a tenth of the time of one
    modules = tuple(backends.list_of_moto_modules())
    cloud.patch(backends, "list_of_moto_modules", lambda: modules)

    def route(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "").startswith(PREFIX):
            return admin(environ, start_response)
        if is_for_pricing(environ):
            return pricing(environ, start_response)
        return moto(environ, _undated(start_response))

    return route


def _undated(start_response: Any) -> Callable[..., Any]:
    """Without moto's own date: the listener adds the cloud's."""

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        return start_response(status, [one for one in headers if one[0].lower() != "date"], *more)

    return start
