"""The control plane's stack holds the shared parts that may be redeployed at any time: functions, workflows,
documents, rules.

It knows no cluster: what a cluster's stack calls, starts and tells is reached by the environment's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.metrics import SERVICE
from peaker_contract.names import EVENT_SOURCE, failed_invocations, undelivered
from ssm_documents.schema import document_paths, load_document
from stacks.constructs.acknowledgements import acknowledge
from stacks.constructs.boundary import bound_all_roles
from stacks.constructs.dead_letters import dead_letter_queue
from stacks.constructs.event_route import EventRoute
from stacks.constructs.keeping import data_key
from stacks.constructs.python_function import PythonFunction
from stacks.constructs.workflow import Workflow
from stacks.host_package import HostPackage
from stacks.naming import Names
from stacks.rights.limits import refuse_what_is_too_long
from stacks.rights.role_statements import function_statements
from statemachines.expansion import workflow_names

RUN_FILES_KEPT = Duration.days(4)
PRICES_LOOKED_AT = Duration.hours(1)
REMOVED_CLUSTERS_LOOKED_AT = Duration.hours(1)
# What a stopped run left costs money until it is undone, however late that is: EventBridge's own limit.
LONGEST_STOP_EVENT_AGE_SECONDS = 86_400
LONGEST_CHAT_EVENT_AGE_SECONDS = 3600


# What the rules of clusters call and start; the rule's name ends so.
CALLED_BY_CLUSTERS = {
    "forecast_load": "forecast",
    "check_replicas": "replica-check",
    "sweep_orphans": "sweep",
    "maintain_snapshots": "scheduled-check",
}
STARTED_BY_CLUSTERS = ("scale_out", "scale_in")


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
        self._prices()
        for path in document_paths():
            # A changed file becomes a new version of the same document.
            ssm.CfnDocument(
                Construct(self, f"{pascal_case(path.stem)}Document"),
                "Document",
                name=names.document(path.stem),
                content=load_document(path, {"package_sha256": host_package.sha256}),
                document_type="Command",
                document_format="YAML",
                target_type="/AWS::EC2::Instance",
                update_method="NewVersion",
            )
        self._run_files_bucket()
        place = f"{package.s3_bucket_name}/{package.s3_object_key}"
        package_arn = names.arn("s3", place, region="", account="")
        self._names = names = replace(names, host_package_object_arn=package_arn)
        refuse_what_is_too_long(names)
        bound_all_roles(self, names)
        environment = {
            "PEAKER_ENVIRONMENT": names.environment.environment,
            "LEDGER_TABLE": names.ledger_table,
            "HOST_PACKAGE_BUCKET": package.s3_bucket_name,
            "HOST_PACKAGE_KEY": package.s3_object_key,
            "HOST_PACKAGE_SHA256": host_package.sha256,
            "RUN_FILES_BUCKET": names.run_files_bucket,
            "STATE_MACHINE_PREFIX": names.state_machine_arn(""),
            **({} if self.topic is None else {"OPERATOR_TOPIC_ARN": names.operator_topic_arn}),
            "POWERTOOLS_SERVICE_NAME": SERVICE,
            "POWERTOOLS_METRICS_NAMESPACE": names.metric_namespace,
            "LOG_LEVEL": "INFO",
            # The forecast's matrices have a dozen columns: a second thread of numpy's has nothing to do and spins.
            "OPENBLAS_NUM_THREADS": "1",
        }
        self.functions = self._make_functions(code, environment)
        self.workflows = self._make_workflows()
        self._roll_back_what_is_stopped()
        # Every hour, so that a deployment, a new type and a refusal are made good for soon; it asks once a week.
        self._call_on_schedule(
            "RefreshPricesOnSchedule",
            "prices",
            "refresh_prices",
            "Asks the AWS Price List when the prices are a week old or lack an instance type",
            PRICES_LOOKED_AT,
        )
        self._call_on_schedule(
            "MaintainSnapshotsOnSchedule",
            "kept-snapshots",
            "maintain_snapshots",
            "Deletes the snapshot sets of clusters that were removed",
            REMOVED_CLUSTERS_LOOKED_AT,
        )
        self._let_clusters_call()
        self._tell_in_chat()

    def _operator_topic(self) -> sns.Topic | None:
        email = self._names.environment.alarm_email
        if email is None:
            return None
        topic = sns.Topic(
            self,
            "OperatorAlarms",
            topic_name=self._names.operator_topic,
            enforce_ssl=True,
            master_key=self._key,
        )
        topic.add_to_resource_policy(self._alarms_may_publish(topic))
        topic.add_subscription(
            subscriptions.EmailSubscription(email, dead_letter_queue=self._undelivered_pages(topic))
        )
        return topic

    def _undelivered_pages(self, topic: sns.ITopic) -> sqs.Queue:
        """SNS tries a mail server for 6 hours, 50 times; what nobody took then is kept, else it is gone."""
        return dead_letter_queue(
            Construct(self, "UndeliveredPages"),
            name=undelivered(self._names.operator_topic),
            alarm=f"{self._names.prefix}-page-not-delivered",
            summary="SNS could not deliver a page to the address of the operators.",
            runbook="page-not-delivered",
            topic=topic,
            key=self._key,
        )

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
        """Makes the bucket of files that runs hand to their hosts; they expire after the longest prewarm."""
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
        acknowledge(
            bucket,
            "AwsSolutions-S1",
            "It holds lists of block numbers for some days; a log of who fetched them would need a bucket that lasts.",
        )

    def _make_functions(
        self, code: lambda_.Code, environment: Mapping[str, str]
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
                statements=function_statements(definition, self._names),
                failed_invocations=failed if definition.is_asynchronous else None,
            )
            made[definition.name] = function.function
        return made

    def _make_workflows(self) -> dict[str, stepfunctions.StateMachine]:
        workflows = {f"{pascal_case(name)}StateMachineArn": name for name in workflow_names()}
        functions = {f"{f.pascal_name}Arn": self._names.function_arn(f.name) for f in FUNCTIONS}
        made = {}
        for placeholder, name in workflows.items():
            made[placeholder] = Workflow(
                self,
                f"{pascal_case(name)}Workflow",
                name=name,
                names=self._names,
                functions=functions,
                workflows=workflows,
                topic=self.topic,
                undoes=name == "roll_back",
            )
        # They call by name: CloudFormation knows no order, and a run would call a function that is not there yet.
        targets: dict[str, Construct] = {f"{f.pascal_name}Arn": self.functions[f.name] for f in FUNCTIONS}
        targets |= {key: one.state_machine for key, one in made.items()}
        for one in made.values():
            one.state_machine.node.add_dependency(*(targets[key] for key in one.callees))
        return {name: made[placeholder].state_machine for placeholder, name in workflows.items()}

    def _prices(self) -> None:
        """Made empty; refresh_prices writes into it, which CloudFormation leaves alone."""
        ssm.StringParameter(
            self,
            "Prices",
            parameter_name=self._names.prices_parameter,
            description="What refresh_prices heard of the AWS Price List, and when",
            string_value="{}",
        )

    def _call_on_schedule(
        self, construct_id: str, rule: str, function: str, does: str, every: Duration
    ) -> None:
        EventRoute(
            self,
            construct_id,
            rule_name=f"{self._names.prefix}-{rule}",
            description=does,
            names=self._names,
            target=self.functions[function],
            schedule=events.Schedule.rate(every),
            payload={},
            longest_age_seconds=int(every.to_seconds()),
            topic=self.topic,
            key=self._key,
        )

    def _roll_back_what_is_stopped(self) -> None:
        EventRoute(
            self,
            "RollBackOnStop",
            rule_name=f"{self._names.prefix}-execution-stopped",
            description="Starts roll_back when an execution of scale_out or scale_in failed, was stopped or timed out",
            names=self._names,
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

    def _tell_in_chat(self) -> None:
        """Each start, end and refusal as a custom notification of Amazon Q Developer in chat applications.

        A topic of its own: a mail of it would be JSON. Whoever wants it adds the topic to a channel's configuration.
        """
        topic = sns.Topic(
            self,
            "Chat",
            topic_name=self._names.chat_topic,
            enforce_ssl=True,
            master_key=self._key,
        )

        def detail(field: str) -> str:
            return events.EventField.from_path(f"$.detail.{field}")

        EventRoute(
            self,
            "TellInChat",
            rule_name=f"{self._names.prefix}-chat",
            description="Tells starts, ends and refusals of runs to the chat topic",
            names=self._names,
            target=topic,
            pattern=events.EventPattern(
                source=[EVENT_SOURCE],
                detail={
                    "environment": [self._names.environment.environment],
                    "kind": ["started", "ended", "refused"],
                },
            ),
            payload={
                "version": "1.0",
                "source": "custom",
                "id": detail("id"),
                "content": {
                    "textType": "client-markdown",
                    "title": detail("title"),
                    "description": detail("text"),
                    "nextSteps": [detail("next")],
                    "keywords": [detail("environment"), detail("outcome")],
                },
                "metadata": {"threadId": detail("thread"), "eventType": events.EventField.detail_type},
            },
            longest_age_seconds=LONGEST_CHAT_EVENT_AGE_SECONDS,
            topic=self.topic,
            key=self._key,
        )

    def _let_clusters_call(self) -> None:
        """One permission and one role for the rules of all clusters: each has limits that single ones would reach.

        The permission names the rules alone: EventBridge tells Lambda no source account, so a permission that asks for
        one refuses every call.
        """
        for function, rule in CALLED_BY_CLUSTERS.items():
            lambda_.CfnPermission(
                self,
                f"{pascal_case(function)}CalledByClusters",
                action="lambda:InvokeFunction",
                function_name=self.functions[function].function_name,
                principal="events.amazonaws.com",
                source_arn=self._names.arn("events", f"rule/{self._names.cluster_alarm('*', rule)}"),
            )
        for workflow in STARTED_BY_CLUSTERS:
            role = iam.Role(
                self,
                f"Starts{pascal_case(workflow)}",
                role_name=self._names.starter_role(workflow),
                assumed_by=iam.ServicePrincipal("events.amazonaws.com"),
                description=f"The rules of all clusters start {workflow}",
            )
            self.workflows[workflow].grant_start_execution(role)
