"""What a CloudFormation resource type is made of: how it is created, updated and deleted, and what each is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from botocore.model import ListShape, MapShape, Shape, StructureShape

from localcloud.extensions.cloudformation.template import TemplateError

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


@dataclass(frozen=True)
class Request:
    """What a type's functions get: the resource's place and its resolved properties."""

    cloud: OpenCloud
    stack_name: str
    logical_id: str
    properties: Mapping[str, Any]
    random: str

    def client(self, service: str) -> Any:
        return self.cloud.client(service)

    def name(self, property_name: str, longest: int = 64) -> str:
        """The given name, or one as CloudFormation generates."""
        given = self.properties.get(property_name)
        if given:
            return str(given)
        stem = f"{self.stack_name}-{self.logical_id}"[: longest - len(self.random) - 1].rstrip("-")
        return f"{stem}-{self.random}"

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.cloud.settings.region}:{self.cloud.settings.account_id}:{resource}"


@dataclass
class Made:
    """A resource that exists: its physical id (Ref) and its attributes (Fn::GetAtt)."""

    physical_id: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceType:
    """How to make, change and delete one type. Without `update`, a change replaces the resource."""

    create: Callable[[Request], Made]
    delete: Callable[[Request, Made], None]
    update: Callable[[Request, Made], Made] | None = None
    # A change of these properties replaces the resource all the same, which one that keeps its given name (`…Name`
    # among them) refuses.
    update_replaces: tuple[str, ...] = ()

    def require_another_name(self, properties: Mapping[str, Any], replacing: Sequence[str]) -> None:
        """The new one is made before the old one goes, which has the name. Raises TemplateError.

        `replacing` are those of `update_replaces` that change; without any the type is only here not changed in place.
        """
        named_by = next((one for one in self.update_replaces if one.endswith("Name")), "")
        if replacing and named_by not in replacing and properties.get(named_by):
            raise TemplateError(
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {properties[named_by]} and update the stack again."
            )


def call(request: Request, service: str, action: str, *ignored: str, **overrides: Any) -> dict[str, Any]:
    """Call an API action with those properties that it knows by the same name.

    Raises TemplateError for a property that the action does not know and that is not named in `ignored`: what the
    local cloud cannot do must not look done.
    """
    client = request.client(service)
    operation = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[action])
    members = operation.input_shape.members
    unknown = set(request.properties) - set(members) - set(ignored) - set(overrides)
    if unknown:
        raise TemplateError(f"{request.logical_id}: property {sorted(unknown)[0]} is not supported")
    arguments = {
        name: in_shape(value, members[name])
        for name, value in request.properties.items()
        if name in members and name not in ignored and name not in overrides
    }
    arguments.update({name: value for name, value in overrides.items() if value is not None})
    answer: dict[str, Any] = getattr(client, action)(**arguments)
    return answer


def in_shape(value: Any, shape: Shape) -> Any:
    """CloudFormation's loose scalars ("5", "true") as the API wants them."""
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        return {
            name: in_shape(item, shape.members[name]) for name, item in value.items() if name in shape.members
        }
    if isinstance(shape, ListShape) and isinstance(value, list):
        return [in_shape(item, shape.member) for item in value]
    if isinstance(shape, MapShape) and isinstance(value, Mapping):
        return {name: in_shape(item, shape.value) for name, item in value.items()}
    if shape.type_name in ("integer", "long") and isinstance(value, str):
        return int(value)
    if shape.type_name in ("double", "float") and isinstance(value, str | int):
        return float(value)
    if shape.type_name == "boolean" and isinstance(value, str):
        return value.lower() == "true"
    if shape.type_name == "string" and not isinstance(value, str):
        return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)
    return value


def tag_map(request: Request) -> dict[str, str]:
    tags = request.properties.get("Tags", [])
    return dict(tags) if isinstance(tags, Mapping) else {tag["Key"]: str(tag["Value"]) for tag in tags}


def tag_list(request: Request) -> list[dict[str, str]] | None:
    tags = [{"Key": key, "Value": value} for key, value in tag_map(request).items()]
    return tags or None


def gone(*codes: str) -> Callable[[Callable[[Request, Made], None]], Callable[[Request, Made], None]]:
    """Deleting what is already gone is done."""

    def decorate(delete: Callable[[Request, Made], None]) -> Callable[[Request, Made], None]:
        def guarded(request: Request, made: Made) -> None:
            try:
                delete(request, made)
            except ClientError as error:
                if error.response["Error"]["Code"] not in codes:
                    raise

        return guarded

    return decorate


def deletes(service: str, action: str, parameter: str, *gone_codes: str) -> Callable[[Request, Made], None]:
    """delete of a type whose API deletes by the physical id; what is already gone has one of these codes."""

    @gone(*gone_codes)
    def delete(request: Request, made: Made) -> None:
        getattr(request.client(service), action)(**{parameter: made.physical_id})

    return delete


def named(put: Callable[[Request, str], Made], property_name: str, longest: int = 128) -> dict[str, Any]:
    """create and update of a type whose API has one put action for both."""
    return {
        "create": lambda request: put(request, request.name(property_name, longest)),
        "update": lambda request, made: put(request, made.physical_id),
        "update_replaces": (property_name,),
    }
