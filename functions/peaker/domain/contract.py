"""What crosses a boundary of ours is checked by a model; what does not fit is said field by field."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class Contract(BaseModel):
    """Base of what crosses a boundary of ours: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def misfits(error: ValidationError) -> str:
    """`field.inner: what is wrong; ...`, without the address of pydantic's manual."""
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'document'}: {one['msg']}" for one in error.errors()
    )
