"""What crosses a boundary of ours is checked by a model; what does not fit is said field by field."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

_MOST_NAMED, _LONGEST_NAME = 20, 120


class Contract(BaseModel):
    """Base of what crosses a boundary of ours: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def misfits(error: ValidationError) -> str:
    """`field.inner: what is wrong; ...`, without the address of pydantic's manual."""
    found = [
        f"{'.'.join(str(part)[:_LONGEST_NAME] for part in one['loc']) or 'document'}: {one['msg'][:_LONGEST_NAME]}"
        for one in error.errors()
    ]
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return "; ".join([*found[:_MOST_NAMED], *more])
