"""The edge to other programs: run one and wait, or start one that outlives this process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

from peaker_host.machine.errors import CommandFailed, ToolMissing

_ERROR_TAIL_CHARACTERS = 600


@dataclass(frozen=True)
class Completed:
    """A completed program has its status and its output."""

    exit_code: int
    stdout: str
    stderr: str


class Processes:
    """Runs programs with a fixed locale, so that their output can be parsed."""

    def run(
        self,
        argv: Sequence[str],
        *,
        input_text: Optional[str] = None,
        timeout_seconds: float = 60.0,
        check: bool = True,
        environment: Optional[Dict[str, str]] = None,
    ) -> Completed:
        """Run a program to its end.

        Raises ToolMissing when it is not installed, CommandFailed when it does not end within
        `timeout_seconds` or, with `check`, ends with another exit code than 0.
        """
        try:
            done = subprocess.run(
                list(argv),
                input=None if input_text is None else input_text.encode("utf-8", "replace"),
                stdin=subprocess.DEVNULL if input_text is None else None,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=timeout_seconds,
                env=_environment(environment),
                check=False,
            )
        except FileNotFoundError as error:
            raise ToolMissing(f"{argv[0]} is not installed on this host") from error
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(f"{argv[0]} did not end within {timeout_seconds:g} s") from error
        # As it is: read as text, a carriage return within a value would end the line that it stands in.
        stdout, stderr = (said.decode("utf-8", "replace") for said in (done.stdout, done.stderr))
        if check and done.returncode != 0:
            said = (stderr or stdout).strip()[-_ERROR_TAIL_CHARACTERS:]
            raise CommandFailed(f"{argv[0]} ended with exit code {done.returncode}: {said}")
        return Completed(done.returncode, stdout, stderr)

    def start(self, argv: Sequence[str]) -> "subprocess.Popen[str]":
        """Start a program beside this one; its standard output and error are pipes."""
        try:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(None),
                encoding="utf-8",
                errors="replace",
            )
        except FileNotFoundError as error:
            raise ToolMissing(f"{argv[0]} is not installed on this host") from error

    def start_detached(self, argv: Sequence[str], log_path: str) -> int:
        """Start a program in a session of its own that lives on when this one ends. Returns its process id."""
        with open(log_path, "ab") as log:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                close_fds=True,
                cwd="/",
            )
        return child.pid


def package_command() -> List[str]:
    """Returns the command line that calls this package again: the zip application when run from one, else the
    module.
    """
    entry = os.path.abspath(sys.argv[0])
    if entry.endswith(".pyz"):
        return [sys.executable or "python3", entry]
    return [sys.executable or "python3", "-m", "peaker_host"]


def package_place() -> str:
    """Returns the place from which this package is imported: the zip application, or its directory."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _environment(extra: Optional[Dict[str, str]]) -> Dict[str, str]:
    merged = dict(os.environ)
    merged.update({"LC_ALL": "C", "S_TIME_FORMAT": "ISO"})
    merged.setdefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    merged.update(extra or {})
    return merged
