"""What a check says: pass, warn, refuse or unknown, with its numbers and the remedy. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Verdict = Literal["pass", "warn", "refuse", "unknown"]
Number = float | int | None


class Check(BaseModel):
    """One check. `remedy` is empty where nothing has to be done."""

    model_config = ConfigDict(frozen=True)

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""
    numbers: dict[str, Number] = {}

    @property
    def refuses(self) -> bool:
        """A run that began all the same would fail or do harm."""
        return self.verdict == "refuse"
