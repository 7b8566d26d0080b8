"""The command prints every line here: text of others is shown, never obeyed.

Names, reasons, answers of hosts and messages of AWS come out with their control characters written out; square brackets
in them are no markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from peaker_cli.plain_text import plain


def echo(text: str, err: bool = False) -> None:
    """Text and a line break on standard output, or on standard error."""
    typer.echo(plain(text), err=err)


def console(stderr: bool = False) -> Console:
    """Returns the console for tables and panels."""
    return _PlainConsole(stderr=stderr, markup=False, emoji=False)


class _PlainConsole(Console):
    """This console prints all text plain; the control codes are rich's own."""

    def render_str(self, text: str, **given: Any) -> Text:
        """Makes text plain before it is laid out, so that columns are as wide as their content."""
        return super().render_str(plain(text), **given)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))
