"""The documents themselves: valid, clean shell, and saying what the host package understands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from peaker.domain.host_results import FENCED_DOCUMENTS, require_set_parameters
from peaker_host import cli

from peaker_contract.errors import AgentTooOld, AwsCallRejected
from sim.ssm import require_parameters
from ssm_documents.schema import document_paths, load_document

ROOT = Path(__file__).resolve().parents[2]
PATHS = document_paths()
VALUES = {
    "FencingToken": "prod/orders:12.0",
    "NotAfter": "1795931900",
    "WindowSeconds": "30",
    "Command": "verify_storage",
    "RunId": "scale-out-orders-20261121T0140-9f3a",
    "Volumes": '[{"name":"data","volume_id":"vol-0a1b2c3d4e5f60718","device":"/dev/sdf",'
    '"mount_point":"/var/lib/mysql","filesystem":"xfs"}]',
    "Layout": '[{"mount_point":"/var/lib/mysql","filesystem":"xfs","uuid":"5a0e","size_bytes":9,"kind":"raid0",'
    '"volumes":[{"volume_id":"vol-0a1b2c3d4e5f60718","size_bytes":5,"label":"68ba530e:a5a8ae46:bae47bb8:8b2ca788"}],'
    '"arrays":[],"logical_volume":null}]',
    "MountPoints": "/var/lib/mysql,/var/lib/mysql-log",
    "BackgroundRateMibPerS": "32",
    "RemainderRateMibPerS": "8",
    "Scope": "hot",
    "BlockListUrl": "http://10.77.0.1:4566/bucket/key?X-Amz-Signature=ab%2Fc&X-Amz-Date=20261121T000000Z",
    "SampleBlocks": "411",
    "AwaitRatioLimit": "1.5",
    "KneeSeconds": "60",
    "Remedy": "cold",
    "Mode": "check",
    "ServerId": "3141",
    "Health": '{"lag_seconds":5.0}',
    "SourceHost": "10.77.0.10",
    "LagGateSeconds": "5",
    "LagSamples": "3",
    "TimeoutSeconds": "600",
    "Maintenance": "on",
    "Donor": '{"server version":[8,4,6],"owner of the data":[27,27],"AppArmor":["/var/lib/mysql"]}',
    "Engine": "mysql",
    "HealthPort": "9200",
    "Filesystems": "/var/lib/mysql=xfs,/var/lib/mysql-log=ext4",
    "LeastBinlogSeconds": "172800",
    "AdminDefaultsFile": "/root/peaker-admin.cnf",
    "HealthAccount": "here",
}


def shell_of(document: dict[str, Any]) -> str:
    return "\n".join(document["mainSteps"][0]["inputs"]["runCommand"]) + "\n"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_step_has_the_document_s_name(path: Path) -> None:
    assert [step["name"] for step in load_document(path)["mainSteps"]] == [path.stem]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_shell_is_clean_to_shellcheck(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text(shell_of(load_document(path)))
    binary = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run(
        [str(binary), "--shell=sh", "--exclude=SC2154", str(script)],  # the agent sets SSM_ variables
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("shell", [["sh"], ["bash", "--posix"]], ids=lambda argv: argv[0])
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_without_its_parameters_it_does_nothing_and_is_told_by_what_the_shell_says(
    path: Path, shell: list[str]
) -> None:
    """An agent before 3.3.2746.0 sets no variable."""
    argv = [*shell, "-c", shell_of(load_document(path))]
    done = subprocess.run(argv, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
    assert (done.returncode != 0, done.stdout) == (True, "")
    with pytest.raises(AgentTooOld, match=path.stem):
        require_set_parameters(path.stem, "i-0a1b2c3d4e5f60718", done.stderr)


def called_by(path: Path, directory: Path) -> tuple[list[str], dict[str, str]]:
    """The arguments with which a document's shell calls Python, the package first, and the environment."""
    document = load_document(path)
    recorder = directory / "python3"
    program = "import json,os,sys\nprint(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
    recorder.write_text(f"#!{sys.executable}\n{program}")
    recorder.chmod(0o755)
    values = {"PackageUrl": VALUES["BlockListUrl"], **VALUES}
    done = subprocess.run(
        ["/bin/sh", "-c", shell_of(document)],
        env={
            "PATH": f"{directory}:/usr/bin:/bin",
            **{f"SSM_{one}": values[one] for one in document["parameters"]},
        },
        capture_output=True,
        text=True,
        check=True,
    )
    arguments, environment = json.loads(done.stdout)
    return arguments, environment


@pytest.mark.parametrize(
    "path",
    [path for path in PATHS if path.stem not in ("install_host_package", "report_work")],
    ids=lambda path: path.stem,
)
def test_the_shell_calls_a_command_that_the_host_package_accepts(path: Path, tmp_path: Path) -> None:
    (package, *arguments), _ = called_by(path, tmp_path)
    assert package == "/opt/peaker/current/peaker_host.pyz"
    parsed = cli.parser().parse_args(arguments)
    assert parsed.command == path.stem
    assert parsed.run_id == VALUES["RunId"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_sample_values_match_the_patterns(path: Path) -> None:
    for name, parameter in load_document(path)["parameters"].items():
        value = {"PackageUrl": VALUES["BlockListUrl"], **VALUES}[name]
        assert re.match(parameter["allowedPattern"], value), (name, value)


@pytest.mark.parametrize("name", ["install_host_package", "start_prewarm"])
def test_a_presigned_address_is_in_no_list_of_processes(name: str, tmp_path: Path) -> None:
    """Every user of the host can read the arguments of every process; the signature lets them read the bucket."""
    arguments, environment = called_by(ROOT / "ssm_documents" / f"{name}.yaml", tmp_path)
    assert not any("X-Amz-Signature" in argument for argument in arguments)
    assert VALUES["BlockListUrl"] in environment.values()


FENCED = sorted(
    path.stem for path in PATHS if {"FencingToken", "NotAfter"} <= set(load_document(path)["parameters"])
)


def test_each_document_that_changes_a_host_carries_the_lease_and_a_latest_time() -> None:
    commands = sorted(command.name for command in cli.COMMANDS if command.fenced)
    assert FENCED == commands == sorted(FENCED_DOCUMENTS)


@pytest.mark.parametrize("name", FENCED)
def test_the_lease_and_the_latest_time_reach_the_command_by_its_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option would be refused by a host package that does not know it."""
    (_, *arguments), environment = called_by(ROOT / "ssm_documents" / f"{name}.yaml", tmp_path)
    for variable in ("PEAKER_FENCING_TOKEN", "PEAKER_NOT_AFTER"):
        monkeypatch.setenv(variable, environment[variable])
    parsed = cli.parser().parse_args(arguments)
    assert (str(parsed.fencing_token), parsed.not_after) == ("12.0 of prod/orders", int(VALUES["NotAfter"]))


HOSTILE = ("$(reboot)", "a;reboot", "a b", "`id`", "a\nb", "'", "../x")


@pytest.mark.parametrize(
    "name",
    [
        *("RunId", "SourceHost", "Maintenance", "ServerId", "Health"),
        *("AdminDefaultsFile", "Filesystems", "Engine", "HealthPort", "HealthAccount"),
        *("FencingToken", "NotAfter"),
    ],
)
def test_hostile_values_match_no_pattern(name: str) -> None:
    patterns = [
        load_document(path)["parameters"][name]["allowedPattern"]
        for path in PATHS
        if name in load_document(path)["parameters"]
    ]
    assert patterns
    assert not [(p, value) for p in patterns for value in HOSTILE if re.fullmatch(p, value)]


@pytest.mark.parametrize(
    "parameters",
    [{}, {"RunId": "r", "Rate": "1"}, {"RunId": "$(reboot)"}],
    ids=["one is missing", "one is unknown", "one is not as its pattern says"],
)
def test_what_ssm_would_refuse_the_simulated_one_refuses(parameters: dict[str, str]) -> None:
    require_parameters("check_mounts", {"RunId": "scale-out-orders-1"})
    with pytest.raises(AwsCallRejected, match="check_mounts"):
        require_parameters("check_mounts", parameters)
