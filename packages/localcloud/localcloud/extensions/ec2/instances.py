"""EC2 as AWS behaves, on the data plane's hosts: instances that really start, stop and go away.

The network and the images are fixed (the ids that `environments/local.yaml` names): one VPC, 10.77.0.0/16,
with a subnet in each of two zones, and two images. moto keeps the records; the states follow the data plane.
"""

from __future__ import annotations

import copy
import ipaddress
import logging
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

from flask import has_request_context
from flask import request as flask_request
from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.models.instances import Instance, InstanceState, StateReason

from localcloud.dataplane import DataPlaneError, HostSpec
from localcloud.extensions.ec2 import ebs
from localcloud.extensions.ec2.images import boots_as, key_of_image
from localcloud.extensions.ec2.resource_hooks import check_resource_hooks
from localcloud.extensions.ec2.state import Ec2State, ec2_error, ec2_state
from localcloud.extensions.ec2.volume_spec import volume_spec
from localcloud.iam.gateway import REFUSED_LATER

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

VPC_ID = "vpc-0a770000000000001"
VPC_CIDR = "10.77.0.0/16"
SUBNETS = {  # subnet id: (zone letter, range)
    "subnet-0a77000000000001a": ("a", "10.77.1.0/24"),
    "subnet-0a77000000000001b": ("b", "10.77.2.0/24"),
}
SECURITY_GROUP_ID = "sg-0a770000000000001"
# MySQL and the health responder, from the whole VPC.
OPEN_PORTS = (3306, 9200)
IMAGES = {
    "ami-0a770000000000097": "peaker-mysql-9.7",
    "ami-0a770000000001011": "peaker-mariadb-10.11",
}
IMAGE_GIB = 8
ROOT_DEVICE = "/dev/xvda"
PENDING, RUNNING, SHUTTING_DOWN, TERMINATED = (0, 16, 32, 48)
STOPPING, STOPPED = (64, 80)
TERMINATED_STAYS_VISIBLE_SECONDS = 3600.0  # cloud time
STATUS_CHECK_SECONDS = 2.0  # real time that a fresh host's status checks stay "initializing"
# "Instance terminates immediately", EC2 User Guide: also where the key of a root volume may not be used.
LAUNCH_FAILED = "Client.InternalError"
INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")


# -- the fixed network and images ----------------------------------------------------------------------------


def seed_network_and_images(cloud: OpenCloud) -> None:
    """Make the VPC, subnets, security group and images whose ids the local environment names."""
    backend = ec2_backends[cloud.settings.account_id][cloud.settings.region]
    with _next_id("vpcs.random_vpc_id", VPC_ID):
        backend.create_vpc(VPC_CIDR, tags=[{"Key": "Name", "Value": "peaker-local"}])
    for subnet_id, (letter, cidr) in SUBNETS.items():
        with _next_id("subnets.random_subnet_id", subnet_id):
            backend.create_subnet(VPC_ID, cidr, availability_zone=f"{cloud.settings.region}{letter}")
    with _next_id("security_groups.random_security_group_id", SECURITY_GROUP_ID):
        backend.create_security_group("peaker-replicas", "MySQL replicas of the local cloud", VPC_ID)
    for port in OPEN_PORTS:
        backend.authorize_security_group_ingress(
            SECURITY_GROUP_ID, "tcp", str(port), str(port), [{"CidrIp": VPC_CIDR}], vpc_id=VPC_ID
        )
    architecture = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    for image_id, name in IMAGES.items():
        backend.amis[image_id] = Ami(
            backend,
            image_id,
            name=name,
            description=f"{name}, a root filesystem of the local cloud",
            virtualization_type="hvm",
            architecture=architecture,
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name=ROOT_DEVICE,
            region_name=f"{cloud.settings.region}a",
        )


@contextmanager
def _next_id(name: str, value: str) -> Iterator[None]:
    with mock.patch(f"moto.ec2.models.{name}", return_value=value):
        yield


# -- instances -----------------------------------------------------------------------------------------------


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

    def launch(self, instance: Any, mappings: Sequence[Mapping[str, Any]], tags: Mapping[str, str]) -> None:
        """Give a fresh moto instance its volumes and start its host in the background."""
        state = self.state
        instance.launch_time = state.cloud.clock.now()
        _set(instance, "pending", PENDING)
        root = next((m for m in mappings if m["DeviceName"] == instance.root_device_name), {})
        root_request = {
            "KmsKeyId": key_of_image(state.backend, instance.image_id),
            **_as_volume_request(root.get("Ebs", {})),
        }
        volumes = [(ebs.create_root_volume(state, root_request, _zone(instance), IMAGE_GIB), root, True)]
        for mapping in mappings:
            if mapping["DeviceName"] != instance.root_device_name:
                request = _as_volume_request(mapping["Ebs"])
                volumes.append((ebs.create_volume(state, request, _zone(instance)), mapping, False))
        for volume, mapping, kept_by_default in volumes:
            device = mapping.get("DeviceName", instance.root_device_name)
            delete = mapping.get("Ebs", {}).get("DeleteOnTermination", kept_by_default)
            ebs.attach(state, volume, instance, device, bool(delete))
            volume.add_tags(dict(tags))
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
                        _host_spec(instance, boots_as(state.backend, instance.image_id))
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

    # -- StopInstances, StartInstances, RebootInstances ----------------------------------------------------

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

    def reboot(self, instance: Any) -> None:
        self.require_state([instance], "rebooted", ["running"])

        def work() -> None:
            with self.state.machine_lock(instance.id):
                self.state.dataplane.hosts.stop(instance.id)
                self.state.dataplane.hosts.start(instance.id)
                self._running_since[instance.id] = time.monotonic()

        self.state.cloud.background(f"reboot-{instance.id}", work)

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

    def status_check(self, instance: Any) -> dict[str, Any]:
        """Reachability as DescribeInstanceStatus shows it: the host's init runs, or it does not."""
        if instance.state != "running":
            return {"Status": "not-applicable"}
        if not self.state.dataplane.hosts.is_up(instance.id):
            status, detail = "impaired", "failed"
        elif self.running_seconds(instance.id) < STATUS_CHECK_SECONDS:
            status, detail = "initializing", "initializing"
        else:
            status, detail = "ok", "passed"
        return {"Status": status, "Details": [{"Name": "reachability", "Status": detail}]}


def _set(instance: Any, name: str, code: int) -> None:
    instance._state = InstanceState(name, code)


def _zone(instance: Any) -> str:
    return str(instance.placement.availability_zone)


def _check_address(subnet: Any, address: str | None) -> None:
    """A wanted private address must be one of the subnet's that nobody has."""
    if address is None:
        return
    if ipaddress.ip_address(address) not in subnet.cidr:
        raise ec2_error("InvalidParameterValue", f"Address {address} does not fall within the subnet's range")
    if address in subnet._subnet_ips:
        raise ec2_error("InvalidIPAddress.InUse", f"Address {address} is in use.")


def _host_spec(instance: Any, image_id: str) -> HostSpec:
    address = str(instance.private_ip)
    return HostSpec(instance.id, image_id, address, "ip-" + address.replace(".", "-"))


def _as_volume_request(device: Mapping[str, Any]) -> dict[str, Any]:
    """The Ebs part of a block device mapping in the words of CreateVolume."""
    request = {
        key: value for key, value in device.items() if key not in ("VolumeSize", "DeleteOnTermination")
    }
    if device.get("VolumeSize") is not None:
        request["Size"] = device["VolumeSize"]
    return request


# -- API actions ---------------------------------------------------------------------------------------------


class Ec2Actions:
    """The EC2 API's instance actions, where they differ from moto's."""

    def __init__(self, state: Ec2State, instances: Instances) -> None:
        self.state = state
        self.instances = instances
        self.original_run: Callable[[Any], ActionResult] | None = None
        self.original_describe: Callable[[Any], ActionResult] | None = None
        self.original_status: Callable[[Any], ActionResult] | None = None
        self.original_modify: Callable[[Any], ActionResult] | None = None
        self.original_stop: Callable[[Any], ActionResult] | None = None
        self.original_start: Callable[[Any], ActionResult] | None = None

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
        assert self.original_run is not None
        return self.original_run(response)

    def _check_launch(self, response: Any) -> None:
        request, backend = response.params, self.state.backend
        image_id = request.get("ImageId")
        if not image_id and not request.get("LaunchTemplate"):
            raise ec2_error("MissingParameter", "The request must contain the parameter ImageId")
        if image_id and image_id not in backend.amis:
            raise ec2_error("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
        kind = request.get("InstanceType")
        if kind and not any(known.name == kind for known in backend.instance_types):
            raise ec2_error("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
        interfaces = request.get("NetworkInterfaces", [])
        subnet_id = request.get("SubnetId") or next((n.get("SubnetId") for n in interfaces), None)
        subnet = backend.get_subnet(subnet_id) if subnet_id else None
        if subnet is None or subnet.vpc_id == backend.default_vpc.id:
            raise ec2_error(
                "UnsupportedOperation",
                f"The local cloud has no hosts in a default VPC: name a SubnetId, {' or '.join(SUBNETS)}.",
            )
        _check_address(subnet, request.get("PrivateIpAddress"))
        for mapping in self.mappings(response):
            self._check_mapping(mapping, image_id)

    def _check_mapping(self, mapping: Mapping[str, Any], image_id: str | None) -> None:
        request = _as_volume_request(mapping["Ebs"])
        image = self.state.backend.amis.get(image_id or "")
        is_root = image is not None and mapping["DeviceName"] == image.root_device_name
        if is_root:
            request.setdefault("Size", IMAGE_GIB)
            request.pop("SnapshotId", None)
        snapshot_id = request.get("SnapshotId")
        snapshot = ebs._restorable(self.state, snapshot_id) if snapshot_id else None
        volume_spec(request, snapshot.volume_size if snapshot else None)

    def mappings(self, response: Any) -> list[dict[str, Any]]:
        """The request's block device mappings, whole (moto drops Iops, Throughput and the rate)."""
        mappings = []
        for mapping in response._get_param("BlockDeviceMappings", []):
            if "NoDevice" in mapping:
                continue
            if not mapping.get("DeviceName") or not mapping.get("Ebs"):
                raise ec2_error("MissingParameter", "A block device mapping needs DeviceName and Ebs")
            mappings.append(dict(mapping))
        devices = [mapping["DeviceName"] for mapping in mappings]
        if len(set(devices)) != len(devices):
            raise ec2_error("InvalidBlockDeviceMapping", f"A device name is used twice in {devices}")
        return mappings

    def describe_instances(self, response: Any) -> ActionResult:
        ebs.settle(self.state)
        self.instances.require_visible(response._get_param("InstanceIds", []))
        assert self.original_describe is not None
        result = self.original_describe(response)
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

    def describe_instance_status(self, response: Any) -> ActionResult:
        self.instances.require_visible(response._get_param("InstanceIds", []))
        assert self.original_status is not None
        result = self.original_status(response)
        document: dict[str, Any] = result.result  # type: ignore[assignment]
        shown = [i for i in document["InstanceStatuses"] if self.instances.visible(i)]
        return ActionResult({"InstanceStatuses": shown})

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
            return self._with_states(response, self.original_stop, "StoppingInstances")
        finally:
            self.instances.to_kill -= forced

    def start_instances(self, response: Any) -> ActionResult:
        self._all_in_state(response, "started", ("stopped", "pending", "running"))
        return self._with_states(response, self.original_start, "StartingInstances")

    def _all_in_state(self, response: Any, verb: str, allowed: Sequence[str]) -> list[Any]:
        response.error_on_dryrun()
        instance_ids = response._get_param("InstanceIds", [])
        self.instances.require_visible(instance_ids)
        found = [self.state.backend.get_instance(instance_id) for instance_id in instance_ids]
        self.instances.require_state(found, verb, allowed)
        return found

    def _with_states(
        self, response: Any, original: Callable[[Any], ActionResult] | None, key: str
    ) -> ActionResult:
        """moto's answer with the states that the instances are in: a repeated call changes nothing."""
        assert original is not None
        result = original(response)
        document: dict[str, Any] = result.result  # type: ignore[assignment]
        for entry in document[key]:
            state = self.state.backend.get_instance(entry["InstanceId"])._state
            entry["CurrentState"] = {"Code": state.code, "Name": state.name}
        return ActionResult(document)

    def modify_instance_attribute(self, response: Any) -> ActionResult:
        instance = self.state.backend.get_instance(response._get_param("InstanceId"))
        for mapping in response._get_param("BlockDeviceMappings", []):
            if mapping.get("DeviceName") not in instance.block_device_mapping:
                raise ec2_error(
                    "InvalidInstanceAttributeValue",
                    f"No device is currently mapped at {mapping.get('DeviceName')}",
                )
        assert self.original_modify is not None
        return self.original_modify(response)


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

    def reboot(self: Any) -> None:
        if instances.owns(self):
            instances.reboot(self)
        else:
            original_reboot(self)

    def run_instances(backend: Any, *args: Any, **kwargs: Any) -> Any:
        if backend is not state.backend:
            return original_run(backend, *args, **kwargs)
        mappings = kwargs.pop("block_device_mappings", None) or []
        tags = (kwargs.get("tags") or {}).get("volume", {})
        reservation = original_run(backend, *args, **kwargs, block_device_mappings=[])
        for instance in reservation.instances:
            instances.launch(instance, mappings, tags)
        return reservation

    original_stop = cloud.patch(Instance, "stop", stop)
    original_start = cloud.patch(Instance, "start", start)
    instances.original_terminate = original_terminate = cloud.patch(Instance, "terminate", terminate)
    original_reboot = cloud.patch(Instance, "reboot", reboot)
    original_run = cloud.patch(EC2Backend, "run_instances", run_instances)
    for name in ("instance_status", "system_status"):
        cloud.patch(Instance, name, property(instances.status_check))


def install(cloud: OpenCloud) -> None:
    """Seed the fixed ids; with a data plane, make instances real."""
    from moto.ec2.responses.instances import InstanceResponse

    check_resource_hooks()
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"  # 650 images that no host could start from
    seed_network_and_images(cloud)
    if cloud.dataplane is None:
        return
    state = ec2_state(cloud)
    instances = Instances(state)
    state.running_seconds = instances.running_seconds
    actions = Ec2Actions(state, instances)
    _install_instance_hooks(state, instances)
    actions.original_run = state.replace_action(InstanceResponse, "run_instances", actions.run_instances)
    actions.original_stop = state.replace_action(InstanceResponse, "stop_instances", actions.stop_instances)
    actions.original_start = state.replace_action(
        InstanceResponse, "start_instances", actions.start_instances
    )
    actions.original_describe = state.replace_action(
        InstanceResponse, "describe_instances", actions.describe_instances
    )
    actions.original_status = state.replace_action(
        InstanceResponse, "describe_instance_status", actions.describe_instance_status
    )
    actions.original_modify = state.replace_action(
        InstanceResponse, "modify_instance_attribute", actions.modify_instance_attribute
    )

    def mappings(response: Any) -> list[dict[str, Any]]:
        if state.answers(response):
            return actions.mappings(response)
        parsed: list[dict[str, Any]] = original_mappings(response)
        return parsed

    original_mappings = cloud.patch(InstanceResponse, "_parse_block_device_mapping", mappings)
