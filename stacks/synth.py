"""`scripts/synth [environment] [--output DIR]`: write an environment's templates and assets."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from environments.schema import EnvironmentFileError, load_environment
from ssm_documents.schema import InvalidDocument
from stacks.constructs.local_bundling import BundlingError
from statemachines.reading import WorkflowSourceError

DEFAULT_ENVIRONMENT = "dev"
# Where the CDK command leaves its context (`-c`, cdk.json, cdk.context.json), and what was too long for a variable.
CONTEXT = "CDK_CONTEXT_JSON"
CONTEXT_OVERFLOW = "CONTEXT_OVERFLOW_LOCATION"
OUTPUTS = Path(__file__).resolve().parents[1] / "cdk.out"


class OutputDirectoryError(Exception):
    """The output directory holds something else than an earlier synth."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0; 2 for wrong settings, 1 for findings in the templates, told on stderr."""
    parser = argparse.ArgumentParser(prog="scripts/synth", description=__doc__)
    parser.add_argument("environment", nargs="?", help="default: PEAKER_ENV, else dev")
    parser.add_argument("--output", type=Path, help="default: cdk.out/<environment>")
    parser.add_argument(
        "--sources-only", action="store_true", help="leave the dependencies out of the functions' bundle"
    )
    options = parser.parse_args(arguments)
    name = options.environment or environment_of_shell()
    output = (options.output or OUTPUTS / name).resolve()
    context = {"bundle": "sources"} if options.sources_only else {}

    status = synthesize(name, output=output, context=context)
    if status == 0:
        print(output)
    return status


def environment_of_command(variables: Mapping[str, str] = os.environ) -> str:
    """`-c env=NAME` of the CDK command that runs this process, else the shell's."""
    context: dict[str, Any] = json.loads(variables.get(CONTEXT) or "{}")
    if overflow := variables.get(CONTEXT_OVERFLOW):
        context |= json.loads(Path(overflow).read_text(encoding="utf-8"))
    return str(context.get("env") or environment_of_shell(variables))


def environment_of_shell(variables: Mapping[str, str] = os.environ) -> str:
    """PEAKER_ENV; without it dev, and a line on stderr says so."""
    named = variables.get("PEAKER_ENV")
    if not named:
        print(
            f"environment {DEFAULT_ENVIRONMENT}, because none is named (-c env=NAME, or PEAKER_ENV)",
            file=sys.stderr,
        )
    return named or DEFAULT_ENVIRONMENT


def synthesize(name: str, *, output: Path | None = None, context: Mapping[str, object] | None = None) -> int:
    """Write an environment's templates. Returns 0; 2 for wrong settings, 1 for findings, told on stderr.

    Without an output the CDK command says where. The settings are read before the CDK, which takes seconds.
    """
    try:
        load_environment(name, warn=lambda _: None)  # once the app is built, its advice is told
    except EnvironmentFileError as error:
        print(error, file=sys.stderr)
        return 2
    from stacks import application
    from stacks.constructs.workflow import WorkflowError

    try:
        if output is not None:
            _clear(output)
        application.build_app(environment=name, output=output, context=context).synth()
    except RuntimeError as error:
        # Findings of cdk-nag and of CloudFormation's own checks are on stderr already, one by one.
        if "ValidationFailed" not in str(error):
            raise
        print("the templates have findings, see above", file=sys.stderr)
        return 1
    except (
        EnvironmentFileError,
        BundlingError,
        WorkflowError,
        WorkflowSourceError,
        InvalidDocument,
        OutputDirectoryError,
    ) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _clear(output: Path) -> None:
    if not output.exists() or not any(output.iterdir()):
        return
    if not (output / "manifest.json").is_file() and not _is_half_a_synth(output):
        raise OutputDirectoryError(
            f"{output}: is not empty and not the output of a synth; choose another --output"
        )
    shutil.rmtree(output)


def _is_half_a_synth(output: Path) -> bool:
    """A synth that ended early has written assets and begun its assembly, and no manifest."""
    return all(one.name.startswith(("asset.", "assembly-Peaker-")) for one in output.iterdir())


if __name__ == "__main__":
    sys.exit(main())
