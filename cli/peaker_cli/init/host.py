"""Asks a replica that has nothing of Peaker's yet, by the modules of the host package that know how."""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Mapping
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

import peaker_host
from peaker.adapters.aws_errors import translated
from peaker.adapters.ssm.commands import DELIVERY_TIMEOUT_SECONDS, SsmCommands
from peaker.domain.reading import Unknown

from peaker_cli.base_replica.prepare_base import agent_step, run_document
from peaker_cli.control_plane import ControlPlane
from peaker_cli.doctor.finding import ask
from peaker_cli.failures import ControlPlaneError

_MODULE = "peaker_host.donor.describe_base"
_PROGRAM = """exec python3 - <<'PROGRAM'
import base64, json, lzma, os, sys, tempfile
with tempfile.TemporaryDirectory() as place:
    for name, text in json.loads(lzma.decompress(base64.b64decode("{packed}"))).items():
        path = os.path.join(place, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    sys.path.insert(0, place)
    sys.dont_write_bytecode = True
    from {module} import main
    main({admin_defaults_file!r})
PROGRAM"""


class _Shell(SsmCommands):
    """Port CommandRunner before a deployment: AWS's own document, to which the script is a parameter."""

    def send(self, document: str, instance_id: str, parameters: Mapping[str, str], comment: str) -> str:
        with translated("ssm:SendCommand"):
            answer = self._ssm_single_try.send_command(
                DocumentName="AWS-RunShellScript",
                InstanceIds=[instance_id],
                Parameters={"commands": [parameters["commands"]], "executionTimeout": ["180"]},
                Comment=comment,
                TimeoutSeconds=DELIVERY_TIMEOUT_SECONDS,
            )
        return answer["Command"]["CommandId"]


def describe_host(
    control: ControlPlane, instance_id: str, admin_defaults_file: str
) -> Mapping[str, Any] | Unknown:
    """Returns what `describe_base` says on the replica; Unknown where nobody answers. It changes nothing there."""
    ssm = control.client("ssm")
    shell = _Shell(ssm, ssm, "")
    agent = ask("ssm:DescribeInstanceInformation", lambda: shell.agent(instance_id))
    if isinstance(agent, Unknown):
        return agent
    step = agent_step(agent)
    if step.state == "refused":
        return Unknown(f"{step.detail}: {step.remedy}")
    given = {"commands": program(admin_defaults_file)}
    try:
        said = ask(
            "ssm:SendCommand of AWS-RunShellScript",
            lambda: run_document(shell, "describe_base", instance_id, given, "peaker init"),
        )
    except ControlPlaneError as error:
        return Unknown(str(error))
    if isinstance(said, Unknown) or said.get("ok") is True:
        return said
    return Unknown(f"{said.get('error', 'failed')}: {said.get('message', '')}"[:300])


def program(admin_defaults_file: str = "") -> str:
    """Returns the script: the module and those of the host package that it imports, of at most 64 KB (RunCommand)."""
    root = Path(peaker_host.__path__[0]).parent
    finder = ModuleFinder(path=[str(root)])
    finder.import_hook(_MODULE)
    files = sorted(Path(one) for one in (vars(found)["__file__"] for found in finder.modules.values()) if one)
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}
    packed = base64.b64encode(lzma.compress(json.dumps(texts).encode())).decode()
    return _PROGRAM.format(packed=packed, module=_MODULE, admin_defaults_file=admin_defaults_file)
