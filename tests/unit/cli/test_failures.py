"""How the command ends as a process: statuses, standard error, no traceback whatever happens."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from peaker_cli import failures
from peaker_cli.aws_failures import is_about_access, one_line
from peaker_cli.printing import console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[3]
RECORDING = (
    ROOT / "tests" / "unit" / "domain" / "storage" / "fixtures" / "iostat" / "ebs-piops-1000-20-threads.txt"
)
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PEAKER_"))},
    "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "functions", "host", "cli")),
}


def peaker(*arguments: str, shell: str = "", **more: object) -> subprocess.CompletedProcess[str]:
    """The command as its own process; `shell` is what a person writes behind it."""
    command = [sys.executable, "-m", "peaker_cli.app", *arguments]
    if shell:
        quoted = " ".join(f"'{one}'" for one in command)
        command = ["bash", "-c", f"set -o pipefail; {quoted} {shell}"]
    return subprocess.run(command, text=True, capture_output=True, env=ENVIRONMENT, timeout=120, **more)  # type: ignore[call-overload, no-any-return]


def test_the_version_is_that_of_the_installed_package() -> None:
    shown = peaker("--version")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"peaker {version('peaker')}\n", "")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["iostat", "/nowhere"], 1, "/nowhere: No such file or directory"),
        (["iostat", str(RECORDING), "--device", "sdz"], 1, "--device sdz; it has xvdk"),
        (["iostat"], 2, "Missing argument"),
        (["nonsense"], 2, "No such command"),
    ],
    ids=lambda value: " ".join(value)[-30:] if isinstance(value, list) else None,
)
def test_a_failure_is_1_and_a_wrong_call_is_2_and_both_speak_on_standard_error(
    arguments: list[str], status: int, said: str
) -> None:
    found = peaker(*arguments)
    assert found.returncode == status, found.stderr
    assert said in found.stderr
    assert found.stdout == ""
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("shell", "status", "said"),
    [
        ("| true", failures.UNREAD, ""),
        ("> /dev/full", 1, "peaker: the output cannot be written: No space left on device"),
        (">&-", 0, ""),
    ],
)
def test_an_output_that_nobody_takes_ends_quietly(shell: str, status: int, said: str) -> None:
    found = peaker("iostat", str(RECORDING), "--json", shell=shell)
    if status == failures.UNREAD:
        assert found.returncode in (0, failures.UNREAD)  # 0: the reader was gone only after the last byte
    else:
        assert found.returncode == status, found.stderr
    assert "Traceback" not in found.stderr
    assert "Exception" not in found.stderr
    assert said in found.stderr


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("<&-", "standard input is closed"),
        ("< /dev/null", "no report of iostat -x"),
    ],
)
def test_an_input_that_is_none_is_named(shell: str, said: str) -> None:
    found = peaker("iostat", "-", shell=shell)
    assert (found.returncode, found.stdout) == (1, "")
    assert said in found.stderr
    assert found.stderr.count("\n") == 1


def test_ctrl_c_while_it_waits_for_input_is_one_line() -> None:
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "peaker_cli.app", "iostat", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "peaker_cli.interruption" in line:
            break
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    told = "\n".join(line for line in told.splitlines() if not line.startswith("import time:"))
    assert told.strip() == "peaker: stopped"
    assert process.returncode in (failures.STOPPED, -signal.SIGINT)


def test_a_defect_is_one_line_that_says_where_its_traceback_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures.tempfile, "tempdir", str(tmp_path))

    def broken() -> None:
        raise KeyError("volumes\nof the plan")

    assert failures.ended(broken, ()) == failures.FAILED
    told = capsys.readouterr().err
    assert told.startswith("peaker: unexpected KeyError: 'volumes\\nof the plan'. This is a defect of Peaker")
    assert told.count("\n") == 1
    (written,) = tmp_path.iterdir()
    assert str(written) in told
    assert "def broken" not in told
    assert "Traceback (most recent call last)" in written.read_text()


def test_a_defect_on_a_full_disk_says_the_place_instead(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures.tempfile, "tempdir", "/nowhere/at/all")

    def broken() -> None:
        raise ZeroDivisionError("division by zero")

    assert failures.ended(broken, ()) == failures.FAILED
    assert "test_failures.py:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), failures.STOPPED, "stopped"),
        (PermissionError(13, "Permission denied", "/etc/shadow"), 1, "/etc/shadow: Permission denied"),
        (IsADirectoryError(21, "Is a directory", "/tmp"), 1, "/tmp: Is a directory"),
        (OSError(28, "No space left on device", "out.html"), 1, "out.html: No space left on device"),
        (ConnectionRefusedError(111, "Connection refused"), 1, "Connection refused"),
    ],
)
def test_expected_errors_of_the_machine_are_told_plainly(
    error: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    assert failures.ended(fails, ()) == status
    assert capsys.readouterr().err == f"peaker: {said}\n"


EXPIRED = (
    "Signature expired: 20261127T071905Z is now earlier than 20261127T072001Z (20261127T072501Z - 5 min.)"
)
NOT_YET = "Signature not yet current: 20261127T073905Z is still later than 20261127T072501Z (...)"
TOO_LARGE = "The difference between the request time and the current time is too large."
NOT_VALIDATED = "AWS was not able to validate the provided access credentials"
OTHER_SIGNATURE = "The request signature we calculated does not match the signature you provided."
CLOCK, EITHER, CREDENTIALS = (
    "AWS says that this machine's clock is off (",
    "AWS refuses the request (",
    "AWS refuses the credentials (",
)


@pytest.mark.parametrize(
    ("code", "message", "begins"),
    [
        ("InvalidSignatureException", EXPIRED, CLOCK),
        ("SignatureDoesNotMatch", NOT_YET, CLOCK),
        ("RequestTimeTooSkewed", TOO_LARGE, CLOCK),
        ("RequestInTheFuture", "Request timestamp is in the future.", CLOCK),
        ("RequestExpired", "Request has expired.", EITHER),
        ("AuthFailure", NOT_VALIDATED, EITHER),
        ("SignatureDoesNotMatch", OTHER_SIGNATURE, CREDENTIALS),
    ],
)
def test_a_clock_that_is_off_is_told_from_wrong_credentials(code: str, message: str, begins: str) -> None:
    """No new credentials help a clock; EC2 says the same of both. Nothing else would be answered either."""
    refused = ClientError({"Error": {"Code": code, "Message": message}}, "DescribeInstances")
    assert is_about_access(refused)
    said = one_line(refused)
    assert said.startswith(begins + code)
    assert message in said
    assert ("clock is off" in said, "renew them" in said) == (begins != CREDENTIALS, begins != CLOCK)


def test_an_output_of_another_encoding_shows_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of ISO-8859-1 has no blocks for the bar of a prewarm, and no sign of any script."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    page = Text("prewarm \u2588\u2588\u2591 of orders\u2026 in \u00b5s \u6771")
    assert failures.ended(lambda: console().print(page), ()) == 0
    assert written.getvalue() == b"prewarm ##. of orders... in \xb5s ?\n"
