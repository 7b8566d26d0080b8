"""What moto works out anew for each answer and never changes: the names it looks for, and a backend's actions.

A quarter of the time in which the control plane serves a request went there, on a machine that also runs MySQL.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.server import LocalCloud


def install(cloud: LocalCloud) -> None:
    """Remember an action list per backend class, and per shape the names under which a dict may hold a member."""
    from moto.core import responses
    from moto.core.serialize import AttributePicker, XFormedAttributePicker
    from moto.core.utils import method_names_from_class

    cloud.patch(responses, "method_names_from_class", functools.cache(method_names_from_class))
    for picker in (AttributePicker, XFormedAttributePicker):
        cloud.patch(picker, "get_possible_keys", _remembering(picker.get_possible_keys))


def _remembering(possible_keys: Callable[[Any, Any], Iterable[str]]) -> Callable[[Any, Any], Iterable[str]]:
    remembered: dict[tuple[Any, ...], tuple[Any, list[str]]] = {}

    def of_a_dict(self: Any, context: Any) -> Iterable[str]:
        # An object may have aliases of its own.
        if type(context.obj) is not dict:
            return possible_keys(self, context)
        # The shape is kept with its names, so that its id stays its own.
        asked = (id(context.shape), context.key, *self.alias_providers)
        known = remembered.get(asked)
        if known is None:
            known = (context.shape, list(possible_keys(self, context)))
            remembered[asked] = known
        return known[1]

    return of_a_dict
