"""An account whose bootstrap has a qualifier of its own, as many organizations prescribe: no default one is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker_cli.control_plane import ControlPlane
from peaker_cli.doctor.account import look_at_account
from peaker_cli.doctor.gather import Inquiry

from cloud_rig.resources import open_cloud
from environments.schema import Environment, EnvironmentFileError, load_environment
from localcloud.deploy import deploy
from peaker_contract.cluster import ClusterSettings
from stacks import application
from stacks.application import build_app
from stacks.naming import Names
from stacks.people_statements import statements_for
from tests.support.deployed_product import lead_bundles_here

QUALIFIER = "acme"
FROM_CONTEXT = {"bundle": "sources", "@aws-cdk/core:bootstrapQualifier": QUALIFIER}


def with_qualifier(name: str, now: datetime | None = None) -> Environment:
    return load_environment(name, now=now).model_copy(update={"bootstrap_qualifier": QUALIFIER})


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the local environment, as `npx cdk deploy` writes them where the context names the qualifier as well."""
    output = Path(tmp_path_factory.mktemp("templates")) / "cdk.out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "load_environment", with_qualifier)
        build_app(environment="local", output=output, context=FROM_CONTEXT, checked=False).synth()
    lead_bundles_here(output)
    return output


@pytest.fixture(scope="module")
def control(templates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = Path(tmp_path_factory.mktemp("cloud"))
    with open_cloud(folder, bootstrap_qualifier=QUALIFIER) as opened:
        deploy(templates, opened.cloud.endpoint_url)
        yield ControlPlane("local", "us-east-1", opened.cloud.endpoint_url)


@pytest.fixture
def settings(control: ControlPlane) -> ClusterSettings:
    return ParameterClusters(control.client("ssm"), "local").settings("orders")


def test_the_doctor_finds_the_bootstrap_that_the_deployment_used(
    control: ControlPlane, settings: ClusterSettings
) -> None:
    facts = Inquiry(control.client, settings, control.clock.now()).account([])
    [bootstrap] = [one for one in look_at_account(settings, facts, 1, {}) if one.check == "bootstrap"]
    assert (bootstrap.verdict, bootstrap.detail) == ("pass", "version 28, needed is 6")


def test_an_operator_may_read_the_package_where_the_deployment_put_it(control: ControlPlane) -> None:
    found = control.client("lambda").get_function_configuration(
        FunctionName="peaker-local-install_host_package"
    )
    variables = found["Environment"]["Variables"]
    package = f"arn:aws:s3:::{variables['HOST_PACKAGE_BUCKET']}/{variables['HOST_PACKAGE_KEY']}"
    assert package.startswith("arn:aws:s3:::cdk-acme-assets-")
    operate = statements_for("operate", Names(with_qualifier("local")))
    readable = [one.resources for one in operate if "s3:GetObject" in one.actions]
    assert [fnmatchcase(package, pattern) for [pattern] in readable] == [True]


def test_whoever_deploys_may_act_as_the_roles_that_the_templates_name(templates: Path) -> None:
    texts = [path.read_text() for path in templates.rglob("*.json")]
    assert not [text for text in texts if "hnb659fds" in text]
    named = {
        artifact["properties"]["assumeRoleArn"].rsplit("/", 1)[-1]
        for text in texts
        for artifact in (json.loads(text).get("artifacts") or {}).values()
        if "assumeRoleArn" in artifact.get("properties", {})
    }
    deploying = statements_for("deploy", Names(with_qualifier("local")))
    allowed = {name.rsplit("/", 1)[-1] for one in deploying for name in one.resources}
    assert named
    assert named <= allowed


def test_a_qualifier_of_the_context_alone_is_refused_with_the_line_to_write(tmp_path: Path) -> None:
    """The doctor and the people's policies would look elsewhere than the deployment."""
    with pytest.raises(EnvironmentFileError, match="bootstrap_qualifier: acme"):
        build_app(environment="local", output=tmp_path / "out", context=FROM_CONTEXT, checked=False)
