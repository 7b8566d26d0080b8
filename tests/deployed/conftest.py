"""A deployment of everything that an environment can have, and all of its roles, for a file that tries them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peaker_cli.aws_session import session_of

from cloud_rig.resources import ResourceCloud, open_cloud
from environments.schema import Environment, load_environment
from localcloud.deploy import deploy
from peaker_contract.endpoint_settings import Route53EndpointSettings
from stacks import application
from stacks.application import build_app
from stacks.naming import Names
from tests.support.forbidden.roles import deployed_roles, make_bounded, make_people
from tests.support.forbidden.setting import BeforeDeployment, make_setting
from tests.support.forbidden.trial import Trial

RECORD = "reads.shop.internal"


@pytest.fixture(autouse=True)
def new_sessions() -> None:
    """Each test's people are of its own cloud; a command is a process, so that it keeps no other one's keys."""
    session_of.cache_clear()


def environment_with_everything(before: BeforeDeployment) -> Environment:
    """The local environment with operators, a volume key, and a second cluster behind a DNS name."""
    given = load_environment("local")
    [orders] = given.clusters
    by_name = Route53EndpointSettings(
        kind="route53",
        port=3306,
        health_port=9200,
        hosted_zone_id=before.own_zone,
        record_name=RECORD,
        ttl_seconds=30,
    )
    clusters = (
        orders.model_copy(update={"kms_key_arns": (before.own_key,)}),
        orders.model_copy(update={"name": "reports", "read_endpoint": by_name}),
    )
    return given.model_copy(update={"alarm_email": "dba@example.com", "clusters": clusters})


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = Path(tmp_path_factory.mktemp("product"))
    with open_cloud(folder / "cloud") as aws:
        before = BeforeDeployment.make(aws)
        environment = environment_with_everything(before)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(application, "load_environment", lambda _, **__: environment)
            build_app(
                environment="local", output=folder / "cdk.out", context={"bundle": "sources"}, checked=False
            ).synth()
        deploy(folder / "cdk.out", aws.cloud.endpoint_url)
        names = Names(environment)
        roles = deployed_roles(aws.cloud, names)
        bounded = make_bounded(aws.cloud, names)
        yield Trial(
            aws,
            make_setting(aws, names, before, RECORD),
            [*roles, *make_people(aws.cloud, names)],
            bounded,
        )


@pytest.fixture(scope="module")
def aws(trial: Trial) -> ResourceCloud:
    return trial.aws
