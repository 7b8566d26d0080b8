"""EC2 as AWS behaves, on the data plane's hosts: instances that really start, stop and go away.

The network and the images are fixed (the ids that `environments/local.yaml` names): one VPC, 10.77.0.0/16,
with a subnet in each of two zones, and two images. moto keeps the records; the states follow the data plane.
"""

from __future__ import annotations

import copy
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from flask import has_request_context
from flask import request as flask_request
from moto.ec2.models.instances import Instance, InstanceState, StateReason

from localcloud.dataplane import DataPlaneError, HostSpec
from localcloud.extensions.ec2 import ebs
from localcloud.extensions.ec2.images import boots_as, key_of_image
from localcloud.extensions.ec2.state import Ec2State, ec2_error
from localcloud.iam.gateway import REFUSED_LATER

log = logging.getLogger(__name__)
IMAGE_GIB = 8
PENDING, RUNNING, SHUTTING_DOWN, TERMINATED = (0, 16, 32, 48)
STOPPING, STOPPED = (64, 80)
TERMINATED_STAYS_VISIBLE_SECONDS = 3600.0  # cloud time
# "Instance terminates immediately", EC2 User Guide: also where the key of a root volume may not be used.
LAUNCH_FAILED = "Client.InternalError"
INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")


class Instances:
    """What happens to the instances of one cloud."""

    def __init__(self, state: Ec2State) -> None:
        self.state = state
        self.original_terminate: Callable[[Any], Any] = Instance.terminate
        self._terminated_at: dict[str, float] = {}
        self._running_since: dict[str, float] = {}
        self.to_kill: set[str] = set()  # by the StopInstances with Force that is being answered
        self._seen_before: dict[str, tuple[float, InstanceState]] = {}

    def owns(self, instance: Any) -> bool:
        return instance.ec2_backend is self.state.backend

    def running_seconds(self, instance_id: str) -> float:
        """Real seconds since the instance came to `running`; 0 when it is not there."""
        since = self._running_since.get(instance_id)
        return 0.0 if since is None else time.monotonic() - since

    # -- RunInstances --------------------------------------------------------------------------------------

    def launch(self, instance: Any, tags: Mapping[str, str]) -> None:
        """Give a fresh moto instance its volumes and start its host in the background."""
        state = self.state
        instance.launch_time = state.cloud.clock.now()
        _set(instance, "pending", PENDING)
        request = {"KmsKeyId": key_of_image(state.backend, instance.image_id)}
        root = ebs.create_root_volume(state, request, _zone(instance), IMAGE_GIB)
        ebs.attach(state, root, instance, instance.root_device_name, delete_on_termination=True)
        root.add_tags(dict(tags))
        state.created(instance.id)
        if has_request_context() and (refused := flask_request.environ.get(REFUSED_LATER)):
            state.cloud.background(f"launch-{instance.id}", lambda: self._fail_launch(instance, refused[0]))
            return
        state.cloud.background(f"launch-{instance.id}", lambda: self._start_host(instance, first=True))

    def _fail_launch(self, instance: Any, why: str) -> None:
        """EC2 cannot use the key of one of its volumes: the state reason says no more than that the launch failed."""
        time.sleep(self.state.transition_seconds)
        log.warning("%s ends: %s", instance.id, why)
        with self.state.machine_lock(instance.id):
            if instance.state == "pending":
                reason = StateReason(f"{LAUNCH_FAILED}: Client error on launch", LAUNCH_FAILED)
                self._take_away(instance, reason)

    def _start_host(self, instance: Any, first: bool) -> None:
        state = self.state
        with state.machine_lock(instance.id):
            if instance.state != "pending":
                return  # terminated before its host was there
            try:
                if first:
                    state.dataplane.hosts.launch(
                        self._host_spec(instance, boots_as(state.backend, instance.image_id))
                    )
                    for attachment in ebs.attachments_of(state, instance):
                        ebs.plug(state, attachment)
                else:
                    state.dataplane.hosts.start(instance.id)
            except DataPlaneError as error:
                log.error("%s did not start: %s", instance.id, error)
                reason = StateReason(f"Server.InternalError: {error}", "Server.InternalError")
                self._take_away(instance, reason)
                return
            self._running_since[instance.id] = time.monotonic()
            _set(instance, "running", RUNNING)

    # -- StopInstances, StartInstances ---------------------------------------------------------------------

    def require_state(self, instances: Sequence[Any], verb: str, allowed: Sequence[str]) -> None:
        """All of a call's instances must be in such a state, or none is touched."""
        for instance in instances:
            if instance.state not in allowed:
                raise ec2_error(
                    "IncorrectInstanceState",
                    f"The instance '{instance.id}' is not in a state from which it can be {verb}: "
                    f"it is {instance.state}.",
                )

    def stop(self, instance: Any, original: Callable[[Any], Any], force: bool) -> Any:
        """Stop in order, or as a power failure with `force`. What is stopped or stopping stays so."""
        previous = copy.copy(instance._state)
        if instance.state in ("stopping", "stopped"):
            return previous
        self.require_state([instance], "stopped", ["running"])
        self._changes(instance, previous, "stopping", STOPPING)
        work = partial(self._stop_host, instance, original, force)
        self.state.cloud.background(f"stop-{instance.id}", work)
        return previous

    def _stop_host(self, instance: Any, original: Callable[[Any], Any], force: bool) -> None:
        self.state.cloud.closing.wait(self.state.transition_seconds)
        with self.state.machine_lock(instance.id):
            if instance.state != "stopping":
                return  # terminated in the meantime
            self._running_since.pop(instance.id, None)
            try:
                self.state.dataplane.hosts.stop(instance.id, force)
            except DataPlaneError as error:
                log.error("%s did not stop, it is killed: %s", instance.id, error)
                self.state.dataplane.hosts.stop(instance.id, force=True)
            original(instance)

    def start(self, instance: Any, original: Callable[[Any], Any]) -> Any:
        """Start a stopped instance. What is running or pending stays so."""
        previous = copy.copy(instance._state)
        if instance.state in ("pending", "running"):
            return previous
        self.require_state([instance], "started", ["stopped"])
        original(instance)
        self._changes(instance, previous, "pending", PENDING)
        instance.launch_time = self.state.cloud.clock.now()

        def work() -> None:
            self.state.cloud.closing.wait(self.state.transition_seconds)
            self._start_host(instance, first=False)

        self.state.cloud.background(f"start-{instance.id}", work)
        return previous

    def _changes(self, instance: Any, previous: InstanceState, name: str, code: int) -> None:
        """The state changes now; Describe shows the one before for a short while yet."""
        until = time.monotonic() + self.state.describe_lag()
        self._seen_before[instance.id] = (until, previous)
        _set(instance, name, code)

    def as_seen(self, instance: Any) -> Any:
        """The instance as Describe shows it now: after a stop or start, in its old state for a moment."""
        until, before = self._seen_before.get(instance.id, (0.0, None))
        if time.monotonic() >= until or instance.state in ("shutting-down", "terminated"):
            return instance
        shown = copy.copy(instance)
        shown._state = before
        return shown

    # -- TerminateInstances --------------------------------------------------------------------------------

    def terminate(self, instance: Any) -> Any:
        previous = copy.copy(instance._state)
        if instance.state in ("shutting-down", "terminated"):
            return previous
        _set(instance, "shutting-down", SHUTTING_DOWN)

        def work() -> None:
            with self.state.machine_lock(instance.id):
                self._take_away(instance)

        self.state.cloud.background(f"terminate-{instance.id}", work)
        return previous

    def _host_spec(self, instance: Any, image_id: str) -> HostSpec:
        address = str(instance.private_ip)
        return HostSpec(instance.id, image_id, address, "ip-" + address.replace(".", "-"))

    def _take_away(self, instance: Any, reason: StateReason | None = None) -> None:
        """The host goes, then its volumes are detached, or deleted where DeleteOnTermination says so."""
        state = self.state
        state.dataplane.hosts.terminate(instance.id)
        self._running_since.pop(instance.id, None)
        for attachment in ebs.attachments_of(state, instance):
            try:
                ebs.release(state, attachment, attachment.delete_on_termination)
            except DataPlaneError:
                log.exception("%s was not released from %s", attachment.volume.id, instance.id)
        self.original_terminate(instance)
        if reason is not None:
            instance.state_reason = reason
        self._terminated_at[instance.id] = state.cloud.clock.epoch()
        address = instance.private_ip
        if instance.subnet_id and address:
            state.backend.get_subnet(instance.subnet_id).del_subnet_ip(address)

    # -- what describe calls see ---------------------------------------------------------------------------

    def visible(self, instance: Any) -> bool:
        """False just after RunInstances, and an hour of cloud time after the instance was terminated."""
        terminated_at = self._terminated_at.get(instance.id)
        gone = (
            terminated_at is not None
            and self.state.cloud.clock.epoch() - terminated_at > TERMINATED_STAYS_VISIBLE_SECONDS
        )
        return not gone and self.state.visible(instance.id)

    def require_visible(self, instance_ids: Sequence[str]) -> None:
        for instance_id in instance_ids:
            if not INSTANCE_ID.fullmatch(instance_id):
                raise ec2_error("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}"')
            instance = self.state.backend.get_instance_by_id(instance_id)
            if instance is None or not self.visible(instance):
                raise ec2_error(
                    "InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist"
                )


def _set(instance: Any, name: str, code: int) -> None:
    instance._state = InstanceState(name, code)


def _zone(instance: Any) -> str:
    return str(instance.placement.availability_zone)
