"""Synth itself: reproducible, without findings, and strict about findings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sqs as sqs
from cfnlint.api import lint_all
from constructs import IConstruct

from stacks import application
from stacks.application import build_app
from stacks.synth import environment_of_command, main
from statemachines.reading import WorkflowSourceError
from tests.infrastructure.conftest import Assembly, synthesize

REPOSITORY = Path(__file__).resolve().parents[2]


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != "tree.json"
    }


def test_two_synths_write_the_same_templates_and_assets(prod: Assembly, tmp_path: Path) -> None:
    """The second one with all checks, which a finding would end; tests/installation checks dev so."""
    first, second = (files_of(one.directory) for one in (prod, synthesize("prod", tmp_path / "again")))
    assert set(first) == set(second)
    assert [name for name in first if first[name] != second[name]] == []


def test_cfn_lint_finds_no_error(wide: Assembly) -> None:
    found = [match for template in wide.templates.values() for match in lint_all(json.dumps(template))]
    assert [str(match) for match in found if match.rule.severity == "error"] == []


def stacks_of(construct: IConstruct) -> list[cdk.Stack]:
    return [child for child in construct.node.find_all() if isinstance(child, cdk.Stack)]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> cdk.App:
    """Of prod, not synthesized yet."""
    output = tmp_path_factory.mktemp("prod")
    return build_app(environment="prod", output=output, context={"bundle": "sources"})


def test_every_acknowledgement_has_a_reason_and_stands_on_one_resource(app: cdk.App) -> None:
    found = 0
    for construct in app.node.find_all():
        for entry in construct.node.metadata:
            if entry.type != cdk.Validations.ACKNOWLEDGED_RULES_METADATA_KEY:
                continue
            assert not isinstance(construct, cdk.Stack | cdk.Stage | cdk.App)
            for reason in dict(entry.data).values():
                found += 1
                assert len(str(reason)) > 20
    assert found > 50


def test_finding_fails_synth_and_is_in_the_report(app: cdk.App) -> None:
    """The last one with this app: now it has a finding."""
    sqs.Queue(stacks_of(app)[0], "Unencrypted", encryption=sqs.QueueEncryption.UNENCRYPTED)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    assert "AwsSolutions-SQS4" in (Path(app.outdir) / "validation-report.json").read_text()


def test_wrong_environment_ends_with_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["staging", "--output", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(
        "environments/staging.yaml: does not exist; known environments:"
    )


def test_a_wrong_environment_does_not_wait_for_the_cdk() -> None:
    program = "import sys; from stacks.synth import main; print(main(['staging']), 'aws_cdk' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert told.stdout == "2 False\n"


def test_the_cdk_commands_context_names_the_environment(tmp_path: Path) -> None:
    # What does not fit into a variable is in a file.
    (overflow := tmp_path / "context.json").write_text('{"env": "prod"}')
    shell = {"PEAKER_ENV": "staging"}
    assert (
        environment_of_command({**shell, "CDK_CONTEXT_JSON": '{"env": "local", "bundle": "sources"}'})
        == "local"
    )
    assert environment_of_command({**shell, "CONTEXT_OVERFLOW_LOCATION": str(overflow)}) == "prod"
    assert environment_of_command({**shell, "CDK_CONTEXT_JSON": "{}"}) == "staging"


def test_output_directory_with_other_things_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["dev", "--output", str(tmp_path)]) == 2
    assert "is not empty and not the output of a synth" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_wrong_workflow_ends_with_its_mistakes_and_the_next_synth_may_write_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def half_way(**_: object) -> cdk.App:
        (tmp_path / "assembly-Peaker-dev").mkdir(parents=True)
        (tmp_path / "asset.0a1b.zip").write_text("functions")
        raise WorkflowSourceError("statemachines/scale_in.yaml:9: DrainReplica: next: is missing: write it")

    monkeypatch.setattr(application, "build_app", half_way)
    for _ in range(2):
        assert main(["dev", "--output", str(tmp_path)]) == 2
        assert capsys.readouterr().err.endswith("scale_in.yaml:9: DrainReplica: next: is missing: write it\n")


def test_synth_runs_on_the_packaged_node_whatever_the_machine_has() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "JSII_NODE"}
    program = "import stacks, os, subprocess; print(subprocess.check_output([os.environ['JSII_NODE'], '-v']))"
    outcome = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "v24." in outcome.stdout


def test_templates_name_no_account_but_their_own(assembly: Assembly) -> None:
    accounts = {"dev": "111111111111", "prod": "222222222222", "local": "123456789012"}
    text = json.dumps(assembly.templates)
    assert accounts[assembly.environment] in text
    assert [a for name, a in accounts.items() if name != assembly.environment and a in text] == []
