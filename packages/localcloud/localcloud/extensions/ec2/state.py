"""What the EC2 and EBS extensions share: whose requests they answer, idempotency, delayed visibility."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend, ec2_backends

from localcloud.dataplane import DataPlane

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

NOT_FOUND = {
    "i": "InvalidInstanceID.NotFound",
    "snap": "InvalidSnapshot.NotFound",
    "vol": "InvalidVolume.NotFound",
}
NOT_PART_OF_THE_REQUEST = ("ClientToken", "DryRun")


def ec2_error(code: str, message: str) -> EC2ClientError:
    """An EC2 API error, to raise."""
    return EC2ClientError(code, message)


def page(response: Any, items: Sequence[Any], most: int | None = None) -> tuple[Sequence[Any], str | None]:
    """So many items as the request asks for, or at most, and the token of the next page."""
    start = int(response._get_param("NextToken") or 0)
    end = start + int(response._get_param("MaxResults") or most or len(items))
    return items[start:end], str(end) if end < len(items) else None


@dataclass(frozen=True)
class _Answered:
    fingerprint: str
    result: Any


class Ec2State:
    """The EC2 of one open cloud. `lock` guards moto's records; slow data plane calls are made without it."""

    def __init__(self, cloud: OpenCloud, dataplane: DataPlane) -> None:
        self.cloud = cloud
        self.dataplane = dataplane
        self.lock = threading.RLock()
        self.backend: EC2Backend = ec2_backends[cloud.settings.account_id][cloud.settings.region]
        self.running_seconds: Callable[[str], float]  # of an instance; the instances' extension knows
        self.random = random.Random(cloud.settings.seed)
        self._visible_at: dict[str, float] = {}
        self._answered: dict[tuple[str, str], _Answered] = {}
        self._machine_locks: dict[str, threading.RLock] = {}

    @property
    def transition_seconds(self) -> float:
        """Real seconds that a volume stays creating, attaching or detaching."""
        return self.cloud.settings.describe_delay_seconds / 2

    def machine_lock(self, resource_id: str) -> threading.RLock:
        """Held while the data plane works on one instance, so that launch and terminate queue up."""
        with self.lock:
            return self._machine_locks.setdefault(resource_id, threading.RLock())

    # -- eventual consistency ------------------------------------------------------------------------------

    def created(self, resource_id: str) -> None:
        """Describe calls find this resource only after a short random delay, the same in every run."""
        self._visible_at[resource_id] = time.monotonic() + self.describe_lag()

    def describe_lag(self) -> float:
        """Real seconds that Describe lags behind this time: random, the same in every run."""
        return self.cloud.settings.describe_delay_seconds * self.random.uniform(0.3, 1.0)

    def zone_of(self, request: Mapping[str, Any]) -> str:
        """The zone that a request names. Raises what EC2 raises without one, and for one that is not there."""
        name = request.get("AvailabilityZone")
        if not name:
            raise ec2_error("MissingParameter", "The request must contain the parameter AvailabilityZone")
        if name not in {zone.name for zone in self.backend.describe_availability_zones()}:
            raise ec2_error("InvalidZone.NotFound", f"The zone '{name}' does not exist.")
        return str(name)

    def visible(self, resource_id: str) -> bool:
        return time.monotonic() >= self._visible_at.get(resource_id, 0.0)

    def tag_what_is_visible(self) -> None:
        """CreateTags does not find by its id what Describe does not show yet."""
        from moto.ec2.responses.tags import TagResponse

        def create_tags(response: Any) -> Any:
            for resource_id in response._get_param("Resources", []):
                if not self.visible(resource_id):
                    code = NOT_FOUND.get(resource_id.split("-")[0], "InvalidID")
                    raise ec2_error(code, f"The ID '{resource_id}' does not exist")
            return original(response)

        original = self.replace_action(TagResponse, "create_tags", create_tags)

    # -- idempotency ---------------------------------------------------------------------------------------

    def once(
        self, operation: str, parameters: Mapping[str, Any], token: str | None, act: Callable[[], Any]
    ) -> Any:
        """Act once per ClientToken; the same token with other parameters is IdempotentParameterMismatch."""
        fingerprint = json.dumps(
            {key: value for key, value in parameters.items() if key not in NOT_PART_OF_THE_REQUEST},
            sort_keys=True,
            default=str,
        )
        with self.lock:
            if token is None:
                return act()
            answered = self._answered.get((operation, token))
            if answered is None:
                answered = _Answered(fingerprint, act())
                self._answered[(operation, token)] = answered
            elif answered.fingerprint != fingerprint:
                raise ec2_error(
                    "IdempotentParameterMismatch",
                    "Arguments on this idempotent request are inconsistent with arguments used in previous "
                    "request(s).",
                )
            return answered.result

    # -- hooks ---------------------------------------------------------------------------------------------

    def answers(self, response: Any) -> bool:
        """True for a request to this cloud's account and region; moto answers the others unchanged."""
        settings = self.cloud.settings
        return bool(response.current_account == settings.account_id and response.region == settings.region)

    def replace_action(self, owner: Any, name: str, action: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Answer an API action here: `action(response)` returns moto's kind of result. Gives moto's own."""

        def answer(response: Any) -> Any:
            return action(response) if self.answers(response) else original(response)

        original: Callable[[Any], Any] = self.cloud.patch(owner, name, answer)
        return original

    def refuse(self, owner: Any, *names: str) -> None:
        """Refuse actions that moto would answer from its records alone, while the machine stayed as it was."""

        def refused(response: Any) -> Any:
            raise ec2_error("UnsupportedOperation", f"The local cloud has no {response._get_action()}.")

        for name in names:
            self.replace_action(owner, name, refused)

    def add_action(self, owner: Any, name: str, action: Callable[[Any], Any]) -> None:
        """Answer an API action that moto has not; should moto learn it, we learn of that here."""
        self.cloud.add(owner, name, lambda response: action(response))


_states: WeakKeyDictionary[OpenCloud, Ec2State] = WeakKeyDictionary()


def ec2_state(cloud: OpenCloud) -> Ec2State:
    """The EC2 of this cloud, made on first use. The cloud must have a data plane."""
    if cloud not in _states:
        if cloud.dataplane is None:
            raise ec2_error("InternalError", "This local cloud was opened without a data plane.")
        _states[cloud] = Ec2State(cloud, cloud.dataplane)

        def forget() -> None:
            _states.pop(cloud, None)

        cloud.on_close(forget)
    return _states[cloud]
