"""One cluster: its settings, alarms, routes, read endpoint and dashboard, deployed and removed alone.

It names the shared stacks' functions, workflows, roles and topic by their fixed names and takes nothing from them by
reference, so that neither stack changes for the other. It is protected from deletion: `peaker allow-removal` lifts that
where no replica of Peaker's is left.
"""

from __future__ import annotations

import json
from typing import assert_never

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from environments.clusters_by_endpoint import by_endpoint
from environments.schema import Cluster
from peaker_contract.cluster import deployed_document
from peaker_contract.endpoint_settings import NlbEndpoint, Route53EndpointSettings
from stacks.constructs.cluster_alarms import ClusterAlarms
from stacks.constructs.cluster_routes import ClusterRoutes
from stacks.constructs.cluster_widgets import cluster_widgets
from stacks.constructs.keeping import data_key
from stacks.constructs.read_endpoint import ReadEndpoint
from stacks.naming import Names


class ClusterStack(Stack):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        cluster: Cluster,
        **stack: object,
    ) -> None:
        super().__init__(scope, construct_id, **stack)  # type: ignore[arg-type]
        self._names = names
        topic = (
            None
            if names.environment.alarm_email is None
            else sns.Topic.from_topic_arn(self, "OperatorAlarms", names.operator_topic_arn)
        )
        balanced = self._balanced_endpoint(cluster)
        self._settings(cluster, balanced)
        ClusterRoutes(self, "Routes", names=names, cluster=cluster, topic=topic, key=data_key(self, names))
        ClusterAlarms(self, "Alarms", names=names, cluster=cluster, topic=topic)
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=names.dashboard(cluster.name))
        dashboard.add_widgets(*cluster_widgets(names, cluster))
        self._outputs(cluster, balanced)

    def _balanced_endpoint(self, cluster: Cluster) -> ReadEndpoint | None:
        """A load balancer for a cluster that asks for one; a DNS name needs nothing but its records."""
        for one, endpoint in by_endpoint([cluster]).balanced:
            return ReadEndpoint(self, "ReadEndpoint", names=self._names, cluster=one, endpoint=endpoint)
        return None

    def _settings(self, cluster: Cluster, balanced: ReadEndpoint | None) -> None:
        environment = self._names.environment
        settings = deployed_document(
            cluster,
            environment=environment.environment,
            region=environment.region,
            endpoint={} if balanced is None else balanced.deployed_settings,
            bootstrap_qualifier=environment.bootstrap_qualifier,
        )
        ssm.StringParameter(
            self,
            "Settings",
            parameter_name=self._names.cluster_parameter(cluster.name),
            description=f"Settings of {cluster.name}, from environments/{environment.environment}.yaml",
            string_value=json.dumps(settings, sort_keys=True, separators=(",", ":")),
            # A standard parameter ends at 4 KB, which a long calendar exceeds; 8 KB is the most.
            tier=ssm.ParameterTier.INTELLIGENT_TIERING,
        )

    def _outputs(self, cluster: Cluster, balanced: ReadEndpoint | None) -> None:
        match cluster.read_endpoint:
            case NlbEndpoint(listener_port=port):
                name = balanced.dns_name if balanced else ""
            case Route53EndpointSettings(port=port, record_name=name):
                pass
            case other:
                assert_never(other)
        CfnOutput(
            self,
            "ReadEndpointName",
            description=f"Where readers of {cluster.name} connect, on {port}",
            value=name,
        )
        if balanced is not None:
            CfnOutput(
                self,
                "TargetGroup",
                description=f"Where the base replicas of {cluster.name} have to be registered once",
                value=balanced.target_group.target_group_arn,
            )
