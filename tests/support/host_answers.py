"""Healthy hosts for tests, and how a test makes one answer badly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.rehearsed_hosts import rehearsal_answer
from lab.simulated_hosts import (
    HEALTHY,
    SimulatedAnswers,
    as_run_result,
    document_of,
    health_port,
    own,
    without_a_parameter,
)
from localcloud.dataplane import RunResult
from localcloud.simulated.hosts import After


class HostAnswers:
    """The responder of a simulated data plane. Bad answers are scripted per document, and per host if wanted.

    Hosts are healthy and done with everything at once, or they take their time like `hosts`.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.hosts: SimulatedAnswers | None = None
        self.before_answering: Callable[[str, str], None] | None = None  # with the document and the host
        self._responders: dict[str, int] = {}
        self._scripted: dict[tuple[str, str | None], list[Mapping[str, Any]]] = {}
        self._lock = threading.Lock()

    def __call__(
        self, instance_id: str, argv: Sequence[str], environment: Mapping[str, str]
    ) -> RunResult | After:
        document = document_of(argv[-1])
        if document is None:
            return rehearsal_answer(argv, environment)
        missing = without_a_parameter(argv[-1], environment)
        if missing is not None:
            return missing
        if self.before_answering is not None:
            self.before_answering(document, instance_id)
        with self._lock:
            self.asked.append((document, instance_id))
            answer = self._scripted_answer(document, instance_id)
            if document == "start_database" and (answer is None or answer.get("ok", True)):
                self._responders[instance_id] = health_port(environment)
        if answer is None and self.hosts is not None:
            return self.hosts(instance_id, argv, environment)
        return as_run_result(document, own(answer or HEALTHY[document], instance_id))

    def answers_probes(self, instance_id: str, port: int) -> bool:
        """At the port that its start was told. Hosts that a test made itself are prepared for any."""
        return self._responders.get(instance_id, port) == port

    def script(self, document: str, *answers: Mapping[str, Any], instance_id: str | None = None) -> None:
        """These answers come first, one per call; each is laid over the healthy one."""
        self._scripted[document, instance_id] = [{**HEALTHY[document], **answer} for answer in answers]

    def fail(self, document: str, error: str, *, instance_id: str | None = None, times: int = 1000) -> None:
        """The host reports this error class, that many times."""
        answer = {"ok": False, "error": error, "message": f"{error} on purpose"}
        self.script(document, *([answer] * times), instance_id=instance_id)

    def healthy(self) -> None:
        """Forget all scripts."""
        self._scripted.clear()
        self.before_answering = None

    def _scripted_answer(self, document: str, instance_id: str) -> Mapping[str, Any] | None:
        for key in ((document, instance_id), (document, None)):
            if self._scripted.get(key):
                return self._scripted[key].pop(0)
        return None
