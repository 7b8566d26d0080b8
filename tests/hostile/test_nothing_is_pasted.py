"""The host package, which runs as root, pastes no outside text into a shell, and none into a statement unquoted."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "host" / "peaker_host").rglob("*.py"))
BEGINNINGS = (
    "SELECT", "SET ", "SHOW", "CHANGE ", "STOP ", "START ", "RESET ", "CREATE ", "ALTER ", "GRANT ", "INSERT", "UPDATE",
    "DELETE", "DROP", "CLONE ", " FOR CHANNEL", "BINLOG_GTID_POS", "(SELECT", "@@GLOBAL",
)  # fmt: skip
# These may stand in a statement as they are: constants of the package, numbers, and what sql_text has quoted.
QUOTED_BY = ("sql_text", "int", "for_channel", "_mariadb_options")
CONSTANTS = {
    "peaker_host.database.mysql_client": {"pairs", "name"},
    "peaker_host.database.client_statements": {"_SUMS"},
    "peaker_host.database.data_paths": {"names"},
    # The names are checked against constants (test_a_note_that_names_other_variables_is_no_statement).
    "peaker_host.database.page_load": {"name", "n", "_FILENAME"},
    # What a person is told to run.
    "peaker_host.donor.base_replica": {"who"},
    "peaker_host.donor.base_checks": {"name"},
    "peaker_host.health.unit": {"name", "right", "table", "_RESTORE_WAIT_SECONDS"},
    "peaker_host.layouts.image_sides": {"names"},
    # `drawn` is a number that this host has drawn.
    "peaker_host.replicate.identity": {"listed", "drawn"},
    "peaker_host.replicate.launch": {"_TORN_CODE"},
    # sql_text has made it.
    "peaker_host.replicate.source_login": {"oldest"},
    "peaker_host.replicate.replication": {
        "clause", "credentials.port", "HEARTBEAT_PERIOD_SECONDS", "_RETRY_COUNT", "clients", "user", "password", "key",
    },
}  # fmt: skip


@cache
def trees() -> tuple[tuple[str, ast.Module], ...]:
    """Every module of the host package, by its name."""
    names = (".".join(path.relative_to(ROOT / "host").with_suffix("").parts) for path in MODULES)
    return tuple(zip(names, (ast.parse(path.read_text(encoding="utf-8")) for path in MODULES), strict=True))


def test_no_program_is_run_through_a_shell() -> None:
    found = []
    for module, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            shell = any(word.arg == "shell" and ast.unparse(word.value) != "False" for word in node.keywords)
            if shell or called in (
                "os.system",
                "os.popen",
                "subprocess.getoutput",
                "subprocess.getstatusoutput",
            ):
                found.append(f"{module}:{node.lineno} {called}")
            if called.endswith((".run", ".start", ".start_detached", "subprocess.Popen")) and node.args:
                words = node.args[0].elts if isinstance(node.args[0], ast.List) else []
                texts = [word.value for word in words if isinstance(word, ast.Constant)]
                if {"sh", "bash", "/bin/sh", "/bin/bash", "eval"} & set(map(str, texts)):
                    found.append(f"{module}:{node.lineno} {texts}")
    assert found == []


def test_no_text_of_others_is_evaluated() -> None:
    names = (
        "eval",
        "exec",
        "compile",
        "__import__",
        "pickle.loads",
        "pickle.load",
        "yaml.load",
        "marshal.loads",
    )
    found = [
        f"{module}:{node.lineno}"
        for module, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names
    ]
    assert found == []


def test_what_stands_in_a_statement_is_a_constant_a_number_or_quoted() -> None:
    found = []
    for module, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) and is_statement(node):
                found += [
                    f"{module}:{node.lineno} {ast.unparse(part.value)}"
                    for part in node.values
                    if isinstance(part, ast.FormattedValue) and not may_stand(module, part.value)
                ]
    assert found == []


def is_statement(text: ast.JoinedStr) -> bool:
    """Whether the f-string is (part of) a statement: by how it begins."""
    first = text.values[0] if text.values else None
    return (
        isinstance(first, ast.Constant)
        and isinstance(first.value, str)
        and first.value.lstrip().startswith(tuple(one.strip() for one in BEGINNINGS))
        and first.value.lstrip()[:1].isupper() | first.value.lstrip().startswith(("@@", "("))
    )


def may_stand(module: str, value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in QUOTED_BY
    if isinstance(value, ast.IfExp) and "isinstance(value, int)" not in ast.unparse(value.test):
        return may_stand(module, value.body) and may_stand(module, value.orelse)
    text = ast.unparse(value)
    return (
        isinstance(value, ast.Constant)
        or text in CONSTANTS.get(module, set())
        or text.startswith("dialect.")
        or ("sql_text(" in text and "isinstance(value, int)" in text)
    )
