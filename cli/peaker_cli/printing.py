"""The command prints every line here: text of others comes out plain, and square brackets in it are no markup."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from peaker_cli.failures import plain

AsJson = Annotated[bool, typer.Option("--json", help="Print the document itself.")]
OneOrAll = Annotated[
    str | None, typer.Argument(metavar="[CLUSTER]", help="Without it: all clusters, the worst first.")
]


def echo(text: str, err: bool = False) -> None:
    """Text and a line break on standard output, or on standard error."""
    typer.echo(plain(text), err=err)


def progress(text: str) -> None:
    """A line on standard error: what is being done now."""
    echo(f"peaker: {text}", err=True)


def echo_json(document: Any) -> None:
    echo(json.dumps(document, indent=1, default=str))


def console(stderr: bool = False) -> Console:
    return _PlainConsole(stderr=stderr, markup=False, emoji=False)


@contextmanager
def telling(what: str) -> Iterator[Callable[[str], None]]:
    """Tells on a terminal what is being waited for, elsewhere nothing; the function changes what that is."""
    with console(stderr=True).status(f"{what} ...") as shown:
        yield lambda other: shown.update(f"{other} ...")


def table_of(
    columns: Sequence[str],
    rows: Iterable[Sequence[RenderableType]],
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
    title: str | None = None,
) -> Table:
    """A table without a box; columns in `right` are set to the right, those in `whole` are never folded."""
    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        title=title,
        title_justify="left",
        show_header=any(columns),
    )
    for name in columns:
        side: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=side, overflow="fold", no_wrap=name in whole)
    for row in rows:
        table.add_row(*row)
    return table


def facts_of(lines: Iterable[tuple[str, RenderableType]]) -> Table:
    return table_of(("", ""), ((Text(name, style="bold"), fact) for name, fact in lines))


class _PlainConsole(Console):
    """This console prints all text plain; the control codes are rich's own."""

    def render_str(self, text: str, **given: Any) -> Text:
        """Makes text plain before it is laid out, so that columns are as wide as their content."""
        return super().render_str(plain(text), **given)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))
