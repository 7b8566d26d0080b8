"""The physical names and ARNs of one environment; every name that a person or another stack uses is here.

Names are fixed, so that policies can be read (and checked) without resolving references, and so that one
`grep scale_out` finds the state machine, its file and its log group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from environments.schema import Environment
from peaker_contract import metrics, names
from stacks.rights.reach import Reach, reach_of


@dataclass(frozen=True)
class Names:
    """Names of an environment, and of the host package's object where one is deployed."""

    environment: Environment
    host_package_object_arn: str = ""

    @property
    def owner(self) -> str:
        return self.environment.environment

    @cached_property
    def reach(self) -> Reach:
        """Returns the foreign resources that clusters use."""
        return reach_of(self.environment)

    @property
    def prefix(self) -> str:
        return names.prefix(self.environment.environment)

    @property
    def metric_namespace(self) -> str:
        """Returns the namespace of this environment's metrics: another one of the account may have a cluster
        of the same name.
        """
        return metrics.namespace(self.environment.environment)

    @property
    def ledger_table(self) -> str:
        return names.ledger_table(self.environment.environment)

    @property
    def run_files_bucket(self) -> str:
        """Bucket names are unique in all of AWS, so the account is in it."""
        return f"{self.prefix}-run-files-{self.environment.account}-{self.environment.region}"

    @property
    def run_files_bucket_arn(self) -> str:
        return self.arn("s3", self.run_files_bucket, region="", account="")

    def function(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def state_machine(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def document(self, name: str) -> str:
        return names.document(self.environment.environment, name)

    def cluster_parameter(self, cluster: str) -> str:
        return names.cluster_parameter(self.environment.environment, cluster)

    @property
    def prices_parameter(self) -> str:
        return names.prices_parameter(self.environment.environment)

    @property
    def prices_parameter_arn(self) -> str:
        return self.arn("ssm", f"parameter{self.prices_parameter}")

    def cluster_alarm(self, cluster: str, alarm: str) -> str:
        return names.of_cluster(self.environment.environment, cluster, alarm)

    def replica_alarm_arns(self, cluster: str) -> str:
        """The alarms of the cluster's replicas behind a DNS name, whose instance ids end their names."""
        return self.arn(
            "cloudwatch", f"alarm:{names.replica_alarm_prefix(self.environment.environment, cluster)}i-*"
        )

    def hosted_zone_arn(self, hosted_zone_id: str) -> str:
        return self.arn("route53", f"hostedzone/{hosted_zone_id}", region="", account="")

    @property
    def operator_topic(self) -> str:
        return names.operator_topic(self.environment.environment)

    @property
    def operator_topic_arn(self) -> str:
        return self.arn("sns", self.operator_topic)

    @property
    def chat_topic(self) -> str:
        return names.chat_topic(self.environment.environment)

    @property
    def event_bus_arn(self) -> str:
        """The default bus, on which the events of AWS's services are too."""
        return self.arn("events", "event-bus/default")

    def starter_role(self, workflow: str) -> str:
        """The role by which the rules of all clusters start a workflow."""
        return f"{self.prefix}-starts-{workflow}"

    def starter_role_arn(self, workflow: str) -> str:
        return self.iam_arn(f"role/{self.starter_role(workflow)}")

    def stack(self, cluster: str) -> str:
        return names.cluster_stack(self.environment.environment, cluster)

    def dashboard(self, cluster: str) -> str:
        """Returns the name of one cluster's dashboard; that of all of them has the environment's own name."""
        return f"{self.prefix}-{cluster}"

    def read_endpoint(self, cluster: str) -> str:
        return f"{self.prefix}-{cluster}"

    def arn(
        self, service: str, resource: str, *, region: str | None = None, account: str | None = None
    ) -> str:
        """The ARN of a resource in this region and account; `""` where its ARN has none of these."""
        where = self.environment.region if region is None else region
        owner = self.environment.account if account is None else account
        return f"arn:{self.environment.partition}:{service}:{where}:{owner}:{resource}"

    def iam_arn(self, resource: str) -> str:
        return self.arn("iam", resource, region="")

    def ec2(self, kind: str) -> str:
        return self.arn("ec2", f"{kind}/*")

    @property
    def any_snapshot(self) -> str:
        return self.arn("ec2", "snapshot/*", account="")

    @property
    def ledger_table_arn(self) -> str:
        return self.arn("dynamodb", f"table/{self.ledger_table}")

    def function_arn(self, name: str) -> str:
        return self.arn("lambda", f"function:{self.function(name)}")

    def state_machine_arn(self, name: str) -> str:
        return self.arn("states", f"stateMachine:{self.state_machine(name)}")

    @property
    def failed_invocations_arn(self) -> str:
        return self.arn("sqs", names.failed_invocations(self.environment.environment))

    def document_arn(self, name: str) -> str:
        return self.arn("ssm", f"document/{self.document(name)}")

    def cluster_parameter_arn(self, cluster: str) -> str:
        return self.arn("ssm", f"parameter{self.cluster_parameter(cluster)}")

    @property
    def boundary(self) -> str:
        """The managed policy that bounds all roles, where the settings prescribe none of the company's own."""
        return f"{self.prefix}-boundary"

    @property
    def boundary_arn(self) -> str:
        return self.environment.permissions_boundary_arn or self.iam_arn(f"policy/{self.boundary}")
