"""A run is named by its id, by the id's last characters, or as `last`."""

from __future__ import annotations

from collections.abc import Sequence

from peaker_cli.control_plane import ControlPlane
from peaker_cli.failures import ControlPlaneError

_LOOKED_AT = 200
_NAMED = 5


def is_whole(text: str) -> bool:
    """Tells whether it is a run's whole id."""
    return text.startswith("scale-")


def named_run(control: ControlPlane, clusters: Sequence[str], text: str, at_work: Sequence[str] = ()) -> str:
    """The id that is meant; a whole one is not looked up. `at_work` may have no row yet.

    Raises ControlPlaneError where no run of these clusters, or more than one, is meant.
    """
    if is_whole(text):
        return text
    rows = sorted(
        (str(row["sk"]), str(row["run_id"])) for name in clusters for row in control.runs(name, _LOOKED_AT)
    )
    ids = list(dict.fromkeys([*at_work, *(run_id for _, run_id in reversed(rows))]))
    where = f"of {clusters[0]}" if len(clusters) == 1 else "of this environment"
    if text == "last":
        # The members of a batch have ids that go on after that of the batch's run.
        found = [one for one in ids if not any(one.startswith(f"{other}-") for other in ids)][:1]
    else:
        found = [one for one in ids if text and one.endswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ControlPlaneError(f"{text!r} is the end of {', '.join(found[:_NAMED])}; give more of it")
    raise ControlPlaneError(f"no run {where} ends in {text!r}; `peaker runs` lists them")
