"""What a donor's copies need of the image, asked of both hosts and compared before a block of a volume is read.

A value that could not be read is None: it is said, and refuses only where no copy can do without the fact.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from peaker_host.layouts.image_logins import NATIVE_PASSWORD
from peaker_host.layouts.image_rules import FACTS, FIO_ENGINES, shown
from peaker_host.layouts.image_sides import ABSENT, FORMATS, PATHS, Donor, Image, Rows
from peaker_host.machine.errors import MISFITS, HostError, ImageUnfit

# SSM takes these in a parameter; the allowedPattern of assemble_storage has the same.
_NOT_CARRIED = re.compile(r"[^A-Za-z0-9_{}\[\]\":,;./+=@() -]")


def donor_facts(server: Rows, engine: str, directories: Sequence[str]) -> Dict[str, Any]:
    """The donor's value of each fact, None where it cannot be read; what its server does not have is left out."""
    try:
        donor = Donor(server, engine, directories)
    except (HostError, *MISFITS):
        return {}
    found = {fact.name: _known(fact.of_donor, donor) for fact in FACTS if fact.of_donor is not None}
    return {name: value for name, value in found.items() if value != ABSENT}


def needs(donor: Mapping[str, Any]) -> str:
    """Says what an image must have to become a replica of this donor."""
    version = donor.get("server version")
    owner = donor.get("owner of the data")
    keyring = donor.get("keyring component")
    told = [
        f"a server of {shown(version)} or newer in its series"
        if version
        else "a server of an unknown version"
    ]
    told += [f"its account of uid {owner[0]} gid {owner[1]}"] if owner else []
    told += [f"{name} {donor[name]}" for name in (*FORMATS, "datadir", *PATHS) if donor.get(name) is not None]
    told += [f"{keyring['component']} with the donor's keys"] if keyring else []
    told += [f"{NATIVE_PASSWORD} = ON"] if donor.get(NATIVE_PASSWORD) else []
    told += ["an administrator's login in admin.cnf"] if donor.get("administrator") == "password" else []
    told += [f"{path} where no volume has it" for path in donor.get("files of the channel") or ()]
    told += ["the channel's login in replication.json"] if donor.get("login of the channel") else []
    return f"{', '.join(told)}; fio with an engine of {' or '.join(FIO_ENGINES)}, sysstat"


def image_facts(image: Image, donor: Mapping[str, Any]) -> Dict[str, Any]:
    """The image's value of each fact that the donor has, or that is of the image alone."""
    wanted = [fact for fact in FACTS if fact.of_donor is None or fact.name in donor]
    return {fact.name: _known(fact.of_image, image, donor.get(fact.name)) for fact in wanted}


def compare(donor: Mapping[str, Any], image: Mapping[str, Any]) -> Tuple[List[str], List[str]]:
    """Returns the reasons against the image, and what is only said."""
    reasons: List[str] = []
    said: List[str] = []
    for fact in FACTS:
        if fact.name not in image:
            continue
        ours, theirs = image[fact.name], donor.get(fact.name)
        if ours is None or (fact.of_donor is not None and theirs is None):
            whose = "image" if ours is None else "donor"
            (reasons if fact.essential else said).append(f"{fact.name} of the {whose} is unknown")
            continue
        try:
            refuses, words = fact.rule(theirs, ours)
        except MISFITS:
            refuses, words = (
                fact.essential,
                f"{fact.name} cannot be compared: {theirs!r:.80} with {ours!r:.80}",
            )
        if words:
            (reasons if refuses else said).append(words)
    return reasons, said


def refuse_unfit(image: Image, donor: Mapping[str, Any]) -> List[str]:
    """Returns what is said of an image that fits. Raises ImageUnfit with both values of all that does not."""
    reasons, said = compare(donor, image_facts(image, donor))
    if reasons:
        raise ImageUnfit("; ".join(reasons))
    return said


def _known(ask: Callable[..., Any], *given: Any) -> Any:
    try:
        return _carried(ask(*given))
    except (HostError, OSError, *MISFITS):
        return None


def _carried(value: Any) -> Any:
    """The value as SSM carries it from one host to the other."""
    return json.loads(_NOT_CARRIED.sub("?", json.dumps(value, ensure_ascii=True)))
