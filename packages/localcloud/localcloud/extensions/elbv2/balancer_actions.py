"""ELBv2's API: what changes targets, groups and listeners reaches the balancers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moto.elbv2.exceptions import ELBClientError
from moto.elbv2.models import AvailabilityZone, ELBv2Backend, FakeAction, FakeTargetGroup

from localcloud.extensions.elbv2.balancers import Balancers
from localcloud.extensions.elbv2.targets import forward_weights

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


WEIGHT_RANGE = (0, 999)


def _is_local(subnet: Any) -> bool:
    """us-west-2-lax-1a and us-east-1-wl1-bos-wlz-1, not us-east-1a."""
    return re.search(r"-[0-9]+-", subnet.availability_zone) is not None


def _refuse_other_subnets(enabled: Iterable[Any], wanted: Iterable[Any]) -> None:
    taken = {subnet.availability_zone: subnet.id for subnet in enabled}
    for subnet in wanted:
        if taken.setdefault(subnet.availability_zone, subnet.id) != subnet.id:
            raise ELBClientError(
                "InvalidConfigurationRequest",
                "You cannot specify an additional subnet from an Availability Zone that is already associated with the "
                f"load balancer. The Availability Zone '{subnet.availability_zone}' corresponding to the new subnet "
                f"'{subnet.id}' is already associated with the load balancer.",
            )


def _check_weights(actions: Iterable[Mapping[str, Any]] | None) -> None:
    low, high = WEIGHT_RANGE
    for action in actions or []:
        for group in (action.get("ForwardConfig") or {}).get("TargetGroups", []):
            weight = group.get("Weight")
            if weight is not None and not low <= int(weight) <= high:
                raise ELBClientError(
                    "ValidationError", f"The weight '{weight}' must be between {low} and {high}, inclusive"
                )


def _install_group_hooks(cloud: OpenCloud, balancers: Balancers) -> None:
    def mine(group: Any) -> bool:
        return group.arn in balancers.backend.target_groups

    def register(self: Any, targets: list[dict[str, Any]]) -> None:
        (balancers.register if mine(self) else original_register)(self, targets)

    def deregister(self: Any, targets: list[dict[str, Any]]) -> None:
        (balancers.deregister if mine(self) else original_deregister)(self, targets)

    def deregister_terminated_instances(self: Any, instance_ids: list[str]) -> None:
        targets = [{"Id": target_id} for target_id in list(self.targets) if target_id in instance_ids]
        if targets:
            deregister(self, targets)

    original_register = cloud.patch(FakeTargetGroup, "register", register)
    original_deregister = cloud.patch(FakeTargetGroup, "deregister", deregister)
    cloud.patch(FakeTargetGroup, "deregister_terminated_instances", deregister_terminated_instances)


def _install_backend_hooks(cloud: OpenCloud, balancers: Balancers) -> None:
    def describe_target_health(self: Any, target_group_arn: str, targets: Any) -> Any:
        group = self.target_groups.get(target_group_arn)
        if self is not balancers.backend or group is None:
            return original_health(self, target_group_arn, targets)
        return balancers.health(group, targets or [])

    def create_target_group(self: Any, name: str, **kwargs: Any) -> Any:
        network = kwargs.get("protocol") in ("TCP", "TLS")
        if self is balancers.backend and network and kwargs.get("healthcheck_protocol") not in ("HTTP",):
            raise ELBClientError(
                "InvalidConfigurationRequest",
                "The local cloud probes health over HTTP only: set HealthCheckProtocol to HTTP and "
                "HealthCheckPort to the port of the health responder.",
            )
        return original_create_group(self, name, **kwargs)

    def create_listener(
        self: Any, load_balancer_arn: str, protocol: str, port: Any, *args: Any, **kwargs: Any
    ) -> Any:
        actions = kwargs.get("actions") or next((a for a in args if isinstance(a, list)), None)
        _check_weights(actions)
        balancer = self.load_balancers.get(load_balancer_arn)
        if balancer and any(str(x.port) == str(port) for x in balancer.listeners.values()):
            raise ELBClientError("DuplicateListener", "A listener with the specified port already exists.")
        listener = original_create_listener(self, load_balancer_arn, protocol, port, *args, **kwargs)
        if self is balancers.backend:
            try:
                balancers.apply_for_caller()
            except ELBClientError:
                self.delete_listener(listener.arn)
                raise
        return listener

    def modify_listener(self: Any, *args: Any, **kwargs: Any) -> Any:
        actions = kwargs.get("actions") or (args[5] if len(args) > 5 else None)
        _check_weights(actions)
        self._validate_actions([FakeAction(action) for action in actions or []])
        listener = original_modify_listener(self, *args, **kwargs)
        for arn in forward_weights(listener.default_actions):
            group = self.target_groups[arn]
            if listener.load_balancer_arn not in group.load_balancer_arns:
                group.load_balancer_arns.append(listener.load_balancer_arn)
        return listener

    def set_subnets(self: Any, arn: str, subnets: list[str], subnet_mappings: list[dict[str, Any]]) -> Any:
        """Of a network load balancer one zone is enough, and a zone gives its subnet up before it takes another."""
        balancer = self.load_balancers.get(arn)
        if balancer is None or balancer.type != "network":
            return original_set_subnets(self, arn, subnets, subnet_mappings)
        wanted = [self.ec2_backend.get_subnet(one) for one in subnets]
        _refuse_other_subnets(balancer.subnets, wanted)
        balancer.subnets = wanted
        return [AvailabilityZone(subnet) for subnet in wanted]

    def create_load_balancer(self: Any, *args: Any, **kwargs: Any) -> Any:
        """The ARN of a network load balancer says so, and a role's rights with it; moto calls all of them `app`."""
        made = original_create_balancer(self, *args, **kwargs)
        if made.type == "network":
            if local := sorted({one.availability_zone for one in made.subnets if _is_local(one)}):
                self.load_balancers.pop(made.arn)
                raise ELBClientError(
                    "InvalidConfigurationRequest",
                    f"A network load balancer takes no subnet in a Local Zone: {', '.join(local)}",
                )
            moto_arn, made.arn = made.arn, made.arn.replace(":loadbalancer/app/", ":loadbalancer/net/")
            self.load_balancers[made.arn] = self.load_balancers.pop(moto_arn)
            self.tagging_service.copy_tags(moto_arn, made.arn)
            self.tagging_service.delete_all_tags_for_resource(moto_arn)
        return made

    original_create_balancer = cloud.patch(ELBv2Backend, "create_load_balancer", create_load_balancer)
    original_set_subnets = cloud.patch(ELBv2Backend, "set_subnets", set_subnets)
    original_health = cloud.patch(ELBv2Backend, "describe_target_health", describe_target_health)
    original_create_group = cloud.patch(ELBv2Backend, "create_target_group", create_target_group)
    original_create_listener = cloud.patch(ELBv2Backend, "create_listener", create_listener)
    original_modify_listener = cloud.patch(ELBv2Backend, "modify_listener", modify_listener)
    for name in ("modify_listener", "delete_listener", "delete_load_balancer", "modify_target_group"):
        _apply_after(cloud, balancers, name)


def _apply_after(cloud: OpenCloud, balancers: Balancers, name: str) -> None:
    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if self is balancers.backend:
            balancers.apply_for_caller()
        return result

    original: Callable[..., Any] = cloud.patch(ELBv2Backend, name, changed)


def install(cloud: OpenCloud) -> None:
    """Make network load balancers real. Without a data plane moto's records stay in charge."""
    if cloud.dataplane is None:
        return
    balancers = Balancers(cloud, cloud.dataplane)
    _install_group_hooks(cloud, balancers)
    _install_backend_hooks(cloud, balancers)
