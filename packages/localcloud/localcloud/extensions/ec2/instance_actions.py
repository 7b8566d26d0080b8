"""Instances in EC2's API: the actions on them, and moto's instances tied to hosts."""

from __future__ import annotations

import copy
import ipaddress
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance
from moto.ec2.responses.instances import InstanceResponse

from localcloud.extensions.ec2 import ebs
from localcloud.extensions.ec2.capacity_reservations import CapacityReservations
from localcloud.extensions.ec2.instances import Instances
from localcloud.extensions.ec2.network import SUBNETS, seed_network_and_images
from localcloud.extensions.ec2.state import Ec2State, ec2_error, ec2_state

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


RESERVATION_ACTIONS = (
    "create_capacity_reservation",
    "cancel_capacity_reservation",
    "describe_capacity_reservations",
    "modify_instance_capacity_reservation_attributes",
)


INSTANCE_ACTIONS = ("run_instances", "describe_instances", "stop_instances", "start_instances")
LAUNCHED_WITHOUT = ("BlockDeviceMappings", "NetworkInterfaces", "LaunchTemplate")


def _check_address(subnet: Any, address: str | None) -> None:
    """A wanted private address must be one of the subnet's that nobody has."""
    if address is None:
        return
    if ipaddress.ip_address(address) not in subnet.cidr:
        raise ec2_error("InvalidParameterValue", f"Address {address} does not fall within the subnet's range")
    if address in subnet._subnet_ips:
        raise ec2_error("InvalidIPAddress.InUse", f"Address {address} is in use.")


class Ec2Actions:
    """The EC2 API's instance actions, where they differ from moto's."""

    def __init__(self, state: Ec2State, instances: Instances, reservations: CapacityReservations) -> None:
        self.state = state
        self.instances = instances
        self.reservations = reservations
        self._by_moto: dict[str, Callable[[Any], ActionResult]] = {
            name: getattr(InstanceResponse, name) for name in INSTANCE_ACTIONS
        }

    def run_instances(self, response: Any) -> ActionResult:
        request = response.params
        result: ActionResult = self.state.once(
            "RunInstances", request, request.get("ClientToken"), lambda: self._run(response)
        )
        launched = result.result.instances  # type: ignore[attr-defined]
        if all(instance.state == "terminated" for instance in launched):
            raise ec2_error(
                "IdempotentInstanceTerminated",
                "The request to launch an instance uses the same client token as a previous request for "
                "which the instance has been terminated.",
            )
        return result

    def _run(self, response: Any) -> ActionResult:
        self._check_launch(response)
        result = self._by_moto["run_instances"](response)
        self.reservations.launched(response.params, result.result.instances)  # type: ignore[attr-defined]
        return result

    def _check_launch(self, response: Any) -> None:
        request, backend = response.params, self.state.backend
        for name in LAUNCHED_WITHOUT:
            if request.get(name):
                raise ec2_error("UnsupportedOperation", f"The local cloud launches nothing with {name}.")
        image_id = request.get("ImageId")
        if not image_id:
            raise ec2_error("MissingParameter", "The request must contain the parameter ImageId")
        if image_id not in backend.amis:
            raise ec2_error("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
        kind = request.get("InstanceType")
        if kind and not any(known.name == kind for known in backend.instance_types):
            raise ec2_error("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
        subnet_id = request.get("SubnetId")
        subnet = backend.get_subnet(subnet_id) if subnet_id else None
        if subnet is None or subnet.vpc_id == backend.default_vpc.id:
            raise ec2_error(
                "UnsupportedOperation",
                f"The local cloud has no hosts in a default VPC: name a SubnetId, {' or '.join(SUBNETS)}.",
            )
        _check_address(subnet, request.get("PrivateIpAddress"))
        self.reservations.check_launch(request, subnet.availability_zone)

    def describe_instances(self, response: Any) -> ActionResult:
        ebs.settle(self.state)
        self.instances.require_visible(response._get_param("InstanceIds", []))
        result = self._by_moto["describe_instances"](response)
        document: dict[str, Any] = result.result  # type: ignore[assignment]
        reservations = []
        for reservation in document["Reservations"]:
            shown = copy.copy(reservation)
            shown.instances = [
                self.instances.as_seen(i) for i in reservation.instances if self.instances.visible(i)
            ]
            if shown.instances:
                reservations.append(shown)
        return ActionResult({**document, "Reservations": reservations})

    def stop_instances(self, response: Any) -> ActionResult:
        if response._get_bool_param("Hibernate"):
            raise ec2_error(
                "UnsupportedHibernationConfiguration", "The local cloud's instances cannot hibernate."
            )
        allowed = ("running", "stopping", "stopped")
        found = self._all_in_state(response, "stopped", allowed)
        forced = {i.id for i in found} if response._get_bool_param("Force") else set()
        self.instances.to_kill.update(forced)
        try:
            answer = self._with_states(response, "stop_instances", "StoppingInstances")
        finally:
            self.instances.to_kill -= forced
        for instance in found:
            instance.capacity_reservation_id = None
        return answer

    def start_instances(self, response: Any) -> ActionResult:
        for instance in self._all_in_state(response, "started", ("stopped", "pending", "running")):
            self.reservations.check_start(instance)
        return self._with_states(response, "start_instances", "StartingInstances")

    def _all_in_state(self, response: Any, verb: str, allowed: Sequence[str]) -> list[Any]:
        response.error_on_dryrun()
        instance_ids = response._get_param("InstanceIds", [])
        self.instances.require_visible(instance_ids)
        found = [self.state.backend.get_instance(instance_id) for instance_id in instance_ids]
        self.instances.require_state(found, verb, allowed)
        return found

    def _with_states(self, response: Any, action: str, key: str) -> ActionResult:
        """moto's answer with the states that the instances are in: a repeated call changes nothing."""
        result = self._by_moto[action](response)
        document: dict[str, Any] = result.result  # type: ignore[assignment]
        for entry in document[key]:
            state = self.state.backend.get_instance(entry["InstanceId"])._state
            entry["CurrentState"] = {"Code": state.code, "Name": state.name}
        return ActionResult(document)


def _install_instance_hooks(state: Ec2State, instances: Instances) -> None:
    cloud = state.cloud

    def stop(self: Any) -> Any:
        if not instances.owns(self):
            return original_stop(self)
        return instances.stop(self, original_stop, force=self.id in instances.to_kill)

    def start(self: Any) -> Any:
        return instances.start(self, original_start) if instances.owns(self) else original_start(self)

    def terminate(self: Any) -> Any:
        return instances.terminate(self) if instances.owns(self) else original_terminate(self)

    def run_instances(backend: Any, *args: Any, **kwargs: Any) -> Any:
        if backend is not state.backend:
            return original_run(backend, *args, **kwargs)
        tags = (kwargs.get("tags") or {}).get("volume", {})
        reservation = original_run(backend, *args, **{**kwargs, "block_device_mappings": []})
        for instance in reservation.instances:
            instances.launch(instance, tags)
        return reservation

    original_stop = cloud.patch(Instance, "stop", stop)
    original_start = cloud.patch(Instance, "start", start)
    instances.original_terminate = original_terminate = cloud.patch(Instance, "terminate", terminate)
    original_run = cloud.patch(EC2Backend, "run_instances", run_instances)


def install(cloud: OpenCloud) -> None:
    """Seed the fixed ids; with a data plane, make instances real."""
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"  # 650 images that no host could start from
    seed_network_and_images(cloud)
    if cloud.dataplane is None:
        return
    state = ec2_state(cloud)
    instances = Instances(state)
    state.running_seconds = instances.running_seconds
    reservations = CapacityReservations(state)
    for name in RESERVATION_ACTIONS:
        state.add_action(InstanceResponse, name, getattr(reservations, name))
    actions = Ec2Actions(state, instances, reservations)
    _install_instance_hooks(state, instances)
    for name in INSTANCE_ACTIONS:
        state.replace_action(InstanceResponse, name, getattr(actions, name))
    state.refuse(
        InstanceResponse, "describe_instance_status", "modify_instance_attribute", "reboot_instances"
    )
