"""What simulated hosts know of volumes that an engine writes: empty ones, and older copies brought up to date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.host_volumes import HostVolumes, refusal


class SimulatedFills:
    """Of all hosts; engines are known by the host and the run. What the host package refuses is refused."""

    def __init__(self) -> None:
        self._begun: set[tuple[str, str]] = set()
        # Those that were seen to have ended.
        self._ended: set[tuple[str, str]] = set()
        # By host, the run that brings its volumes up to date, until they are assembled as its fresh copy.
        self._refills: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._lives: dict[str, int] = {}
        self._used: set[str] = set()
        # By host, the run that its manifest names.
        self._manifests: dict[str, str] = {}

    def lives(self, instance_id: str) -> int:
        """How many copies the host's volumes have been."""
        return self._lives.get(instance_id, 1)

    def is_of(self, instance_id: str, run_id: str) -> bool:
        """Whether the run's engine on this host fills."""
        return (instance_id, run_id) in self._begun

    def begun(self, instance_id: str, run_id: str, changed: bool) -> None:
        """An engine of the run fills, older copies where anything has changed."""
        self._begun.add((instance_id, run_id))
        if changed and self._marks.get(instance_id) != run_id:
            self._refills[instance_id] = run_id

    def ended(self, instance_id: str, run_id: str) -> None:
        """It was seen to be done."""
        self._ended.add((instance_id, run_id))

    def started(self, instance_id: str) -> None:
        """A database has written to the volumes."""
        self._used.add(instance_id)

    def assembled(self, instance_id: str, environment: Mapping[str, str]) -> None:
        """The volumes are a fresh copy, once for each run that has refilled them."""
        self._manifests[instance_id] = environment.get("SSM_RunId", "")
        by = environment.get("SSM_RefilledBy", "")
        if by and self._marks.get(instance_id) != by:
            self._marks[instance_id] = by
            self._refills.pop(instance_id, None)
            self._lives[instance_id] = self.lives(instance_id) + 1

    def refusal(
        self, document: str, instance_id: str, environment: Mapping[str, str], at_work: bool
    ) -> Mapping[str, Any] | None:
        """Why the document does nothing now; `at_work`: a database is, on mounted volumes."""
        begun, filled = (
            {run_id for host, run_id in runs if host == instance_id} for runs in (self._begun, self._ended)
        )
        there = HostVolumes(
            at_work=at_work,
            used=instance_id in self._used,
            empty=environment.get("SSM_RunId", "") in begun - filled,
            mixed=instance_id in self._refills,
            begun=begun,
            filled=filled,
            assembled=self._manifests.get(instance_id),
            anew=self._marks.get(instance_id),
        )
        return refusal(document, {name.removeprefix("SSM_"): of for name, of in environment.items()}, there)
