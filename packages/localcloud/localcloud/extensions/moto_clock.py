"""Make moto tell the cloud's time: what it stamps on instances, executions, metrics and events.

moto asks the clock in two ways: through moto.core.utils.utcnow, and directly in a few modules. Both are served by
replacing the name `datetime` (and `time`) that those modules see; the classes they make stay the real ones.
"""

from __future__ import annotations

import datetime as real_datetime
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.clock import CloudClock
    from localcloud.open_cloud import OpenCloud

# Modules that read the clock themselves (grep for datetime.now in moto 5.2.5) and whose times users see.
MODULES = (
    "moto.core.utils",
    "moto.cloudwatch.models",
    "moto.s3.models",
    "moto.stepfunctions.parser.asl.component.state.exec.state_parallel.branches_decl",
    "moto.stepfunctions.parser.asl.component.state.state",
    "moto.stepfunctions.parser.asl.eval.event.event_manager",
    "moto.stepfunctions.parser.backend.execution",
    "moto.stepfunctions.parser.models",
)


class _InstanceOfReal(type):
    """isinstance(x, CloudDatetime) is true for every real datetime."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, real_datetime.datetime)


def _datetime_class(clock: CloudClock) -> type:
    class CloudDatetime(real_datetime.datetime, metaclass=_InstanceOfReal):
        @classmethod
        def now(cls, tz: real_datetime.tzinfo | None = None) -> real_datetime.datetime:  # type: ignore[override]
            moment = clock.now()
            return moment.astimezone(tz) if tz is not None else moment.astimezone().replace(tzinfo=None)

        @classmethod
        def utcnow(cls) -> real_datetime.datetime:  # type: ignore[override]
            return clock.now().replace(tzinfo=None)

    return CloudDatetime


def install(cloud: OpenCloud) -> None:
    """Put every listed module on the cloud clock."""
    cloud_datetime = _datetime_class(cloud.clock)
    module_proxy = ModuleType("datetime")
    vars(module_proxy).update(
        {name: value for name, value in vars(real_datetime).items() if name[:2] != "__"}
    )
    vars(module_proxy)["datetime"] = cloud_datetime
    for name in MODULES:
        module = importlib.import_module(name)
        seen = getattr(module, "datetime", None)
        cloud.patch(module, "datetime", module_proxy if seen is real_datetime else cloud_datetime)
