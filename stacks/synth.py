"""`scripts/synth <environment> [--output DIR]`: write an environment's templates and assets."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from environments.schema import EnvironmentFileError
from ssm_documents.schema import InvalidDocument
from stacks.application import DEFAULT_ENVIRONMENT, REPOSITORY, build_app
from stacks.constructs.local_bundling import BundlingError
from stacks.constructs.workflow import WorkflowError

OUTPUTS = REPOSITORY / "cdk.out"


class OutputDirectoryError(Exception):
    """The output directory holds something else than an earlier synth."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0; 2 for wrong settings, 1 for findings in the templates, told on stderr."""
    parser = argparse.ArgumentParser(prog="scripts/synth", description=__doc__)
    parser.add_argument("environment", nargs="?", default=DEFAULT_ENVIRONMENT)
    parser.add_argument("--output", type=Path, help="default: cdk.out/<environment>")
    parser.add_argument(
        "--sources-only", action="store_true", help="leave the dependencies out of the functions' bundle"
    )
    options = parser.parse_args(arguments)
    output = (options.output or OUTPUTS / options.environment).resolve()
    try:
        _clear(output)
        context = {"bundle": "sources"} if options.sources_only else {}
        build_app(environment=options.environment, output=output, context=context).synth()
    except RuntimeError as error:
        # Findings of cdk-nag and of CloudFormation's own checks are on stderr already, one by one.
        if "ValidationFailed" not in str(error):
            raise
        print(f"{options.environment}: the templates have findings, see above", file=sys.stderr)
        return 1
    except (
        EnvironmentFileError,
        BundlingError,
        WorkflowError,
        InvalidDocument,
        OutputDirectoryError,
    ) as error:
        print(error, file=sys.stderr)
        return 2
    print(output)
    return 0


def _clear(output: Path) -> None:
    if not output.exists() or not any(output.iterdir()):
        return
    if not (output / "manifest.json").is_file():
        raise OutputDirectoryError(
            f"{output}: is not empty and not the output of a synth; choose another --output"
        )
    shutil.rmtree(output)


if __name__ == "__main__":
    sys.exit(main())
