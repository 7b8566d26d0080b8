"""Finds, in the source, every function that decodes what others wrote. A new one has to be in the registry."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "functions": ("peaker",), "host": ("peaker_host",), "cli": ("peaker_cli", "peaker_backtest"),
    ".": ("peaker_contract", "environments", "ssm_documents"),
}  # fmt: skip
# Calls that turn a text, bytes or a foreign object into values.
DECODING_CALLS = {
    "parsed_json", "measured_json", "model_validate", "model_validate_json", "validate_python", "fromisoformat",
    "safe_load", "compose", "literal_eval", "unpack", "unpack_from", "b64decode", "strptime", "parsedate_to_datetime",
}  # fmt: skip
DECODING_ATTRIBUTES = {("json", "loads"), ("json", "load"), ("csv", "reader"), ("yaml", "parse")}
DECODING_NAMES = re.compile(r"_?(parse|read|from)_\w+")


def decoders() -> dict[str, str]:
    """Dotted name of every function that decodes, and why it counts as one."""
    found: dict[str, str] = {}
    for place, packages in ROOMS.items():
        for package in packages:
            for path in sorted((ROOT / place / package).rglob("*.py")):
                module = ".".join(path.relative_to(ROOT / place).with_suffix("").parts)
                tree = ast.parse(path.read_text(encoding="utf-8"))
                for name, function in functions(tree):
                    if why := decodes(name.rsplit(".", 1)[-1], function):
                        found[f"{module}.{name}"] = why
    return found


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function of a module and of its classes, by its name within the module."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def decodes(name: str, function: ast.FunctionDef) -> str:
    """Which call or which name says that the function decodes; empty for the others."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and (called := _called(node.func)):
            return called
    return "its name" if DECODING_NAMES.fullmatch(name) else ""


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id if function.id in DECODING_CALLS else ""
    if not isinstance(function, ast.Attribute):
        return ""
    if isinstance(function.value, ast.Name) and (function.value.id, function.attr) in DECODING_ATTRIBUTES:
        return f"{function.value.id}.{function.attr}"
    return function.attr if function.attr in DECODING_CALLS else ""
