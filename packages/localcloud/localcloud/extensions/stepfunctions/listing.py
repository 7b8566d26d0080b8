"""Executions as ListExecutions sorts them: those that run by their start or redrive, others by their end."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


def install(cloud: OpenCloud) -> None:
    """moto sorts all by their start, and does not say when one that ran out of time ended."""
    from moto.core.responses import ActionResult
    from moto.stepfunctions.models import StepFunctionBackend
    from moto.stepfunctions.responses import StepFunctionResponse
    from moto.stepfunctions.utils import PAGINATION_MODEL
    from moto.utilities.paginator import paginate

    original = StepFunctionResponse.list_executions

    @paginate(pagination_model=PAGINATION_MODEL)
    def list_executions(self: Any, state_machine_arn: str, status_filter: str | None = None) -> list[Any]:
        found = self.describe_state_machine(state_machine_arn).executions
        wanted = [one for one in found if status_filter in (None, "", one.status)]
        return sorted(wanted, key=_listed_at, reverse=True)

    def answer(self: Any) -> ActionResult:
        listed = original(self)
        for one in cast(dict[str, Any], listed.result)["executions"]:
            if one["status"] != "RUNNING" and "stopDate" not in one:
                one["stopDate"] = self.stepfunction_backend.describe_execution(one["executionArn"]).stop_date
        return listed

    cloud.patch(StepFunctionBackend, "list_executions", list_executions)
    cloud.patch(StepFunctionResponse, "list_executions", answer)


def _listed_at(execution: Any) -> datetime:
    """botocore, `ListExecutions`. The redrive's date is of extensions/stepfunctions/redrives.py."""
    if execution.status != "RUNNING":
        return cast(datetime, execution.stop_date or execution.start_date)
    return cast(datetime, getattr(execution, "redrive_date", None) or execution.start_date)
