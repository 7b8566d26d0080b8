"""The product as synthesised, deployed with everything that an environment can have: who is let through, and what no
role of it may do.

Every role tries what it must not be able to do: `make test` a sample of each role's calls, `make faults` all of them.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker_cli.control_plane import ControlPlane
from peaker_cli.doctor.account import look_at_account
from peaker_cli.doctor.gather import Inquiry

from cloud_rig.control import OPEN_QUEUE, eventually, unique
from cloud_rig.resources import ResourceCloud, open_cloud
from environments.schema import Environment, EnvironmentFileError, load_environment
from localcloud.deploy import deploy
from localcloud.extensions.events.eventbridge import Delivery, authorize
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.endpoint_settings import Route53EndpointSettings
from stacks import application
from stacks.application import build_app
from stacks.naming import Names
from stacks.people_statements import SETS, statements_for
from statemachines.expansion import workflow_names
from tests.support.deployed_product import lead_bundles_here
from tests.support.forbidden.cell import Cell
from tests.support.forbidden.roles import Role, deployed_roles, make_bounded, make_people, take_boundary_off
from tests.support.forbidden.setting import BeforeDeployment, make_setting
from tests.support.forbidden.trial import Trial

RECORD = "reads.shop.internal"
QUALIFIER = "acme"
FROM_CONTEXT = {"bundle": "sources", "@aws-cdk/core:bootstrapQualifier": QUALIFIER}
ACCOUNT = "123456789012"
OPERATOR_TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:peaker-local-operator-alarms"
ROLES = (
    *(f"function {one.name}" for one in FUNCTIONS),
    *(f"workflow {one}" for one in workflow_names()),
    *(f"people {one}" for one in SETS),
    "other",
)
# A role tries one of so many of its calls; there are more roles than that.
SAMPLE = 40
FEWEST = 200
FIGURES = Path(__file__).resolve().parents[2] / "build" / "bench" / "faults.json"


def environment_with_everything(before: BeforeDeployment) -> Environment:
    """The local environment with operators, a volume key, a second cluster behind a DNS name, and a bootstrap whose
    qualifier is its own, as many organizations prescribe: no default one is there."""
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
    return given.model_copy(
        update={"alarm_email": "dba@example.com", "bootstrap_qualifier": QUALIFIER, "clusters": clusters}
    )


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("templates")) / "cdk.out"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory, templates: Path) -> Iterator[Trial]:
    folder = Path(tmp_path_factory.mktemp("product"))
    with open_cloud(folder / "cloud", bootstrap_qualifier=QUALIFIER) as aws:
        before = BeforeDeployment.make(aws)
        environment = environment_with_everything(before)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(application, "load_environment", lambda _, **__: environment)
            build_app(environment="local", output=templates, context=FROM_CONTEXT, checked=False).synth()
        lead_bundles_here(templates)
        deploy(templates, aws.cloud.endpoint_url)
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


def told(aws: ResourceCloud, url: str) -> set[str]:
    """The alarms of which the queue has a message; others may go off meanwhile."""
    received = aws.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    return {json.loads(json.loads(one["Body"])["Message"])["AlarmName"] for one in received}


def test_an_alarm_pages_the_operators(aws: ResourceCloud) -> None:
    queue = unique("pager")
    url = aws.sqs.create_queue(QueueName=queue, Attributes={"Policy": json.dumps(OPEN_QUEUE)})["QueueUrl"]
    endpoint = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}"
    aws.sns.subscribe(TopicArn=OPERATOR_TOPIC, Protocol="sqs", Endpoint=endpoint)
    name = "peaker-local-scale_out-workflow-failed"
    aws.cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a run failed")
    eventually(lambda: name in told(aws, url))


def test_every_alarm_may_reach_the_operators_and_nobody_elses_alarm_does(aws: ResourceCloud) -> None:
    alarms = aws.cloudwatch.describe_alarms()["MetricAlarms"]
    telling = [alarm for alarm in alarms if alarm["AlarmActions"]]
    assert len(telling) > len(workflow_names())
    cloudwatch = "cloudwatch.amazonaws.com"
    for alarm in telling:
        for topic in alarm["AlarmActions"]:
            authorize(aws.cloud, Delivery(alarm["AlarmArn"], topic, "", service=cloudwatch))
    foreign = f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:another-product"
    with pytest.raises(ClientError, match="AccessDenied"):
        authorize(aws.cloud, Delivery(foreign, OPERATOR_TOPIC, "", service=cloudwatch))


def test_a_page_that_no_mail_server_takes_lies_in_the_topics_queue(aws: ResourceCloud) -> None:
    """Six hours of a mail server that is away; the alarm on the queue tells whoever gets mail again."""
    aws.cloud.faults.add("sns:dba@example.com", "ServerError", "the mail server is away")
    name = "peaker-local-scale_in-workflow-failed"
    aws.cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a run failed")
    url = aws.sqs.get_queue_url(QueueName="peaker-local-operator-alarms-undelivered")["QueueUrl"]
    eventually(lambda: name in told(aws, url))


def test_every_rule_may_reach_its_target_and_its_dead_letters(aws: ResourceCloud) -> None:
    rules = aws.events.list_rules()["Rules"]
    assert len(rules) >= 6
    for rule in rules:
        for target in aws.events.list_targets_by_rule(Rule=rule["Name"])["Targets"]:
            authorize(aws.cloud, Delivery(rule["Arn"], target["Arn"], "{}", target))
            authorize(aws.cloud, Delivery(rule["Arn"], target["DeadLetterConfig"]["Arn"], "{}"))


def test_a_rule_reaches_no_other_rules_dead_letters(aws: ResourceCloud) -> None:
    first, second = aws.events.list_rules()["Rules"][:2]
    [target] = aws.events.list_targets_by_rule(Rule=first["Name"])["Targets"]
    with pytest.raises(ClientError, match="AccessDenied"):
        authorize(aws.cloud, Delivery(second["Arn"], target["DeadLetterConfig"]["Arn"], "{}"))


def test_the_doctor_finds_the_bootstrap_that_the_deployment_used(aws: ResourceCloud) -> None:
    control = ControlPlane("local", "us-east-1", aws.cloud.endpoint_url)
    settings = ParameterClusters(control.client("ssm"), "local").settings("orders")
    facts = Inquiry(control.client, settings, control.clock.now()).account([])
    [bootstrap] = [one for one in look_at_account(settings, facts, 1, {}) if one.check == "bootstrap"]
    assert (bootstrap.verdict, bootstrap.detail) == ("pass", "version 28, needed is 6")


def test_an_operator_may_read_the_package_where_the_deployment_put_it(
    trial: Trial, aws: ResourceCloud
) -> None:
    found = getattr(aws, "lambda").get_function_configuration(
        FunctionName="peaker-local-install_host_package"
    )
    variables = found["Environment"]["Variables"]
    package = f"arn:aws:s3:::{variables['HOST_PACKAGE_BUCKET']}/{variables['HOST_PACKAGE_KEY']}"
    assert package.startswith("arn:aws:s3:::cdk-acme-assets-")
    operate = statements_for("operate", trial.setting.names)
    readable = [one.resources for one in operate if "s3:GetObject" in one.actions]
    assert [fnmatchcase(package, pattern) for [pattern] in readable] == [True]


def test_whoever_deploys_may_act_as_the_roles_that_the_templates_name(trial: Trial, templates: Path) -> None:
    texts = [path.read_text() for path in templates.rglob("*.json")]
    assert not [text for text in texts if "hnb659fds" in text]
    named = {
        artifact["properties"]["assumeRoleArn"].rsplit("/", 1)[-1]
        for text in texts
        for artifact in (json.loads(text).get("artifacts") or {}).values()
        if "assumeRoleArn" in artifact.get("properties", {})
    }
    deploying = statements_for("deploy", trial.setting.names)
    allowed = {name.rsplit("/", 1)[-1] for one in deploying for name in one.resources}
    assert named
    assert named <= allowed


def test_a_qualifier_of_the_context_alone_is_refused_with_the_line_to_write(tmp_path: Path) -> None:
    """The doctor and the people's policies would look elsewhere than the deployment."""
    with pytest.raises(EnvironmentFileError, match="bootstrap_qualifier: acme"):
        build_app(environment="local", output=tmp_path / "out", context=FROM_CONTEXT, checked=False)


def invoked(aws: ResourceCloud, function: str, given: dict[str, Any]) -> dict[str, Any]:
    answer = getattr(aws, "lambda").invoke(
        FunctionName=f"peaker-local-{function}", Payload=json.dumps(given).encode()
    )
    document: dict[str, Any] = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, document
    return document


def test_an_environment_sees_its_own_replicas_and_publishes_its_own_metrics(
    trial: Trial, aws: ResourceCloud
) -> None:
    """Another environment of the account has a cluster of the same name."""
    asked = {"run_id": "scale-in-orders-1", "cluster": "orders", "operation": "scale_in", "step": "PlanOnly"}
    instances = trial.setting.instances
    assert set(invoked(aws, "select_idle_replicas", asked)["candidates"]) == {
        instances["a base replica"],
        instances["own"],
    }
    invoked(aws, "forecast_load", {"cluster": "orders"})
    published = {
        name: len(aws.cloudwatch.list_metrics(Namespace=f"Peaker/{name}")["Metrics"])
        for name in ("local", "prod")
    }
    assert published["local"] > 0
    assert published["prod"] == 0


@pytest.fixture(scope="module")
def by_their_own_policies(trial: Trial) -> Trial:
    """Without the boundary, which would refuse much of it too."""
    for role in trial.roles:
        assert take_boundary_off(trial.aws.cloud, role) is (role.kind != "people"), f"{role} has no boundary"
    return trial


def test_no_role_is_left_out(trial: Trial) -> None:
    assert [str(role) for role in trial.roles if str(role) not in ROLES and role.kind != "other"] == []
    assert [name for name in ROLES if not trial.named(name)] == []
    assert [str(role) for role in trial.roles if len(trial.cells(role)) < FEWEST] == []


@pytest.mark.parametrize("name", ROLES)
def test_a_sample_of_what_is_forbidden_is_refused(by_their_own_policies: Trial, name: str) -> None:
    trial = by_their_own_policies
    assert [one for role in trial.named(name) for one in trial.went_through(role, _sample(trial, role))] == []


def test_who_may_everything_is_refused_it_within_the_boundary(trial: Trial) -> None:
    assert trial.went_through(trial.bounded, trial.cells(trial.bounded)) == []


@pytest.mark.every_state
@pytest.mark.timeout(1800)
def test_all_that_is_forbidden_is_refused(by_their_own_policies: Trial) -> None:
    """The figure of `make faults`: every call of every role, and what the boundary alone refuses."""
    trial = by_their_own_policies
    told, went_through, tried_calls = 0.0, [], 0
    for number, role in enumerate([*trial.roles, trial.bounded]):
        cells = trial.cells(role)
        tried_calls += len(cells)
        went_through += trial.went_through(role, cells)
        if time.monotonic() - told > 2:
            told = time.monotonic()
            print(f"{number + 1} of {len(trial.roles) + 1} roles, {tried_calls} calls", flush=True)
    _write_figures(tried_calls, tried_calls - len(went_through), len(trial.roles))
    assert went_through == []


def _write_figures(tried_calls: int, refused: int, roles: int) -> None:
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    known |= {
        "forbidden calls: roles that tried": {"value": roles, "must": "all", "holds": True},
        "forbidden calls tried / refused": {
            "value": refused,
            "must": tried_calls,
            "holds": refused == tried_calls,
        },
    }
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(known, indent=2) + "\n")


def _sample(trial: Trial, role: Role) -> list[Cell]:
    """Of each role other ones, the same in every run."""
    turn = trial.roles.index(role) % SAMPLE
    return [cell for cell in trial.cells(role) if zlib.crc32(cell.what.encode()) % SAMPLE == turn]
