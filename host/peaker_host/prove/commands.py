"""The command that proves the volumes warm."""

from __future__ import annotations

from typing import Any, Dict

from peaker_host.machine.command import Command, Context, Parameter, count, positive, positive_int


def _verify_storage(context: Context) -> Dict[str, Any]:
    from peaker_host.prove.verify import ProofRequest, verify_storage

    arguments = context.arguments
    request = ProofRequest(
        run_id=arguments.run_id,
        sample_blocks=arguments.sample_blocks,
        await_ratio_limit=arguments.await_ratio_limit,
        scope=arguments.scope,
        remedy=arguments.remedy,
        load_seconds=arguments.load_seconds,
        knee_seconds=arguments.knee_seconds,
    )
    return verify_storage(context.machine, request, context.say)


COMMANDS = (
    Command(
        "verify_storage",
        "Prove from a random sample that the volumes are warm",
        "--run-id R --sample-blocks 411 --await-ratio-limit 1.5",
        _verify_storage,
        (
            Parameter("--sample-blocks", "blocks per volume to begin with", positive_int, 411),
            Parameter("--await-ratio-limit", "first against second reads", positive, 1.5),
            Parameter(
                "--scope",
                "which blocks must be warm: all in use, or what the database needs before it may serve",
                default="used",
                choices=("used", "hot"),
            ),
            Parameter(
                "--remedy",
                "what is read again before: around what was slow at the last look, or all",
                default="none",
                choices=("none", "cold", "all"),
            ),
            Parameter("--load-seconds", "length of the read load, 0 for none", count, 5),
            Parameter(
                "--knee-seconds",
                "time to search for the knee, for all volumes together; 0 for none",
                count,
                0,
            ),
        ),
        fenced=True,
        alone=True,
    ),
)
