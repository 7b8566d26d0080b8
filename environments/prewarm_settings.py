"""The reading orders that a file may choose: those of the host package that a build can wait for."""

from __future__ import annotations

from typing import Annotated, Self

from peaker_host.warm.reading_orders import READING_ORDERS
from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from peaker_contract.field_types import Fault, refuse
from peaker_contract.storage_settings import PrewarmSettings

# What a build waits for, and what its time is predicted from, are the blocks that the filesystem uses.
_CHOICES = {name: order for name, order in READING_ORDERS.items() if order.needs_map}


def _is_known(name: str) -> str:
    if name not in _CHOICES:
        *first, last = _CHOICES
        raise ValueError(f"must be {', '.join(first)} or {last}, got {name!r}")
    return name


ReadingOrderName = Annotated[
    str,
    Field(strict=True),
    AfterValidator(_is_known),
    WithJsonSchema({"type": "string", "enum": list(_CHOICES)}),
]


class Prewarm(PrewarmSettings):
    """In which order blocks are read, and when a replica may serve: once all used ones are warm, or once the hot set
    is, the rest following."""

    method: ReadingOrderName = Field(
        default="hot",
        description="Which blocks are read, in which order. "
        + " ".join(f"`{name}`: {order.meaning}." for name, order in _CHOICES.items()),
        examples=["used"],
    )

    @model_validator(mode="after")
    def _knows_what_it_waits_for(self) -> Self:
        if self.serve_when == "hot" and not _CHOICES[self.method].needs_page_list:
            fit = " or ".join(name for name, order in _CHOICES.items() if order.needs_page_list)
            message = (
                f"must be all with method {self.method}, which does not read the hot set first: take {fit}"
            )
            refuse([Fault(("serve_when",), message)])
        return self
