"""The database through its own command-line client, in batch mode. Statements go in by standard input."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from functools import partial
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from peaker_host.machine.errors import (
    CommandFailed,
    DatabaseUnreachable,
    InvalidHostSettings,
    ToolMissing,
    UnclearAnswer,
    parsed_json,
    understood,
)
from peaker_host.machine.settings import Machine, Processes

_NO_HOME = "/nonexistent"
_PLAIN_VALUE = re.compile(r"[0-9A-Za-z_./:@%+-]*")
# A literal as `sql_text` writes it, where a statement gives a password.
_PASSWORDS = re.compile(r"(?:PASSWORD\s*=|IDENTIFIED\s+BY)\s*'((?:[^']|'')*)'", re.IGNORECASE)
_QUOTED_BY_SERVER = re.compile(r"\bnear\s+'.*\Z", re.DOTALL)
# In the locale C the client would speak latin1, while `Processes` writes and reads UTF-8.
_IN_UTF_8 = "--default-character-set=utf8mb4"
# In a zone of its own a server shows a moment before a change of the clock an hour away from one after it; under an
# sql_mode of its own it reads `sql_text` otherwise; its limit for the clients' statements would end Peaker's.
_SESSION = (
    "--init-command=SET time_zone = '+00:00', sql_mode = ''"
    " /*!80000 , max_execution_time = 0 */ /*M!100100 , max_statement_time = 0 */"
)
# Access denied; so too by the socket alone, by an expired password, and to a locked account (MySQL's and MariaDB's).
LOGIN_REFUSED = (1045, 1698, 1862, 3118, 4151)
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}


class MysqlClient:
    """One way into a server: a defaults file, or root by the socket where it is empty; optionally a host over TCP."""

    def __init__(
        self, processes: Processes, program: str, defaults_file: str, extra: Optional[List[str]] = None
    ) -> None:
        self._processes = processes
        login = f"--defaults-extra-file={defaults_file}" if defaults_file else "--user=root"
        self._argv = [program, login, "--batch", "--connect-timeout=5", _IN_UTF_8, _SESSION]
        self._argv += extra or []

    def rows(self, statement: str, timeout_seconds: float = 30.0) -> List[Dict[str, Optional[str]]]:
        """The rows of one statement, by column name; NULL is None. Raises DatabaseUnreachable."""
        return _table(self._lines(statement, timeout_seconds))

    def json_and_rows(
        self, expressions: Dict[str, str], statement: str, timeout_seconds: float = 30.0
    ) -> Tuple[Dict[str, Any], List[Dict[str, Optional[str]]]]:
        """Returns the answers of `json` and `rows` from one connection: half the work where that is every second."""
        lines = self._lines(f"{_json_select(expressions)};\n{statement}", timeout_seconds)
        return _content(lines[:2], expressions), _table(lines[2:])

    def execute(self, *statements: str, timeout_seconds: float = 30.0) -> None:
        """Run statements in one connection; the first error ends it and is raised as DatabaseUnreachable."""
        self.rows(";\n".join(statements), timeout_seconds)

    def json(self, expressions: Dict[str, str], timeout_seconds: float = 30.0) -> Dict[str, Any]:
        """One row of SQL expressions by name, as JSON values. Raises UnclearAnswer where one is missing."""
        return _content(self._lines(_json_select(expressions), timeout_seconds), expressions)

    def _lines(self, statement: str, timeout_seconds: float) -> List[str]:
        try:
            output = self._said(statement, timeout_seconds)
        except CommandFailed as error:
            # Not `from error`, whose text would come with it.
            raise DatabaseUnreachable(without_passwords(str(error), statement)) from None
        # Not splitlines: a value may hold one of the other characters that end lines for Python.
        return output[:-1].split("\n") if output.endswith("\n") else output.split("\n") if output else []

    def _said(self, statement: str, timeout_seconds: float) -> str:
        ask = partial(
            self._processes.run,
            input_text=statement + ";\n",
            timeout_seconds=timeout_seconds,
            # What lies in the home directory of the agent's user (.my.cnf) would win over our own file.
            environment={"HOME": _NO_HOME},
        )
        try:
            return ask(self._argv).stdout
        except ToolMissing:
            # MariaDB 11's packages have the old name in a package of its own.
            with contextlib.suppress(ToolMissing):
                return ask(["mariadb", *self._argv[1:]]).stdout
            raise

    def why_down(self, wait_seconds: float) -> str:
        """Returns why the server does not let this login in within the time; empty as soon as it does."""
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                self.rows("SELECT 1", timeout_seconds=10.0)
                return ""
            except DatabaseUnreachable as error:
                if time.monotonic() >= deadline:
                    return str(error)
            time.sleep(0.3)


def admin_client(machine: Machine) -> MysqlClient:
    """The local server as its administrator, over the socket: with admin.cnf where there is one, else as root."""
    path = machine.admin_defaults_file
    return MysqlClient(machine.processes, machine.mysql_client, path if os.path.exists(path) else "")


@contextlib.contextmanager
def remote_login(
    machine: Machine, host: str, port: int, user: str, password: str, option_lines: Sequence[str] = ()
) -> Iterator[MysqlClient]:
    """A client for another server; its credentials lie in a private file for the time of the `with` block."""
    lines = [
        "[client]",
        option_line("host", host),
        option_line("port", str(port)),
        option_line("user", user),
        option_line("password", password, always_quoted=True),
        *option_lines,
        "protocol=TCP",
    ]
    with understood(InvalidHostSettings, "the login of the source"):
        text = ("\n".join(lines) + "\n").encode()
    descriptor, path = tempfile.mkstemp(prefix="peaker-login-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        yield MysqlClient(machine.processes, machine.mysql_client, path)
    finally:
        os.unlink(path)


def is_from_server(error: str, *numbers: int) -> bool:
    """Tells whether a server said it, with one of these numbers if any is given.

    The client's own errors are 2000 to 2999, and MariaDB's from 5000 on.
    """
    found = re.search(r"ERROR ([134]\d\d\d) ", error)
    return found is not None and (not numbers or int(found[1]) in numbers)


def without_passwords(message: str, statement: str) -> str:
    """Removes the password from a server's message: error 1064 quotes the statement from some place on."""
    given = _PASSWORDS.findall(statement)
    if not given:
        return message
    message = _QUOTED_BY_SERVER.sub("(the statement is not shown: it holds a password)", message)
    for literal in given:
        for form in (literal, literal.replace("''", "'"), literal.replace("''", "'").replace("\\\\", "\\")):
            message = message.replace(form, "***") if form else message
    return message


def sql_text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def option_line(name: str, value: str, always_quoted: bool = False) -> str:
    """A line of a client's option file, one line whatever the value holds. Raises InvalidHostSettings for a NUL."""
    if "\0" in value:
        raise InvalidHostSettings(f"{name} of the login holds a NUL, which no option file can")
    if _PLAIN_VALUE.fullmatch(value) and not always_quoted:
        return f"{name}={value}"
    return f'{name}="{_quoted(value)}"'


def _content(lines: List[str], expressions: Dict[str, str]) -> Dict[str, Any]:
    with understood(UnclearAnswer, "the server's answer"):
        content = parsed_json(_table(lines)[0]["result"] or "{}")
        missing = sorted(set(expressions) - set(content))
        if missing or not isinstance(content, dict):
            raise ValueError(f"{', '.join(missing) or 'an object'} is missing in it")
    return content


def _json_select(expressions: Dict[str, str]) -> str:
    pairs = ", ".join(f"'{name}', {expression}" for name, expression in expressions.items())
    return f"SELECT JSON_OBJECT({pairs}) AS result"


def _table(lines: List[str]) -> List[Dict[str, Optional[str]]]:
    """The client's batch output, its first line the column names."""
    if not lines:
        return []
    names = lines[0].split("\t")
    return [dict(zip(names, (_unescaped(value) for value in line.split("\t")))) for line in lines[1:]]


def _quoted(value: str) -> str:
    text = value.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _unescaped(value: str) -> Optional[str]:
    if value == "NULL":
        return None
    if "\\" not in value:
        return value
    result, index = [], 0
    while index < len(value):
        if value[index] == "\\" and index + 1 < len(value):
            result.append(_ESCAPES.get(value[index + 1], value[index + 1]))
            index += 2
        else:
            result.append(value[index])
            index += 1
    return "".join(result)


def status_text(client: MysqlClient, name: str) -> str:
    """A global status variable; empty where the server has none of that name."""
    rows = client.rows(f"SHOW GLOBAL STATUS LIKE '{name}'")
    return (rows[0].get("Value") or "") if rows else ""
