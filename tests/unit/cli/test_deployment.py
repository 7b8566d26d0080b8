"""Where a command finds the environment, the region, the profile and the endpoint that a person left out."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from botocore.session import Session
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import (
    DeploymentOptions,
    DeploymentUnclear,
    Surroundings,
    is_local_cloud,
    regions_of_environments,
    resolve_deployment,
    takes_deployment,
)
from typer.testing import CliRunner

CLOUD = "http://127.0.0.1:4566"
PROD, DEV, LOCAL = ("prod", "eu-west-1"), ("dev", "us-east-1"), ("local", "us-east-1")


def around(*files: tuple[str, str], profile_region: str | None = None, **variables: str) -> Surroundings:
    return Surroundings(variables, profile_region, dict(files))


def found(options: DeploymentOptions, here: Surroundings) -> tuple[str, str, tuple[str, ...]]:
    deployment = resolve_deployment(options, here)
    return deployment.environment, deployment.region, deployment.notes


GIVEN = DeploymentOptions("prod", "eu-west-1")
PROD_ONLY = "environment prod (the only one in environments/), region eu-west-1 (environments/prod.yaml)"


@pytest.mark.parametrize(
    ("options", "here", "notes"),
    [
        (GIVEN, around(PEAKER_ENV="dev", AWS_REGION="us-west-2"), ()),
        (
            DeploymentOptions(),
            around(
                PEAKER_ENV="prod", AWS_REGION="eu-west-1", AWS_DEFAULT_REGION="us-west-2", profile_region="x"
            ),
            (),
        ),
        (DeploymentOptions(), around(PEAKER_ENV="prod", AWS_DEFAULT_REGION="eu-west-1"), ()),
        (DeploymentOptions("prod"), around(profile_region="eu-west-1"), ()),
        (DeploymentOptions("prod"), around(PROD, DEV), ("region eu-west-1 (environments/prod.yaml)",)),
        (DeploymentOptions(), around(PROD, LOCAL), (PROD_ONLY,)),
    ],
    ids=["options", "variables", "the default region", "the profile", "the file", "the only environment"],
)
def test_what_is_left_out_is_found_in_this_order_and_what_nobody_named_is_said(
    options: DeploymentOptions, here: Surroundings, notes: tuple[str, ...]
) -> None:
    assert found(options, here) == ("prod", "eu-west-1", notes)


@pytest.mark.parametrize("here", [around(), around(PROD, DEV, LOCAL), around(LOCAL)])
def test_no_environment_is_ever_assumed_where_there_is_a_choice_or_none(here: Surroundings) -> None:
    with pytest.raises(DeploymentUnclear, match=r"--env prod, or set PEAKER_ENV"):
        resolve_deployment(DeploymentOptions(region="eu-west-1"), here)


def test_the_environments_to_choose_from_are_named() -> None:
    with pytest.raises(DeploymentUnclear, match="this checkout has dev, local, prod"):
        resolve_deployment(DeploymentOptions(), around(PROD, DEV, LOCAL))


PARTITIONS = Session().get_available_partitions()
REGIONS = sorted(one for name in PARTITIONS for one in Session().get_available_regions("ec2", name))


def test_every_region_that_aws_has_is_one() -> None:
    assert "eusc-de-east-1" in REGIONS
    assert [found(DeploymentOptions("prod", region), around())[1] for region in REGIONS] == REGIONS


def test_no_region_is_ever_assumed() -> None:
    with pytest.raises(DeploymentUnclear, match=r"--region, set AWS_REGION, or choose a --profile"):
        resolve_deployment(DeploymentOptions("prod"), around())


@pytest.mark.parametrize(
    ("options", "here", "said"),
    [
        (
            DeploymentOptions("prod"),
            around(PROD, profile_region="us-east-1"),
            "region us-east-1 from the default profile, but environments/prod.yaml says eu-west-1; --region decides",
        ),
        (
            DeploymentOptions("prod", profile="orders"),
            around(AWS_REGION="us-east-1", profile_region="eu-west-1"),
            "region us-east-1 from AWS_REGION, but profile orders says eu-west-1; --region decides",
        ),
        (
            DeploymentOptions("prod", "us-west-2"),
            around(PROD),
            "region us-west-2 from --region, but environments/prod.yaml says eu-west-1; --region decides",
        ),
    ],
)
def test_a_contradiction_is_said(options: DeploymentOptions, here: Surroundings, said: str) -> None:
    assert resolve_deployment(options, here).notes == (said,)


def test_a_local_cloud_has_its_own_environment_and_region_whatever_the_shell_has_for_aws() -> None:
    here = around(AWS_REGION="eu-west-1", profile_region="eu-west-1")
    said = "environment local (a local cloud's), region us-east-1 (a local cloud's)"
    assert found(DeploymentOptions(endpoint=CLOUD), here) == ("local", "us-east-1", (said,))
    assert found(DeploymentOptions(), around(AWS_ENDPOINT_URL=CLOUD)) == ("local", "us-east-1", (said,))


def test_another_environment_on_a_local_cloud_is_in_its_own_region() -> None:
    options = DeploymentOptions("prod", endpoint=CLOUD)
    assert found(options, around(PROD))[1] == "eu-west-1"
    assert found(options, around(AWS_REGION="eu-west-1"))[1] == "eu-west-1"
    assert found(options, around())[1] == "us-east-1"


def test_an_endpoint_elsewhere_is_no_local_cloud() -> None:
    here = around(AWS_ENDPOINT_URL="https://aws.example.com")
    with pytest.raises(DeploymentUnclear, match="which environment"):
        resolve_deployment(DeploymentOptions(), here)
    assert (
        resolve_deployment(DeploymentOptions("prod", "eu-west-1"), here).endpoint_url
        == "https://aws.example.com"
    )


def test_endpoints_that_aws_clients_are_told_to_ignore_are_ignored() -> None:
    here = around(AWS_ENDPOINT_URL=CLOUD, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true")
    assert resolve_deployment(DeploymentOptions("prod", "eu-west-1"), here).endpoint_url is None


@pytest.mark.parametrize(
    ("url", "local"),
    [
        (CLOUD, True),
        ("http://localhost:4566", True),
        ("http://[::1]:4566", True),
        ("http://127.8.0.1", True),
        ("http://10.77.0.1:4566", False),
        ("https://127.0.0.1.example.com", False),
        (None, False),
    ],
)
def test_a_local_cloud_is_on_a_loopback_address(url: str | None, local: bool) -> None:
    assert is_local_cloud(url) is local


@pytest.mark.parametrize(
    ("options", "here", "named"),
    [
        (DeploymentOptions("Prod", "eu-west-1"), around(), "--env 'Prod'"),
        (DeploymentOptions(region="eu-west-1"), around(PEAKER_ENV="pre-prod"), "PEAKER_ENV 'pre-prod'"),
        (DeploymentOptions("prod", "eu-west-1a"), around(), "--region: 'eu-west-1a'"),
        (DeploymentOptions("prod"), around(AWS_REGION="ireland"), "AWS_REGION: 'ireland'"),
        (
            DeploymentOptions("prod", "eu-west-1", endpoint="localhost:4566"),
            around(),
            "--endpoint 'localhost:4566'",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_where_it_came_from(
    options: DeploymentOptions, here: Surroundings, named: str
) -> None:
    with pytest.raises(DeploymentUnclear, match=named):
        resolve_deployment(options, here)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with prod and local, in a shell without any AWS setting."""
    for name in (
        *("PEAKER_ENV", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
        "AWS_ENDPOINT_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    root = tmp_path / "checkout"
    (root / "environments").mkdir(parents=True)
    (root / "cdk.json").write_text("{}")
    (root / "environments" / "schema.py").write_text("")
    (root / "environments" / "prod.yaml").write_text("environment: prod\nregion: eu-west-1\n")
    (root / "environments" / "local.yaml").write_text("region: us-east-1\n")
    return root


def test_a_checkout_is_found_from_any_folder_in_it_and_nowhere_else(checkout: Path) -> None:
    (checkout / "docs").mkdir()
    (checkout / "environments" / "half.yaml").write_text("region: [")
    assert regions_of_environments(checkout / "docs") == {"half": None, **dict((LOCAL, PROD))}
    assert regions_of_environments(checkout.parent) == {}


def command_app() -> typer.Typer:
    def show(cluster: str, deployment: DeploymentOptions, as_json: bool = False) -> None:
        control = ControlPlane.of(deployment)
        typer.echo(f"{cluster} {control.environment} {control.region} {control.profile} {as_json}")

    app = typer.Typer()
    app.command()(takes_deployment(show))
    return app


def test_a_command_takes_the_options_beside_its_own(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout.parent / "config").write_text("[profile shop]\nregion = eu-west-1\n")
    monkeypatch.chdir(checkout.parent)
    run = CliRunner().invoke(command_app(), ["orders", "--env", "prod", "--profile", "shop", "--as-json"])
    assert (run.exit_code, run.stdout, run.stderr) == (0, "orders prod eu-west-1 shop True\n", "")


def test_what_is_found_is_said_on_stderr(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    run = CliRunner().invoke(command_app(), ["orders"])
    assert (run.exit_code, run.stdout) == (0, "orders prod eu-west-1 None False\n")
    assert run.stderr == (
        "peaker: environment prod (the only one in environments/), region eu-west-1 (environments/prod.yaml)\n"
    )


def test_a_profile_that_is_not_there_is_named_with_those_that_are(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout.parent / "config").write_text("[profile shop]\nregion = eu-west-1\n")
    monkeypatch.chdir(checkout.parent)
    run = CliRunner().invoke(command_app(), ["orders", "--env", "prod", "--profile", "stop"])
    assert (run.exit_code, run.stdout) == (2, "")
    assert run.stderr == "peaker: no AWS profile 'stop' in ~/.aws/config; there are: shop\n"
