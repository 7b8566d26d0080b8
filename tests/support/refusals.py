"""How an execution looks that a rule refused: no failure, no alarm, and its reason in the output."""

from __future__ import annotations

from typing import Any

from tests.support.workflow_cloud import WorkflowCloud


def assert_refused(cloud: WorkflowCloud, execution: dict[str, Any], error: str, said: str) -> None:
    assert (execution["status"], cloud.last_state(execution)) == ("SUCCEEDED", "Refused"), execution
    output = execution["document"]
    assert (output["outcome"], output["error"]) == ("refused", error)
    assert said in output["reason"]
    assert "errorMessage" not in output["reason"]
