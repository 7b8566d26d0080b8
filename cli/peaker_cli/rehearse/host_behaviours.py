"""What Run Command and Parameter Store do where their documents are silent or a run depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peaker_cli.rehearse.named import document
from peaker_cli.rehearse.resources import Resources, answer_of

RUN = "AWS-RunShellScript"
_AWKWARD = '$(id); `id` "it\'s" \\'
_ENV_VAR = {"type": "String", "interpolationType": "ENV_VAR"}
_PARAMETERS: Mapping[str, Any] = {
    "Literal": {**_ENV_VAR, "default": "none"},
    "Empty": {**_ENV_VAR, "default": ""},
    "Narrow": {"type": "String", "default": "used", "allowedPattern": "^[a-z]{1,8}$"},
}
# A line `# prints` tells a simulated host that the script does nothing else.
_SCRIPT = """# prints
printf '%s\\n' "$SSM_Literal"
printf '%s\\n' "${SSM_Empty-not set}"
printf '%s\\n' '{{ Literal }}'
printf '%s\\n' '{{ Narrow }}'"""
_LONG = """# prints
head -c 30000 /dev/zero | tr '\\0' o
head -c 30000 /dev/zero | tr '\\0' e >&2
exit 3"""
_PYTHON = """#!/usr/bin/env python3
# prints
print(6 * 7)"""
_SLEEP = "sleep 600"

PARAMETERS: Mapping[str, str] = {
    "an ENV_VAR parameter": "as given",
    "an empty ENV_VAR parameter": "not set",
    "an ENV_VAR parameter in {{ }}": "not pasted",
    "another parameter in {{ }}": "pasted",
    "a parameter against its pattern": "InvalidParameters",
    "a line break at its end": "InvalidParameters",
    "an unknown parameter": "InvalidParameters",
}
COMMANDS: Mapping[str, str] = {
    "output and error output kept": "24000 and 8000 characters",
    "a script that exits with 3": "Failed, 3",
    "a first line #!python3": "42",
    "a cancelled command": "Cancelled",
    "a script past its time-out": "TimedOut, ExecutionTimedOut",
    "ListCommands, unknown filter": "InvalidFilterKey",
    "a standard parameter of 4,097 bytes": "ValidationException",
    "an advanced parameter of 8,193 bytes": "ValidationException",
}


def ask_commands(resources: Resources) -> dict[str, str]:
    """Sends the host scripts that print, and one that sleeps until it is cancelled."""
    return {
        **_of_the_output(resources),
        "a first line #!python3": str(_shell(resources, _PYTHON)["StandardOutputContent"]).strip(),
        "a cancelled command": _cancelled(resources),
        "a script past its time-out": _both(_shell(resources, _SLEEP, "5"), "Status", "StatusDetails"),
        **_refusals(resources),
    }


def ask_document(resources: Resources) -> dict[str, str]:
    """Sends the host a document of the rehearsal's own, which prints its parameters."""
    name, ssm = document(resources, _SCRIPT, _PARAMETERS), resources.client("ssm")
    said = resources.command(name, {"Literal": [_AWKWARD]})["StandardOutputContent"].splitlines()
    literal, empty, pasted, other = [*said, "", "", "", ""][:4]

    def sent(**parameters: str) -> str:
        given = {key: [value] for key, value in parameters.items()}
        asked = {"DocumentName": name, "InstanceIds": [resources.instance()], "Parameters": given}
        return answer_of(lambda: ssm.send_command(**asked))

    return {
        "an ENV_VAR parameter": "as given" if literal == _AWKWARD else literal,
        "an empty ENV_VAR parameter": empty or "set, empty",
        "an ENV_VAR parameter in {{ }}": "pasted" if _AWKWARD in pasted else "not pasted",
        "another parameter in {{ }}": "pasted" if other == "used" else other,
        "a parameter against its pattern": sent(Narrow="a b; c"),
        "a line break at its end": sent(Narrow="used\n"),
        "an unknown parameter": sent(Elsewhere="x"),
    }


def _of_the_output(resources: Resources) -> dict[str, str]:
    ended = _shell(resources, _LONG)
    out, err = len(ended["StandardOutputContent"]), len(ended["StandardErrorContent"])
    return {
        "output and error output kept": f"{out} and {err} characters",
        "a script that exits with 3": _both(ended, "Status", "ResponseCode"),
    }


def _cancelled(resources: Resources) -> str:
    ssm, asked = resources.client("ssm"), {"commands": [_SLEEP]}
    sent = resources.send(RUN, asked)
    resources.seconds_until(
        "the script", lambda: resources.invocation(sent).get("Status") in {"InProgress", "Success"}
    )
    ssm.cancel_command(CommandId=sent)
    return str(resources.ended(sent)["Status"])


def _refusals(resources: Resources) -> dict[str, str]:
    ssm, name = resources.client("ssm"), resources.own_name
    unknown = [{"key": "Colour", "value": "red"}]
    value = {"Name": name, "Type": "String"}
    return {
        "ListCommands, unknown filter": answer_of(lambda: ssm.list_commands(Filters=unknown)),
        "a standard parameter of 4,097 bytes": answer_of(
            lambda: ssm.put_parameter(**value, Value="x" * 4097)
        ),
        "an advanced parameter of 8,193 bytes": answer_of(
            lambda: ssm.put_parameter(**value, Value="x" * 8193, Tier="Advanced")
        ),
    }


def _shell(resources: Resources, script: str, timeout: str = "60") -> dict[str, Any]:
    return resources.command(RUN, {"commands": [script], "executionTimeout": [timeout]})


def _both(ended: Mapping[str, Any], first: str, second: str) -> str:
    return f"{ended[first]}, {ended[second]}"
