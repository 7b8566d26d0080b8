"""Shorter ways to what moto searches for in each request, on a machine that also runs MySQL.

The names under which an answer may hold a member and a backend's actions never change; a resource's tags are kept under
its id, while moto compares the tags of every resource with a pattern of it, and copies every reservation to find an
instance, so that a long-lived cloud slows down. An attribute value of DynamoDB is kept as it is sent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

# Strings, numbers as strings, booleans and null; binary values and what holds other values are converted.
PLAIN_VALUES = {"S", "N", "BOOL", "NULL"}


def install(cloud: OpenCloud) -> None:
    """Remember actions per backend class and names per shape; look a resource's tags and an instance up."""
    from moto.core import responses
    from moto.core.serialize import AttributePicker, BaseJSONSerializer, XFormedAttributePicker
    from moto.core.utils import method_names_from_class
    from moto.ec2.models.core import TaggedEC2Resource
    from moto.ec2.models.instances import InstanceBackend

    cloud.patch(responses, "method_names_from_class", functools.cache(method_names_from_class))
    cloud.patch(TaggedEC2Resource, "get_tags", tags_of)
    cloud.patch(InstanceBackend, "get_instance_by_id", instance_by_id)
    for kind in ("_serialize_type_structure", "_serialize_type_map"):
        cloud.patch(BaseJSONSerializer, kind, _as_it_is(getattr(BaseJSONSerializer, kind)))
    for picker in (AttributePicker, XFormedAttributePicker):
        cloud.patch(picker, "get_possible_keys", _remembering(picker.get_possible_keys))


def instance_by_id(self: Any, instance_id: str) -> Any:
    """An instance of an EC2 backend or None; moto copies every reservation for it, load balancers ask all the time."""
    return next(
        (
            instance
            for reservation in self.reservations.copy().values()
            for instance in reservation.instances
            if instance.id == instance_id
        ),
        None,
    )


def tags_of(resource: Any) -> list[dict[str, str]]:
    """The tags of one EC2 resource, as moto's own get_tags lists them."""
    from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix

    tags = resource.ec2_backend.tags.get(resource.id) if resource.id else None
    if not tags:
        return []
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(resource.id), "")
    return [
        {"resource_id": resource.id, "key": key, "value": value, "resource_type": kind}
        for key, value in tags.copy().items()
    ]


def _as_it_is(serialize: Callable[[Any, Any, Any, Any, str], None]) -> Callable[..., None]:
    """An attribute value like {"S": "orders"} goes out unchanged, and so does an item of such values.

    moto asks for each of the ten possible members of each value.
    """

    def structure_or_map(self: Any, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if _is_plain(value, shape):
            self._default_serialize(serialized, value, shape, key)
        else:
            serialize(self, serialized, value, shape, key)

    return structure_or_map


def _is_plain(value: Any, shape: Any) -> bool:
    if type(value) is not dict:
        return False
    if shape.name == "AttributeValue":
        return value.keys() <= PLAIN_VALUES
    if shape.type_name == "map" and shape.value.name == "AttributeValue":
        return all(type(one) is dict and one.keys() <= PLAIN_VALUES for one in value.values())
    return False


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
