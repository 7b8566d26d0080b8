"""The real workflows, functions, roles and SSM documents on the local cloud with a simulated data plane.

Nothing is bundled: the functions' package holds one module that leads Python to this checkout.
"""

from __future__ import annotations

import io
import json
import logging
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pydantic
import yaml
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.ledger import DynamoDbLedger

from environments.schema import load_environment
from lab.application_load import APPLICATION_LOAD
from lab.plugin import PURE
from localcloud.extensions.cloudwatch.metric_store import metric_key
from localcloud.extensions.cloudwatch.metrics import load_history
from localcloud.extensions.stepfunctions.executions import executions
from localcloud.open_cloud import CloudSettings
from localcloud.server import LocalCloud
from localcloud.simulated_dataplane import SimulatedDataPlane, simulated_dataplane
from peaker_contract.catalogue import FUNCTIONS
from stacks.naming import Names
from statemachines.expansion import as_text, in_partition, placeholder
from tests.support.balanced_endpoint import delete_balanced_endpoint, make_balanced_endpoint
from tests.support.builders import BY_NAME
from tests.support.deployed_roles import make_roles, names_of_any_cluster, role_arn, trust
from tests.support.host_answers import HostAnswers
from tests.support.workflows import MACHINES

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = "local"
NAMES = Names(load_environment(ENVIRONMENT))
TABLE = NAMES.ledger_table
BUCKET = "peaker-packages"
# Of an execution.
LIMIT_SECONDS = 400
LISTENER_PORTS = iter(range(20_000, 30_000))
# With the workflows that each starts and waits for.
WORKFLOWS = {
    "prewarm": (),
    "add_replica": ("prewarm",),
    "scale_out": ("add_replica",),
    "remove_replica": (),
    "scale_in": ("remove_replica",),
    "roll_back": (),
}
# Of the DNS names of clusters.
DOMAIN = "reads.example"
HOST_ROLE = "peaker-replica"
PACKAGE_SHA256 = "ab" * 32
CLOCK_SCALE = 600.0
# Of six hours each, which are 36 seconds here.
LOADED_PERIODS = 40
HOST_PACKAGE = "peaker_host.pyz"
BALANCED = ("target_group", "warming_target_group", "listener")
STEADY = {
    "capacity_per_replica": 100.0,
    "drain": {"limit_seconds": 28_800, "allow_forced": False},
    "retirement": {"idle_seconds": 60, "park": "never"},
    "ramp": {"shares": [1.0], "step_seconds": 60, "window_seconds": 1},
}


@dataclass
class Cluster:
    """A cluster that a test works on: a source, one base replica with two volumes, a read endpoint.

    Behind a DNS name it has no groups and no listener.
    """

    name: str
    source_id: str
    base_id: str
    target_group_arn: str
    warming_group_arn: str
    listener_arn: str
    settings: dict[str, Any]


def _has_ended(execution: Any) -> bool:
    """Whether its end is told whole: moto sets the status first."""
    told = {"SUCCEEDED": execution.output, "FAILED": execution.cause, "ABORTED": True, "TIMED_OUT": True}
    return execution.exec_status is not None and bool(told.get(execution.exec_status.value))


class WorkflowCloud:
    """An open local cloud with everything deployed, and what tests ask of it."""

    def __init__(self, cloud: LocalCloud, plane: SimulatedDataPlane, answers: HostAnswers) -> None:
        self.cloud = cloud
        self.plane = plane
        self.answers = answers
        self.machines: dict[str, str] = {}
        zone = self.client("route53").create_hosted_zone(Name=DOMAIN, CallerReference=DOMAIN)["HostedZone"]
        self._zone_id = str(zone["Id"]).rsplit("/", 1)[-1]
        self._clusters = 0
        # The read endpoints by cluster; a DNS name has none.
        self._open: dict[str, dict[str, str]] = {}

    def client(self, service: str) -> Any:
        return self.cloud.client(service)

    # -- deployment ------------------------------------------------------------------------------------------

    def deploy(self) -> None:
        self.client("dynamodb").create_table(
            TableName=TABLE,
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        for bucket in (BUCKET, NAMES.run_files_bucket):
            self.client("s3").create_bucket(Bucket=bucket)
        self.client("sns").create_topic(Name=NAMES.operator_topic)
        self._deploy_roles()
        self._deploy_documents()
        functions = self._deploy_functions()
        for name in WORKFLOWS:
            self.machines[name] = self._deploy_workflow(name, functions)

    def _deploy_roles(self) -> None:
        iam = self.client("iam")
        iam.create_role(RoleName=HOST_ROLE, AssumeRolePolicyDocument=trust("ec2.amazonaws.com"))
        iam.create_instance_profile(InstanceProfileName=HOST_ROLE)
        iam.add_role_to_instance_profile(InstanceProfileName=HOST_ROLE, RoleName=HOST_ROLE)
        package = f"arn:aws:s3:::{BUCKET}/{HOST_PACKAGE}"
        make_roles(iam, names_of_any_cluster(ENVIRONMENT, self._zone_id, DOMAIN, package), WORKFLOWS)

    def _deploy_documents(self) -> None:
        for path in sorted((ROOT / "ssm_documents").glob("*.yaml")):
            self.client("ssm").create_document(
                Name=f"Peaker-{ENVIRONMENT}-{path.stem}",
                Content=json.dumps(yaml.safe_load(path.read_text(encoding="utf-8"))),
                DocumentType="Command",
                DocumentFormat="JSON",
            )

    def _deploy_functions(self) -> dict[str, str]:
        code = _leading_package()
        arns = {}
        for definition in FUNCTIONS:
            answer = self.client("lambda").create_function(
                FunctionName=NAMES.function(definition.name),
                Runtime="python3.13",
                Role=role_arn(NAMES, NAMES.function(definition.name)),
                Handler=definition.handler,
                Code={"ZipFile": code},
                Timeout=60,
                MemorySize=256,
                Environment={"Variables": _variables()},
            )
            arns[definition.pascal_name] = answer["FunctionArn"]
        return arns

    def _deploy_workflow(self, name: str, functions: dict[str, str]) -> str:
        definition = in_partition(as_text(MACHINES[name]), "aws")
        for function, arn in functions.items():
            definition = definition.replace(f"${{{function}Arn}}", arn)
        for child in WORKFLOWS[name]:
            definition = definition.replace(placeholder(child, "StateMachine"), self.machines[child])
        answer = self.client("stepfunctions").create_state_machine(
            name=NAMES.state_machine(name),
            definition=definition,
            roleArn=role_arn(NAMES, NAMES.state_machine(name)),
        )
        return str(answer["stateMachineArn"])

    # -- clusters --------------------------------------------------------------------------------------------

    @contextmanager
    def own_clusters(self) -> Iterator[WorkflowCloud]:
        """Whatever clusters are made within are taken away at the end, so that later tests find the account as before.

        Their health checks would slow those down, their hosts count against the quotas.
        """
        others = set(self._open)
        try:
            yield self
        finally:
            self._close([name for name in self._open if name not in others])

    def _close(self, clusters: list[str]) -> None:
        for name in clusters:
            self.client("ssm").delete_parameters(Names=[_settings_parameter(name)])
            endpoint = self._open.pop(name)
            if endpoint:
                delete_balanced_endpoint(self.client("elbv2"), endpoint)
            self._terminate(name)

    def _terminate(self, cluster: str) -> None:
        ec2 = self.client("ec2")
        running = [
            {"Name": "tag:peaker:cluster", "Values": [cluster]},
            {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
        ]
        groups = ec2.describe_instances(Filters=running)["Reservations"]
        ec2.terminate_instances(
            InstanceIds=[one["InstanceId"] for group in groups for one in group["Instances"]]
        )

    def cluster(self, size_gib: int = 4, **changes: Any) -> Cluster:
        """A new cluster, healthy and serving; `changes` go over the local environment's settings.

        With `kms_key_arns` its data volumes are under the first of those keys.
        """
        name = self._next_name()
        endpoint = self._read_endpoint(name, changes.get("read_endpoint", {}).get("health_port", 9200))
        cluster = self._cluster(name, endpoint, changes, size_gib)
        self._put_into_service(cluster, cluster.base_id)
        self.eventually(lambda: self.health(cluster).get(cluster.base_id) == "healthy")
        return cluster

    def cluster_by_name(self, **changes: Any) -> Cluster:
        """A new cluster behind a DNS name that knows no replica yet."""
        name = self._next_name()
        endpoint = {**BY_NAME, "hosted_zone_id": self._zone_id, "record_name": f"{name}.{DOMAIN}"}
        return self._cluster(name, {}, {**changes, "read_endpoint": endpoint})

    def _next_name(self) -> str:
        self._clusters += 1
        name = f"c{self._clusters:03d}"
        self._open[name] = {}
        return name

    def _cluster(
        self, name: str, balanced: dict[str, str], changes: dict[str, Any], size_gib: int = 4
    ) -> Cluster:
        """Its settings and hosts; nobody is registered."""
        settings = _settings(name, balanced, changes)
        self.client("ssm").put_parameter(
            Name=_settings_parameter(name), Value=json.dumps(settings), Type="String"
        )
        source = self._host(settings, "us-east-1a", {"peaker:role": "source"})
        base = self._host(settings, "us-east-1b", {"peaker:role": "replica", "peaker:load": "base"})
        self._data_volumes(settings, base, "us-east-1b", size_gib)
        arns = (balanced.get(f"{which}_arn", "") for which in BALANCED)
        return Cluster(name, source, base, *arns, settings)

    def _read_endpoint(self, name: str, health_port: int) -> dict[str, str]:
        """ARNs by their names in the settings: the serving group, the warming group, the listener."""
        endpoint = make_balanced_endpoint(
            self.client("elbv2"),
            name,
            next(LISTENER_PORTS),
            HealthCheckPort=str(health_port),
            HealthCheckIntervalSeconds=5,
            HealthCheckTimeoutSeconds=2,
            HealthyThresholdCount=2,
            UnhealthyThresholdCount=2,
        )
        self._open[name] = endpoint
        return endpoint

    def _put_into_service(self, cluster: Cluster, instance_id: str) -> None:
        """In both groups, as a finished ramp leaves a replica."""
        for group in (cluster.target_group_arn, cluster.warming_group_arn):
            self.client("elbv2").register_targets(
                TargetGroupArn=group, Targets=[{"Id": instance_id, "Port": 3306}]
            )
        self.eventually(lambda: self.health(cluster).get(instance_id) == "healthy")
        self.eventually(lambda: self.warming_health(cluster).get(instance_id) == "healthy")

    def _host(self, settings: dict[str, Any], zone: str, tags: dict[str, str]) -> str:
        ec2 = self.client("ec2")
        answer = ec2.run_instances(
            ImageId=settings["image_id"],
            InstanceType=settings["instance_type"],
            MinCount=1,
            MaxCount=1,
            SubnetId=settings["subnets"][zone],
            TagSpecifications=[
                _tags(
                    "instance",
                    {"peaker:cluster": settings["name"], "peaker:environment": ENVIRONMENT, **tags},
                )
            ],
        )
        instance_id = str(answer["Instances"][0]["InstanceId"])
        self.eventually(lambda: self.instance_state(instance_id) == "running")
        return instance_id

    def _data_volumes(self, settings: dict[str, Any], instance_id: str, zone: str, size_gib: int) -> None:
        ec2 = self.client("ec2")
        keys = settings.get("kms_key_arns", [])[:1]
        encryption = {"Encrypted": True, "KmsKeyId": keys[0]} if keys else {}
        for volume in settings["volumes"]:
            tags = {"peaker:cluster": settings["name"], "peaker:volume": volume["name"]}
            volume_id = ec2.create_volume(
                AvailabilityZone=zone,
                Size=size_gib,
                VolumeType="gp3",
                TagSpecifications=[_tags("volume", tags)],
                **encryption,
            )["VolumeId"]
            self.eventually(lambda one=volume_id: self._volume_state(one) == "available")
            ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device=volume["device"])
            self.eventually(lambda one=volume_id: self._volume_state(one) == "in-use")

    def set_load(self, cluster: Cluster, load: float, required_replicas: float) -> None:
        """The load metric, as high in the last period as in the one that runs, and what forecast_load publishes.

        The load is so high in the periods to come as well: a busy machine's run may take some of them.
        """
        now = self.cloud.clock.now()
        metric = cluster.settings["load_metric"]
        dimensions = [{"Name": name, "Value": value} for name, value in metric["dimensions"].items()]
        self.cloud.metrics.forget(metric_key(metric["namespace"], metric["name"], dimensions))
        period = timedelta(seconds=metric["period_seconds"])
        points = [(now + period * number, load) for number in range(-1, LOADED_PERIODS)]
        opened: Any = self.cloud
        load_history(opened, metric["namespace"], metric["name"], metric["dimensions"], points)
        datum = {
            "MetricName": "RequiredReplicas",
            "Dimensions": [{"Name": "Cluster", "Value": cluster.name}],
            "Timestamp": now,
            "Value": required_replicas,
        }
        self.client("cloudwatch").put_metric_data(Namespace=NAMES.metric_namespace, MetricData=[datum])

    # -- executions ------------------------------------------------------------------------------------------

    def run(self, workflow: str, given: Any) -> dict[str, Any]:
        """Start an execution and wait for its end; returns DescribeExecution with the parsed output."""
        return self.finish(self.start(workflow, given))

    def start(self, workflow: str, given: Any) -> str:
        """Start an execution; returns its ARN."""
        answer = self.client("stepfunctions").start_execution(
            stateMachineArn=self.machines[workflow], input=json.dumps(given)
        )
        return str(answer["executionArn"])

    def finish(self, arn: str) -> dict[str, Any]:
        """Wait for an execution's end; returns DescribeExecution with the parsed output."""
        stepfunctions = self.client("stepfunctions")
        deadline = time.monotonic() + LIMIT_SECONDS
        # As it is in this process: a look over the API costs as much as a step of the workflow.
        [running] = [one for one in executions() if one.exec_arn == arn]
        while not _has_ended(running):
            if time.monotonic() > deadline:
                stepfunctions.stop_execution(executionArn=arn)
                raise AssertionError(f"{arn} did not end in {LIMIT_SECONDS} s; last: {self.last_events(arn)}")
            time.sleep(0.02)
        answer: dict[str, Any] = stepfunctions.describe_execution(executionArn=arn)
        if answer["status"] == "SUCCEEDED" and "output" not in answer:
            answer = stepfunctions.describe_execution(executionArn=arn)
        answer["document"] = json.loads(answer["output"]) if answer.get("output") else None
        return answer

    def last_events(self, arn: str) -> list[Any]:
        events = self.client("stepfunctions").get_execution_history(
            executionArn=arn, reverseOrder=True, maxResults=200
        )["events"]
        return [
            {key: value for key, value in event.items() if key not in {"timestamp", "id", "previousEventId"}}
            for event in events[:8]
        ]

    def last_state(self, execution: dict[str, Any]) -> str:
        """The state that the execution entered last; empty before the first."""
        # As it is in this process: pages of history over the API take as long as some steps of a workflow.
        [found] = [one for one in executions() if one.exec_arn == execution["executionArn"]]
        entered = [
            event["stateEnteredEventDetails"]["name"]
            for event in list(found.to_history_output()["events"] if found.exec_worker is not None else ())
            if "stateEnteredEventDetails" in event
        ]
        return str(entered[-1]) if entered else ""

    def states_now(self, execution_arn: str) -> list[str]:
        """The state that an execution is in, and those of the executions that it waits for."""
        children = [one.exec_arn for one in executions() if execution_arn in json.dumps(one.execution_input)]
        below = [state for child in children for state in self.states_now(child)]
        return [self.last_state({"executionArn": execution_arn}), *below]

    # -- what there is ---------------------------------------------------------------------------------------

    def health(self, cluster: Cluster) -> dict[str, str]:
        """States in the serving group by instance id."""
        return self._states(cluster.target_group_arn)

    def warming_health(self, cluster: Cluster) -> dict[str, str]:
        """States in the warming group by instance id."""
        return self._states(cluster.warming_group_arn)

    def _states(self, group: str) -> dict[str, str]:
        answer = self.client("elbv2").describe_target_health(TargetGroupArn=group)
        return {
            one["Target"]["Id"]: one["TargetHealth"]["State"] for one in answer["TargetHealthDescriptions"]
        }

    def instance_state(self, instance_id: str) -> str:
        found = self.client("ec2").describe_instances(
            Filters=[{"Name": "instance-id", "Values": [instance_id]}]
        )
        states = [one["State"]["Name"] for group in found["Reservations"] for one in group["Instances"]]
        return states[0] if states else ""

    def _volume_state(self, volume_id: str) -> str:
        found = self.client("ec2").describe_volumes(Filters=[{"Name": "volume-id", "Values": [volume_id]}])
        return found["Volumes"][0]["State"] if found["Volumes"] else ""

    def made_by_peaker(self, cluster: Cluster) -> list[str]:
        """Ids of everything of the cluster that carries the owner tag and is not gone."""
        ec2 = self.client("ec2")
        filters = [
            {"Name": "tag:peaker:cluster", "Values": [cluster.name]},
            {"Name": "tag-key", "Values": ["peaker:owner"]},
        ]
        instances = [
            one["InstanceId"]
            for group in ec2.describe_instances(Filters=filters)["Reservations"]
            for one in group["Instances"]
            if one["State"]["Name"] != "terminated"
        ]
        volumes = [one["VolumeId"] for one in ec2.describe_volumes(Filters=filters)["Volumes"]]
        snapshots = [
            one["SnapshotId"]
            for one in ec2.describe_snapshots(OwnerIds=["self"], Filters=filters)["Snapshots"]
            if one["SnapshotId"] not in self.kept_snapshots(cluster)
        ]
        return [*instances, *volumes, *snapshots]

    def kept_snapshots(self, cluster: Cluster) -> set[str]:
        """The members of the sets that outlive their runs, by the ledger."""
        ledger = DynamoDbLedger(LedgerTable(self.client("dynamodb"), TABLE))
        return {one for kept in ledger.snapshot_sets(cluster.name) for one in kept.snapshot_ids}

    def lease_is_free(self, cluster: Cluster) -> bool:
        item = (
            self.client("dynamodb")
            .get_item(TableName=TABLE, Key={"pk": {"S": f"cluster#{cluster.name}"}, "sk": {"S": "lease"}})
            .get("Item")
        )
        return item is None or item["run_id"]["S"] == "-"

    def rows(self, pk: str) -> list[dict[str, Any]]:
        """The plain items of one partition of the ledger."""
        answer = self.client("dynamodb").query(
            TableName=TABLE, KeyConditionExpression="pk = :pk", ExpressionAttributeValues={":pk": {"S": pk}}
        )
        return [
            {name: next(iter(value.values())) for name, value in item.items()} for item in answer["Items"]
        ]

    def runs(self, cluster: Cluster) -> list[str]:
        return [row["run_id"] for row in self.rows(f"cluster#{cluster.name}") if row["sk"].startswith("run#")]

    def receipt(self, run_id: str) -> dict[str, Any]:
        found = [row for row in self.rows(f"run#{run_id}") if row["sk"] == "receipt"]
        return dict(json.loads(found[0]["document"]))

    @staticmethod
    def eventually(look: Any, seconds: float = 240.0) -> None:
        deadline = time.monotonic() + seconds
        while not look():
            assert time.monotonic() < deadline, f"not true within {seconds} s"
            time.sleep(0.02)


@contextmanager
def workflow_cloud(state_dir: Path) -> Iterator[WorkflowCloud]:
    """Open a cloud with everything deployed; nothing is left of it afterwards."""
    answers = HostAnswers()
    plane = simulated_dataplane(answers)
    plane.endpoints.responds = answers.answers_probes
    settings = CloudSettings(describe_delay_seconds=0.02, snapshot_seconds=0.05, lambda_preload=PURE)
    with LocalCloud(plane, state_dir, clock_scale=CLOCK_SCALE, settings=settings) as cloud:
        # Thousands of requests: a line per request, flushed, would cost a fifth of the time.
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        workflows = WorkflowCloud(cloud, plane, answers)
        workflows.deploy()
        yield workflows


def _leading_package() -> bytes:
    """A deployment package that leads to this checkout's functions and this environment's packages."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(*leader_module())
    return packed.getvalue()


def leader_module() -> tuple[zipfile.ZipInfo, str]:
    """A module `pydantic` that is found first, puts the real paths in front and hands over to the real pydantic."""
    paths = [str(ROOT / "functions"), str(ROOT), str(Path(pydantic.__file__).parents[1])]
    module = f"import sys\nsys.path[:0] = {paths!r}\ndel sys.modules['pydantic']\nimport pydantic\n"
    return zipfile.ZipInfo("pydantic.py", (2026, 1, 1, 0, 0, 0)), module


def _variables() -> dict[str, str]:
    return {
        "PEAKER_ENVIRONMENT": ENVIRONMENT,
        "LEDGER_TABLE": TABLE,
        "HOST_PACKAGE_BUCKET": BUCKET,
        "HOST_PACKAGE_KEY": HOST_PACKAGE,
        "HOST_PACKAGE_SHA256": PACKAGE_SHA256,
        "RUN_FILES_BUCKET": NAMES.run_files_bucket,
        "STATE_MACHINE_PREFIX": NAMES.state_machine_arn(""),
        "OPERATOR_TOPIC_ARN": NAMES.operator_topic_arn,
        "POWERTOOLS_SERVICE_NAME": "peaker",
        "POWERTOOLS_METRICS_NAMESPACE": NAMES.metric_namespace,
        "LOG_LEVEL": "INFO",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _settings_parameter(name: str) -> str:
    return f"/peaker/{ENVIRONMENT}/clusters/{name}"


def _settings(name: str, endpoint: dict[str, str], changes: dict[str, Any]) -> dict[str, Any]:
    environment = yaml.safe_load((ROOT / "environments" / "local.yaml").read_text(encoding="utf-8"))
    settings: dict[str, Any] = {
        **environment["clusters"][0],
        **APPLICATION_LOAD,
        "name": name,
        **STEADY,
        **changes,
    }
    settings["environment"] = ENVIRONMENT
    settings["region"] = environment["region"]
    # Cloud time runs 600 times as fast here: what goes stale or runs out within hours must not do so within seconds.
    settings["load_metric"] = {
        **settings["load_metric"], "dimensions": {"Cluster": name}, "period_seconds": 21_600
    }  # fmt: skip
    settings["forecast"] = {**settings["forecast"], "schedule_minutes": 720}
    settings["read_endpoint"] = {**settings["read_endpoint"], **endpoint}
    return settings


def _tags(resource_type: str, tags: dict[str, str]) -> dict[str, Any]:
    return {
        "ResourceType": resource_type,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
