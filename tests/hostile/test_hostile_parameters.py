"""Run Command documents with hostile parameters: refused by their patterns, or words that mean themselves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from localcloud.extensions.ssm.command_document import CommandDocument, InvalidParameters
from ssm_documents.schema import document_paths, load_document
from tests.hostile import campaign
from tests.hostile.payloads import CANARY, INJECTIONS, TEXTS
from tests.ssm_documents.test_documents import VALUES

DOCUMENTS = {path.stem: load_document(path) for path in document_paths()}
GOOD = {"PackageUrl": VALUES["BlockListUrl"], **VALUES}
# What a shell would take as more than a word. Addresses have some of them, as query strings do.
OBEYED = set("`$\\\"'<>|;&(){}*?[]#~! \t\n\r\x00")
# Parameters that hold JSON or a presigned address; in double quotes these are letters.
WITH_SIGNS = {
    "Donor": '[]{}":;()? ', "Volumes": '[]{}":', "Layout": '[]{}":', "Health": '[]{}":',
    "BlockListUrl": "?#$&()*;!~", "PackageUrl": "?#$&()*;!~",
}  # fmt: skip


def good(document: str) -> dict[str, str]:
    return {name: GOOD[name] for name in DOCUMENTS[document]["parameters"]}


def bound(document: str, values: Mapping[str, str]) -> bool:
    """Whether Systems Manager, as the local cloud has it, takes these parameters."""
    try:
        given = {name: [value] for name, value in values.items()}
        CommandDocument.parse(document, "1", DOCUMENTS[document]).bind(given)
    except InvalidParameters:
        return False
    return True


EVERY = [(document, name) for document in DOCUMENTS for name in DOCUMENTS[document]["parameters"]]


@pytest.mark.parametrize(("document", "name"), EVERY, ids=[f"{one}-{name}" for one, name in EVERY])
def test_a_hostile_parameter_is_refused(document: str, name: str) -> None:
    values = good(document)
    assert bound(document, values)
    taken = [value for value in (*INJECTIONS, *TEXTS) if bound(document, {**values, name: value})]
    allowed = OBEYED - set(WITH_SIGNS.get(name, ""))
    assert [value for value in taken if set(value) & allowed or not value.isascii()] == []
    assert not any(CANARY in value for value in taken)


@pytest.mark.parametrize(("document", "name"), EVERY, ids=[f"{one}-{name}" for one, name in EVERY])
def test_a_good_parameter_with_a_command_behind_it_is_refused(document: str, name: str) -> None:
    values = good(document)
    for end in (
        f"$(touch {CANARY})",
        f"`touch {CANARY}`",
        f"; touch {CANARY}",
        f"\ntouch {CANARY}",
        '"',
        "'",
        "\n",
    ):
        assert not bound(document, {**values, name: values[name] + end}), end


# They do not run the host package: one installs it, one looks for its process.
WITHOUT_THE_PACKAGE = {"install_host_package", "report_work"}


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name not in WITHOUT_THE_PACKAGE])
def test_even_without_the_patterns_the_shell_takes_words_as_words(document: str, tmp_path: Path) -> None:
    """An agent that is too old for patterns hands everything on."""
    campaign.forget_canary()
    recorder = tmp_path / "python3"
    recorder.write_text(f"#!{sys.executable}\nimport json,sys\nprint(json.dumps(sys.argv[1:]))\n")
    recorder.chmod(0o755)
    script = "\n".join(DOCUMENTS[document]["mainSteps"][0]["inputs"]["runCommand"]) + "\n"
    hostile = f'$(touch {CANARY})`touch {CANARY}`; touch {CANARY}\n" ; touch {CANARY} ; " \' * $HOME'
    names = DOCUMENTS[document]["parameters"]
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **{f"SSM_{name}": hostile for name in names}},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = json.loads(done.stdout)
    options = [word for word in words if re.fullmatch(r"--[a-z0-9-]+", word)]
    assert words.count(hostile) == len(options) == len(words) // 2 - 1 + (len(words) % 2)
    assert not campaign.shell_was_run()


def test_a_hostile_command_name_is_no_process_and_no_shell() -> None:
    campaign.forget_canary()
    script = "\n".join(DOCUMENTS["report_work"]["mainSteps"][0]["inputs"]["runCommand"]) + "\n"
    hostile = f'$(touch {CANARY})`touch {CANARY}`; touch {CANARY}\n" ; touch {CANARY} ; " \' * $HOME'
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"PATH": "/usr/bin:/bin", "SSM_Command": hostile},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["at_work"] is False
    assert not campaign.shell_was_run()
