"""A page is a tree of elements: texts are escaped when it is written, and nothing else can come into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias
from xml.etree.ElementTree import Element, tostring

Node: TypeAlias = "Element | str | Iterable[Node] | None"
# Nothing is fetched, and a text that came to be a script would not run.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def el(tag: str, *children: Node, **attributes: str | float | None) -> Element:
    """Makes an element; `class_` and `aria_label` are `class` and `aria-label`, an attribute of None is left out."""
    made = Element(
        tag,
        {
            name.rstrip("_").replace("_", "-"): str(value)
            for name, value in attributes.items()
            if value is not None
        },
    )
    last: Element | None = None
    for child in _flat(children):
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + child
        else:
            last.tail = (last.tail or "") + child
    return made


def page(title: str, *parts: Node, script: str | None = None) -> str:
    """Returns the document. A script is the page's own text, in which no text of others may be."""
    policy = _POLICY if script is None else f"{_POLICY}; script-src 'unsafe-inline'"
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("title", title),
        el("link", rel="icon", href="data:,"),
        el("style", style),
    )
    scripts = None if script is None else el("script", script)
    document = el("html", head, el("body", el("main", el("h1", title), parts), scripts), lang="en")
    return f"<!DOCTYPE html>\n{tostring(document, encoding='unicode', method='html')}\n"


def section(title: str, *parts: Node) -> Element:
    """A part of the page below its heading."""
    return el("section", el("h2", title), parts)


def note(text: str, kind: str = "note") -> Element:
    """A sentence in small type; of kind `warning` with a mark."""
    return el("p", text, class_=kind)


def verdict(word: str, tone: str, sentence: Node, *below: Node) -> Element:
    """The answer, first on the page. `tone` is good, warn or bad; none where it says neither."""
    told = el("p", el("b", word, class_="word") if word else None, el("span", sentence))
    return el("div", told, below, class_=f"verdict {tone}".strip())


def badge(text: str, tone: str) -> Element:
    return el("span", text, class_=f"badge {tone}".strip())


def card(title: str, value: str, lines: Iterable[tuple[str, str]] = (), kind: str = "") -> Element:
    """A figure with its name; each line below has a class (`short` is red) and a text. Kind `taken` stands out."""
    below = [el("p", text, class_=tone or None) for tone, text in lines if text]
    return el("div", el("h3", title), el("p", value, class_="big"), below, class_=f"card {kind}".strip())


def cards(made: Iterable[Element]) -> Element:
    return el("div", made, class_="cards")


def facts(lines: Iterable[tuple[str, Node]]) -> Element:
    """A name and what is known of it, a line each."""
    return el("dl", ([el("dt", name), el("dd", fact)] for name, fact in lines), class_="facts")


def table(head: Sequence[str], rows: Iterable[Sequence[Node]], right: Sequence[str] = ()) -> Element:
    """A table scrolls in its box. On a narrow screen each row is a list of names and values, unless all columns but
    the first are figures, which are to the `right`.
    """
    side = {name: "n" if name in right else None for name in head}
    top = el("tr", (el("th", name, scope="col", class_=side[name]) for name in head))

    def cells(row: Sequence[Node]) -> Iterator[Element]:
        for at, (name, value) in enumerate(zip(head, row, strict=True)):
            if at == 0:
                yield el("th", value, scope="row", data_label=name)
            else:
                yield el("td", el("span", value), class_=side[name], data_label=name)

    body = el("tbody", (el("tr", cells(row)) for row in rows))
    inner = el("table", el("thead", top), body)
    kind = "scroll figures" if len(right) == len(head) - 1 else "scroll rows"
    return el("div", inner, class_=kind, tabindex="0", role="region", aria_label=f"table: {head[0]}")


def _flat(children: Node) -> Iterator[Element | str]:
    if isinstance(children, Element | str):
        yield children
    elif children is not None:
        for child in children:
            yield from _flat(child)
