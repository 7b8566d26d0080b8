"""What may be redeployed at any time: functions, workflows, documents, rules, and each cluster's settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_ssm as ssm
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from environments.clusters_by_endpoint import by_endpoint
from environments.schema import Cluster
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.cluster import deployed_document
from peaker_contract.endpoint_settings import NlbEndpoint, Route53EndpointSettings
from peaker_contract.metrics import CLUSTER_DIMENSION, SERVICE, Metric
from peaker_contract.names import failed_invocations
from stacks.constructs.acknowledgements import acknowledge_no_bucket_log
from stacks.constructs.boundary import bound_all_roles
from stacks.constructs.dead_letters import dead_letter_queue
from stacks.constructs.encryption import data_key
from stacks.constructs.event_route import EventRoute
from stacks.constructs.operator_alarm import runbook_description
from stacks.constructs.python_function import PythonFunction
from stacks.constructs.read_endpoint import ReadEndpoint
from stacks.constructs.run_command_document import RunCommandDocument
from stacks.constructs.workflow import Workflow
from stacks.host_package import HostPackage
from stacks.naming import Names
from stacks.permissions import Deployment
from stacks.role_statements import function_statements
from statemachines.expansion import workflow_names

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENTS = REPOSITORY / "ssm_documents"
RUN_FILES_KEPT = Duration.days(4)
SCHEDULED_CHECK = Duration.hours(1)
SWEEP_EVERY = Duration.minutes(3)
PRICES_LOOKED_AT = Duration.hours(1)
SNAPSHOTS_LOOKED_AT = Duration.hours(1)
# An alarm's event is still worth acting on after this long; the scheduled check covers the rest.
LONGEST_ALARM_EVENT_AGE_SECONDS = 3600
# What a stopped run left costs money until it is undone, however late that is: EventBridge's own limit.
LONGEST_STOP_EVENT_AGE_SECONDS = 86_400


def pascal_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.replace("-", "_").split("_"))


class ControlPlaneStack(Stack):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        code: lambda_.Code,
        host_package: HostPackage,
        **stack: object,
    ) -> None:
        super().__init__(scope, construct_id, **stack)  # type: ignore[arg-type]
        self._names = names
        self._key = data_key(self, names)
        self.topic = self._operator_topic()
        package = assets.Asset(
            self, "HostPackage", path=str(host_package.path), asset_hash=host_package.sha256
        )
        endpoints = self._balanced_endpoints()
        self._prices()
        for cluster in names.environment.clusters:
            self._cluster_settings(cluster, endpoints.get(cluster.name))
        for path in sorted(DOCUMENTS.glob("*.yaml")):
            name = path.stem
            RunCommandDocument(self, f"{pascal_case(name)}Document", name=names.document(name), path=path)

        self._run_files_bucket()
        deployment = Deployment(
            names=names,
            target_group_arns=[arn for endpoint in endpoints.values() for arn in endpoint.target_group_arns],
            listener_arns=[endpoint.listener.listener_arn for endpoint in endpoints.values()],
            host_package_object_arn=(
                f"arn:{names.environment.partition}:s3:::{package.s3_bucket_name}/{package.s3_object_key}"
            ),
            run_files_bucket_arn=names.run_files_bucket_arn,
        )
        bound_all_roles(self, deployment)
        environment = {
            "PEAKER_ENVIRONMENT": names.environment.environment,
            "LEDGER_TABLE": names.ledger_table,
            "HOST_PACKAGE_BUCKET": package.s3_bucket_name,
            "HOST_PACKAGE_KEY": package.s3_object_key,
            "HOST_PACKAGE_SHA256": host_package.sha256,
            "RUN_FILES_BUCKET": names.run_files_bucket,
            "STATE_MACHINE_PREFIX": names.state_machine_arn(""),
            "POWERTOOLS_SERVICE_NAME": SERVICE,
            "POWERTOOLS_METRICS_NAMESPACE": names.metric_namespace,
            "LOG_LEVEL": "INFO",
        }
        self.functions = self._make_functions(code, environment, deployment)
        self.workflows = self._make_workflows()
        self._roll_back_what_is_stopped()
        self._look_at_prices()
        self._look_at_snapshots()
        for cluster in names.environment.clusters:
            self._routes(cluster)

    def _balanced_endpoints(self) -> dict[str, ReadEndpoint]:
        """A load balancer for each cluster that asks for one; a DNS name needs nothing but its records."""
        return {
            cluster.name: ReadEndpoint(
                self,
                f"{pascal_case(cluster.name)}ReadEndpoint",
                names=self._names,
                cluster=cluster,
                endpoint=endpoint,
            )
            for cluster, endpoint in by_endpoint(self._names.environment.clusters).balanced
        }

    def _operator_topic(self) -> sns.Topic | None:
        email = self._names.environment.alarm_email
        if email is None:
            return None
        topic = sns.Topic(
            self,
            "OperatorAlarms",
            topic_name=f"{self._names.prefix}-operator-alarms",
            enforce_ssl=True,
            master_key=self._key,
        )
        topic.add_to_resource_policy(self._alarms_may_publish(topic))
        topic.add_subscription(subscriptions.EmailSubscription(email))
        return topic

    def _alarms_may_publish(self, topic: sns.Topic) -> iam.PolicyStatement:
        """enforce_ssl gives the topic a policy, which replaces the default that lets the account's alarms in."""
        alarms = self._names.arn("cloudwatch", f"alarm:{self._names.prefix}-*")
        return iam.PolicyStatement(
            sid="AlarmsOfThisEnvironment",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={
                "StringEquals": {"aws:SourceAccount": self._names.environment.account},
                "ArnLike": {"aws:SourceArn": alarms},
            },
        )

    def _run_files_bucket(self) -> None:
        """What runs hand to their hosts, and nobody needs when the longest prewarm is over."""
        bucket = s3.Bucket(
            self,
            "RunFiles",
            bucket_name=self._names.run_files_bucket,
            encryption=s3.BucketEncryption.S3_MANAGED if self._key is None else s3.BucketEncryption.KMS,
            encryption_key=self._key,
            bucket_key_enabled=None if self._key is None else True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            lifecycle_rules=[s3.LifecycleRule(expiration=RUN_FILES_KEPT)],
            removal_policy=RemovalPolicy.DESTROY,
        )
        acknowledge_no_bucket_log(bucket)

    def _cluster_settings(self, cluster: Cluster, balanced: ReadEndpoint | None) -> None:
        environment = self._names.environment
        settings = deployed_document(
            cluster,
            environment=environment.environment,
            region=environment.region,
            endpoint={} if balanced is None else balanced.deployed_settings,
        )
        ssm.StringParameter(
            self,
            f"{pascal_case(cluster.name)}Settings",
            parameter_name=self._names.cluster_parameter(cluster.name),
            description=f"Settings of {cluster.name}, from environments/{environment.environment}.yaml",
            string_value=json.dumps(settings, sort_keys=True, separators=(",", ":")),
            # A standard parameter ends at 4 KB, which a calendar and five trouble metrics exceed; 8 KB is the most.
            tier=ssm.ParameterTier.INTELLIGENT_TIERING,
        )
        self._read_endpoint_outputs(cluster, balanced)

    def _read_endpoint_outputs(self, cluster: Cluster, balanced: ReadEndpoint | None) -> None:
        match cluster.read_endpoint:
            case NlbEndpoint(listener_port=port):
                name = balanced.dns_name if balanced else ""
            case Route53EndpointSettings(port=port, record_name=name):
                pass
            case other:
                assert_never(other)
        CfnOutput(
            self,
            f"{pascal_case(cluster.name)}ReadEndpointName",
            description=f"Where readers of {cluster.name} connect, on {port}",
            value=name,
        )
        if balanced is not None:
            CfnOutput(
                self,
                f"{pascal_case(cluster.name)}TargetGroup",
                description=f"Where the base replicas of {cluster.name} have to be registered once",
                value=balanced.target_group.target_group_arn,
            )

    def _make_functions(
        self, code: lambda_.Code, environment: Mapping[str, str], deployment: Deployment
    ) -> dict[str, lambda_.Function]:
        failed = dead_letter_queue(
            Construct(self, "FailedInvocations"),
            name=failed_invocations(self._names.environment.environment),
            alarm=f"{self._names.prefix}-invocation-failed",
            summary="A function that a schedule calls failed three times in a row.",
            runbook="invocation-failed",
            topic=self.topic,
            key=self._key,
        )
        made = {}
        for definition in FUNCTIONS:
            function = PythonFunction(
                self,
                definition,
                names=self._names,
                code=code,
                environment=environment,
                statements=function_statements(definition, deployment),
                failed_invocations=failed if definition.is_asynchronous else None,
            )
            made[definition.name] = function.function
        return made

    def _make_workflows(self) -> dict[str, stepfunctions.StateMachine]:
        workflows = {f"{pascal_case(name)}StateMachineArn": name for name in workflow_names()}
        functions = {f"{f.pascal_name}Arn": self._names.function_arn(f.name) for f in FUNCTIONS}
        made = {}
        for name in workflow_names():
            workflow = Workflow(
                self,
                f"{pascal_case(name)}Workflow",
                name=name,
                names=self._names,
                functions=functions,
                workflows=workflows,
                topic=self.topic,
                undoes=name == "roll_back",
            )
            made[name] = workflow.state_machine
        return made

    def _prices(self) -> None:
        """Made empty; refresh_prices writes into it, which CloudFormation leaves alone."""
        ssm.StringParameter(
            self,
            "Prices",
            parameter_name=self._names.prices_parameter,
            description="What refresh_prices heard of the AWS Price List, and when",
            string_value="{}",
        )

    def _look_at_prices(self) -> None:
        """Every hour, so that a deployment, a new type and a refusal are made good for soon; it asks once a week."""
        EventRoute(
            self,
            "RefreshPricesOnSchedule",
            rule_name=f"{self._names.prefix}-prices",
            description="Asks the AWS Price List when the prices are a week old or lack an instance type",
            target=self.functions["refresh_prices"],
            schedule=events.Schedule.rate(PRICES_LOOKED_AT),
            payload={},
            longest_age_seconds=int(PRICES_LOOKED_AT.to_seconds()),
            topic=self.topic,
            key=self._key,
        )

    def _look_at_snapshots(self) -> None:
        EventRoute(
            self,
            "TendSnapshotsOnSchedule",
            rule_name=f"{self._names.prefix}-kept-snapshots",
            description="Takes a first snapshot set while a cluster is observed, deletes sets that nobody needs",
            target=self.functions["tend_snapshots"],
            schedule=events.Schedule.rate(SNAPSHOTS_LOOKED_AT),
            payload={},
            longest_age_seconds=int(SNAPSHOTS_LOOKED_AT.to_seconds()),
            topic=self.topic,
            key=self._key,
        )

    def _roll_back_what_is_stopped(self) -> None:
        EventRoute(
            self,
            "RollBackOnStop",
            rule_name=f"{self._names.prefix}-execution-stopped",
            description="Starts roll_back when an execution of scale_out or scale_in failed, was stopped or timed out",
            target=self.workflows["roll_back"],
            pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={
                    # Step Functions itself ends an execution as FAILED where no Catch can: 25,000 events, 256 KiB.
                    "status": ["ABORTED", "FAILED", "TIMED_OUT"],
                    "stateMachineArn": [
                        self._names.state_machine_arn(workflow) for workflow in ("scale_out", "scale_in")
                    ],
                },
            ),
            payload=events.RuleTargetInput.from_event_path("$.detail"),
            longest_age_seconds=LONGEST_STOP_EVENT_AGE_SECONDS,
            topic=self.topic,
            key=self._key,
        )
        EventRoute(
            self,
            "SweepOrphansOnSchedule",
            rule_name=f"{self._names.prefix}-sweep-orphans",
            description="Takes up what nobody works on any more: the event of an execution's end is best effort",
            target=self.functions["sweep_orphans"],
            schedule=events.Schedule.rate(SWEEP_EVERY),
            payload={},
            longest_age_seconds=int(SWEEP_EVERY.to_seconds()),
            topic=self.topic,
            key=self._key,
        )

    def _routes(self, cluster: Cluster) -> None:
        self._act_on_alarm(
            cluster,
            "replica-shortage",
            Metric.REPLICA_SHORTAGE,
            "scale_out",
            "fewer replicas than the load will need",
        )
        self._act_on_alarm(
            cluster,
            "replica-surplus",
            Metric.REPLICA_SURPLUS,
            "scale_in",
            "more replicas than the load needs",
        )
        self._act_on_schedule(cluster)

    def _act_on_alarm(
        self, cluster: Cluster, alarm: str, metric: Metric, workflow: str, finding: str
    ) -> None:
        name = self._names.cluster_alarm(cluster.name, alarm)
        period = Duration.minutes(cluster.forecast.schedule_minutes)
        cloudwatch.Alarm(
            self,
            f"{pascal_case(cluster.name)}{metric}",
            alarm_name=name,
            alarm_description=runbook_description(
                self, f"{cluster.name} has {finding}; starts {workflow}.", alarm
            ),
            metric=cloudwatch.Metric(
                namespace=self._names.metric_namespace,
                metric_name=metric.value,
                dimensions_map={CLUSTER_DIMENSION: cluster.name},
                statistic="Maximum",
                period=period,
            ),
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            # I4: no answer from the forecast is no reason to add, and none to remove.
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )
        EventRoute(
            self,
            f"{pascal_case(cluster.name)}{pascal_case(workflow)}OnAlarm",
            rule_name=name,
            description=f"Starts {workflow} when {cluster.name} has {finding}",
            target=self.workflows[workflow],
            pattern=events.EventPattern(
                source=["aws.cloudwatch"],
                detail_type=["CloudWatch Alarm State Change"],
                # A muted alarm says so in muteDetail; mute rules exist to keep actions from starting. `exists` looks
                # at leaves only: on the object itself it finds nothing, muted or not.
                detail={
                    "alarmName": [name],
                    "state": {"value": ["ALARM"]},
                    "muteDetail": {"mutedByArn": [{"exists": False}]},
                },
            ),
            payload={
                "cluster": cluster.name,
                "trigger": {
                    "kind": "alarm",
                    "alarm": events.EventField.from_path("$.detail.alarmName"),
                    "reason": events.EventField.from_path("$.detail.state.reason"),
                    "at": events.EventField.time,
                },
            },
            longest_age_seconds=LONGEST_ALARM_EVENT_AGE_SECONDS,
            topic=self.topic,
            key=self._key,
        )

    def _act_on_schedule(self, cluster: Cluster) -> None:
        period = Duration.minutes(cluster.forecast.schedule_minutes)
        EventRoute(
            self,
            f"{pascal_case(cluster.name)}ForecastOnSchedule",
            rule_name=self._names.cluster_alarm(cluster.name, "forecast"),
            description=f"Forecasts the load of {cluster.name}",
            target=self.functions["forecast_load"],
            schedule=events.Schedule.rate(period),
            payload={"cluster": cluster.name},
            longest_age_seconds=max(60, int(period.to_seconds())),
            topic=self.topic,
            key=self._key,
        )
        every = Duration.minutes(cluster.health.check_minutes)
        EventRoute(
            self,
            f"{pascal_case(cluster.name)}ReplicaCheckOnSchedule",
            rule_name=self._names.cluster_alarm(cluster.name, "replica-check"),
            description=f"Tells the replicas of {cluster.name} their peers, and hears how they stand",
            target=self.functions["check_replicas"],
            schedule=events.Schedule.rate(every),
            payload={"cluster": cluster.name},
            longest_age_seconds=max(60, int(every.to_seconds())),
            topic=self.topic,
            key=self._key,
        )
        EventRoute(
            self,
            f"{pascal_case(cluster.name)}ScaleOutOnSchedule",
            rule_name=self._names.cluster_alarm(cluster.name, "scheduled-check"),
            description=f"Starts scale_out and scale_in for {cluster.name} hourly: alarms speak once",
            target=self.workflows["scale_out"],
            also=[self.workflows["scale_in"]],
            schedule=events.Schedule.rate(SCHEDULED_CHECK),
            payload={
                "cluster": cluster.name,
                "trigger": {"kind": "schedule", "at": events.EventField.time},
            },
            longest_age_seconds=int(SCHEDULED_CHECK.to_seconds()),
            topic=self.topic,
            key=self._key,
        )
