"""`scripts/synth [environment] [--output DIR]`: write an environment's templates and assets."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import aws_cdk as cdk

from environments.schema import EnvironmentFileError, load_environment
from ssm_documents.schema import InvalidDocument
from stacks.application import REPOSITORY, build_app, environment_of_shell
from stacks.constructs.local_bundling import BundlingError
from stacks.constructs.workflow import WorkflowError
from statemachines.reading import WorkflowSourceError

OUTPUTS = REPOSITORY / "cdk.out"


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

    def app() -> cdk.App:
        load_environment(name)  # before anything is removed
        _clear(output)
        return build_app(environment=name, output=output, context=context)

    status = synthesize(app)
    if status == 0:
        print(output)
    return status


def synthesize(build: Callable[[], cdk.App]) -> int:
    """Compose the app and write its templates. Returns 0; 2 for wrong settings, 1 for findings, told on stderr."""
    try:
        build().synth()
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
