"""Credentials of a profile are asked for once in a command, and a role's with a one-time code once an hour."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from peaker_cli import aws_session
from peaker_cli.control_plane import ControlPlane

from tests.support.credential_program import credential_program

_GIVEN = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken>
<Expiration>2199-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
_REFUSED = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>MultiFactorAuthentication failed with invalid MFA one time pass code. </Message>
</Error></ErrorResponse>"""


class OneTimeCodes(HTTPServer):
    """STS: a code of a device opens a role once, also within its thirty seconds."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.taken: list[str] = []


class _Answer(BaseHTTPRequestHandler):
    server: OneTimeCodes

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        [code] = asked["TokenCode"]
        status, body = (403, _REFUSED) if code in self.server.taken else (200, _GIVEN)
        self.server.taken.append(code)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Nothing is written beside the tests' own output."""


@pytest.fixture
def sts() -> Iterator[OneTimeCodes]:
    with OneTimeCodes() as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield server
        server.shutdown()
        serving.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A person's home without anything of AWS in it or in the shell."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    aws_session.session_of.cache_clear()
    yield tmp_path
    aws_session.session_of.cache_clear()


def with_role_behind_a_device(home: Path, sts: OneTimeCodes, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "credentials").write_text("[me]\naws_access_key_id = AKIA\naws_secret_access_key = secret\n")
    (home / "config").write_text(
        "[profile prod]\nrole_arn = arn:aws:iam::111122223333:role/operators\nsource_profile = me\n"
        "mfa_serial = arn:aws:iam::111122223333:mfa/me\n"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{sts.server_port}")


def a_command(profile: str | None, asked: Callable[[str], str], region: str = "eu-west-1") -> str:
    """What `peaker` does in a process of its own: several clients, all signed; the key that they sign with."""
    aws_session.session_of.cache_clear()
    control = ControlPlane("prod", region, profile=profile)
    provider = aws_session.session_of(profile, region)._session.get_component("credential_provider")
    provider.get_provider("assume-role")._prompter = asked
    keys = {
        control.client(service)._request_signer._credentials.get_frozen_credentials().access_key
        for service in ("stepfunctions", "stepfunctions", "dynamodb", "ec2")
    }
    [key] = keys
    return str(key)


@pytest.mark.parametrize("named", ["--profile", "AWS_PROFILE"])
def test_a_code_is_asked_for_once_and_holds_for_the_commands_of_the_next_hour(
    home: Path, sts: OneTimeCodes, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    with_role_behind_a_device(home, sts, monkeypatch)
    if named == "AWS_PROFILE":
        monkeypatch.setenv("AWS_PROFILE", "prod")
    profile = "prod" if named == "--profile" else None
    # The device shows the same code for thirty seconds.
    assert [a_command(profile, lambda _: "123456") for _ in range(3)] == ["ASIAROLE"] * 3
    assert sts.taken == ["123456"]
    [kept] = (home / ".aws" / "cli" / "cache").iterdir()
    assert kept.stat().st_mode & 0o077 == 0


def test_a_home_that_takes_no_file_costs_a_code_each_command_and_fails_none(
    home: Path, sts: OneTimeCodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_role_behind_a_device(home, sts, monkeypatch)
    (home / ".aws").write_text("no folder")
    codes = iter(["111111", "222222"])
    assert [a_command("prod", lambda _: next(codes)) for _ in range(2)] == ["ASIAROLE"] * 2
    assert sts.taken == ["111111", "222222"]


def test_a_program_that_gives_credentials_runs_once(home: Path) -> None:
    program = credential_program(home, "AKIAGIVEN", "secret")
    assert a_command("prod", lambda _: "none") == "AKIAGIVEN"
    assert program.runs == 1


def test_a_role_is_asked_for_in_the_region_that_the_command_is_in(home: Path) -> None:
    (home / "config").write_text("[profile prod]\n")
    resolver = aws_session.session_of("prod", "cn-north-1")._session.get_component("credential_provider")
    asked = resolver.get_provider("assume-role")._client_creator(
        "sts", aws_access_key_id="a", aws_secret_access_key="b"
    )
    assert asked.meta.endpoint_url == "https://sts.cn-north-1.amazonaws.com.cn"
