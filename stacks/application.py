"""The CDK app of one environment: settings, bundles, one stage with its stacks, and the checks of synth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from cdk_nag import AwsSolutionsChecks
from constructs import Construct

from environments.schema import Cluster, Environment, EnvironmentFileError, load_environment
from peaker_contract.names import ENVIRONMENT_TAG, FAMILY
from stacks.cluster_stack import ClusterStack
from stacks.constructs.local_bundling import bundle_functions, target_of
from stacks.constructs.operator_alarm import RUNBOOK_URL
from stacks.control_plane_stack import ControlPlaneStack
from stacks.host_package import HostPackage, build_host_package
from stacks.naming import Names
from stacks.observability_stack import ObservabilityStack
from stacks.state_stack import StateStack

REPOSITORY = Path(__file__).resolve().parents[1]
# `-c bundle=sources` leaves the dependencies out, for tests of templates. Such a bundle does not run.
BUNDLE_CONTEXT = "bundle"
QUALIFIER_CONTEXT = "@aws-cdk/core:bootstrapQualifier"


class PeakerStage(cdk.Stage):
    """All stacks of one environment, in the order of their life cycles."""

    def __init__(
        self,
        scope: Construct,
        *,
        settings: Environment,
        code: lambda_.Code,
        host_package: HostPackage,
    ) -> None:
        super().__init__(
            scope,
            f"{FAMILY}-{settings.environment}",
            env=cdk.Environment(account=settings.account, region=settings.region),
        )
        if settings.runbook_url is not None:
            self.node.set_context(RUNBOOK_URL, settings.runbook_url)
        names = Names(settings)
        state = StateStack(
            self,
            "State",
            names=names,
            synthesizer=_synthesizer(settings),
            termination_protection=settings.retain_state,
            description=f"Peaker {settings.environment}: the ledger of what each run made",
        )
        control_plane = ControlPlaneStack(
            self,
            "ControlPlane",
            names=names,
            code=code,
            host_package=host_package,
            synthesizer=_synthesizer(settings),
            description=f"Peaker {settings.environment}: functions, workflows, documents, rules",
        )
        control_plane.add_stack_dependency(state)
        observability = ObservabilityStack(
            self,
            "Observability",
            names=names,
            synthesizer=_synthesizer(settings),
            description=f"Peaker {settings.environment}: the dashboard over all clusters",
        )
        observability.add_stack_dependency(control_plane)
        clusters = [self._cluster(names, one) for one in settings.clusters]
        for cluster in clusters:
            # Also of the dashboard's: in earlier releases it had the clusters' alarms, whose names are the same.
            cluster.add_stack_dependency(observability)
        cdk.Tags.of(self).add(ENVIRONMENT_TAG, settings.environment)
        for stack in (state, control_plane, observability, *clusters):
            stack.add_stack_tag(ENVIRONMENT_TAG, settings.environment)

    def _cluster(self, names: Names, cluster: Cluster) -> ClusterStack:
        return ClusterStack(
            self,
            cluster.name,
            names=names,
            cluster=cluster,
            synthesizer=_synthesizer(names.environment),
            # In every environment: whoever tends a replica whose settings and alarms are gone is nobody.
            termination_protection=True,
            description=f"Peaker {names.environment.environment}: the cluster {cluster.name}",
        )


def build_app(
    *,
    environment: str,
    context: Mapping[str, object] | None = None,
    output: Path | None = None,
    checked: bool = True,
    now: datetime | None = None,
) -> cdk.App:
    """Compose the app of an environment; nothing is looked up, no credentials are needed.

    `now` (default: the clock) is what events are held against. Raises EnvironmentFileError when the environment's file
    is wrong. Findings of cdk-nag and of CloudFormation's own checks make `synth()` fail. Without `checked` there are no
    checks, which take most of its time.
    """
    app = cdk.App(
        context={**_settings_of_cdk_json(), **(context or {})},
        outdir=None if output is None else str(output),
        analytics_reporting=False,
        # They name the folders of one process, and equal sources shall give equal files.
        stack_traces=False,
        builtin_cloud_formation_validation=checked,
    )
    settings = load_environment(environment, now=now or datetime.now(UTC))
    _check_qualifier(app.node.try_get_context(QUALIFIER_CONTEXT), settings)
    PeakerStage(
        app,
        settings=settings,
        code=_function_code(settings, sources_only=app.node.try_get_context(BUNDLE_CONTEXT) == "sources"),
        host_package=build_host_package(),
    )
    if checked:
        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


def _settings_of_cdk_json() -> dict[str, object]:
    """The feature flags, which otherwise only the CDK command would pass on."""
    settings: dict[str, object] = json.loads((REPOSITORY / "cdk.json").read_text(encoding="utf-8"))["context"]
    return settings


def _function_code(settings: Environment, *, sources_only: bool) -> lambda_.Code:
    bundle = bundle_functions(None if sources_only else target_of(settings.is_local))
    return lambda_.Code.from_asset(
        str(bundle), asset_hash=bundle.stem, asset_hash_type=cdk.AssetHashType.CUSTOM
    )


def _synthesizer(settings: Environment) -> cdk.DefaultStackSynthesizer:
    # The CDK command checks the bootstrap version itself; the rule would make every template need a look-up.
    return cdk.DefaultStackSynthesizer(
        qualifier=settings.bootstrap_qualifier, generate_bootstrap_version_rule=False
    )


def _check_qualifier(of_context: object, settings: Environment) -> None:
    """The context would move the deployment alone: policies and `peaker doctor` know the environment's file."""
    if of_context not in (None, settings.bootstrap_qualifier):
        raise EnvironmentFileError(
            f"environments/{settings.environment}.yaml: the CDK's context has {QUALIFIER_CONTEXT}={of_context}, the "
            f"file {settings.bootstrap_qualifier}; write `bootstrap_qualifier: {of_context}` into the file"
        )
