"""What healthy hosts answer to Peaker's documents, and how a test makes one answer badly."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from localcloud.dataplane import RunResult

DONOR_UUID = "0d0d0d0d-0000-11f1-8000-000000000001"

HEALTHY: Mapping[str, Mapping[str, Any]] = {
    "install_host_package": {"installed": True, "sha256": "ab" * 32},
    "prepare_donor": {
        "gtid_set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77",
        "lag_seconds": 0,
        "buffer_pool_pages": 812,
        "server_uuid": DONOR_UUID,
        "data_bytes": 3 * 1024**3,
    },
    "assemble_storage": {"members": [{"name": "data"}, {"name": "log"}], "bytes": 6 * 1024**3},
    "start_prewarm": {"pid": 4711, "already_running": False},
    "report_prewarm": {
        "state": "done",
        "blocks_done": 6144,
        "blocks_total": 6144,
        "bytes_read": 3 * 1024**3,
        "rate_mib_per_s": 250.0,
        "eta_seconds": 0,
        "elapsed_seconds": 12.3,
    },
    "verify_storage": {
        "verdict": "warm",
        "await_first_ms": 0.71,
        "await_second_ms": 0.7,
        "ratio": 1.01,
        "cold_share_upper": 0.01,
        "reason": "0 of 256 first reads were slow",
    },
    "start_database": {
        "server_uuid": "from the host",
        "server_id": 7,
        "read_only": True,
        "started_seconds": 1.4,
    },
    "start_replication": {"io_running": True, "sql_running": True, "source_checked": True},
    "wait_for_catch_up": {
        "samples": [{"lag_seconds": 0, "running": True, "gtid_behind": 0}] * 3,
        "gtid_behind_at_start": 12,
        "caught_up_seconds": 2.5,
    },
    "load_buffer_pool": {"pages": 812, "seconds": 0.4, "page_list_found": True},
    "drain_replica": {
        "connections": 0,
        "transactions": 0,
        "running_statements": 0,
        "client_statements": 4711,
    },
    "measure_service": {
        "measurable": True,
        "queries": 5000,
        "errors": 0,
        "mean_ms": 0.41,
        "window_seconds": 2,
    },
    "stop_database": {
        "gtid_set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-99",
        "binlog_expire_seconds": 604_800,
        "stopped_seconds": 2.1,
    },
    "set_maintenance": {"maintenance": "off"},
    "report_health": {"http_status": 200, "state": "good", "why": "in time", "lag_seconds": 0.0},
}


class HostAnswers:
    """The responder of a simulated data plane. Bad answers are scripted per document, and per host if wanted."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self._scripted: dict[tuple[str, str | None], list[Mapping[str, Any]]] = {}
        self._lock = threading.Lock()

    def __call__(self, instance_id: str, argv: Sequence[str], environment: Mapping[str, str]) -> RunResult:
        document = document_of(argv[-1])
        with self._lock:
            self.asked.append((document, instance_id))
            answer = self._next(document, instance_id)
        result = {"version": 1, "command": document, "ok": True, **answer}
        if document == "start_database" and result.get("server_uuid") == "from the host":
            result["server_uuid"] = f"uuid-of-{instance_id}"
        return RunResult(0 if result["ok"] else 1, f"progress\n{json.dumps(result)}\n", "")

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

    def _next(self, document: str, instance_id: str) -> Mapping[str, Any]:
        for key in ((document, instance_id), (document, None)):
            if self._scripted.get(key):
                return self._scripted[key].pop(0)
        return HEALTHY[document]


def document_of(script: str) -> str:
    """Which of Peaker's documents a step's script belongs to."""
    found = re.search(r"peaker_host\.pyz (?:\\\n\s*)?([a-z_]+)", script)
    return found.group(1) if found else "install_host_package"
