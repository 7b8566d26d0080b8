"""What the pages of this repository tell a person to type, as bash would read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("README.md", "docs/**/*.md", "*/README.md", "bench/**/README.md", "packages/**/README.md")
    for path in ROOT.glob(pattern)
    if "node_modules" not in path.parts
)
# Followed line by line, in its order, by tests/deployed/test_first_hour.py.
FIRST_HOUR = ROOT / "docs" / "first-hour.md"
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
# What is typed into a shell stands in a fence without a language, or with one of these.
_SHELLS = {"", "sh", "bash", "console"}
_FENCE = re.compile(r"^( *)```([a-z]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
# Inside a sentence: whole commands. A bare `peaker plan` there is a name.
_INLINE = re.compile(
    r"`(make [a-z-]+|scripts/\w+ \w+|(?:npx|pip|peaker|aws|curl|python -m) [^`\n]*--[^`\n]+)`"
)
_COMMENT = re.compile(r"(^|\s)#\s.*$")
_PROGRAMS = r"\$EDITOR|aws|curl|export|iostat|jq|make|npm|npx|peaker|pip|promtool|python|scripts/\w+"
_COMMAND = re.compile(rf"^(?:[A-Z_]+=\S* )*(?:{_PROGRAMS}|[A-Z]+=)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[str]:
    """The fenced blocks of a page that hold commands; diagrams and outputs hold none."""
    for _, language, block in _FENCE.findall(page.read_text(encoding="utf-8")):
        if language in _SHELLS and any(_COMMAND.match(line.strip()) for line in block.splitlines()):
            yield block


def typed_lines(page: Path) -> list[str]:
    """Every command of a page: the lines of its blocks, continued ones joined, and those inside a sentence."""
    lines = [line.strip() for block in blocks(page) for line in joined(block)]
    fenced = [line for line in lines if line and not line.startswith("#")]
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return fenced + _INLINE.findall(text)


def joined(block: str) -> Iterator[str]:
    """Lines as bash takes them: a backslash or an open quote goes on with the next one."""
    held = ""
    for commented in block.splitlines():
        line = _COMMENT.sub("", commented).rstrip()
        held = f"{held}{line}"
        if held.endswith("\\"):
            held = held[:-1]
            continue
        if held.count("'") % 2:
            held += "\n"
            continue
        yield held
        held = ""
    if held:
        yield held
