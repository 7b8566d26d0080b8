"""Checked before EC2, EBS, SSM and ELBv2 are installed: that what they replace in moto is what they expect.

They are private names of moto 5.2.5. A hook that no longer fits would be behaviour that is quietly wrong.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping

EC2_ACTIONS = (
    "run_instances describe_instances describe_instance_status modify_instance_attribute "
    "_parse_block_device_mapping"
)
EBS_ACTIONS = (
    "create_volume delete_volume attach_volume detach_volume create_snapshot create_snapshots delete_snapshot "
    "describe_volumes describe_volume_status describe_snapshots modify_volume copy_snapshot "
    "modify_snapshot_tier restore_snapshot_tier"
)
DIRECT_ACTIONS = (
    "list_snapshot_blocks list_changed_blocks get_snapshot_block "
    "start_snapshot put_snapshot_block complete_snapshot"
)
HOOKS: Mapping[str, str] = {  # what is replaced or called, and its parameters
    **{f"moto.ec2.responses.instances:InstanceResponse.{name}": "self" for name in EC2_ACTIONS.split()},
    **{
        f"moto.ec2.responses.elastic_block_store:ElasticBlockStore.{name}": "self"
        for name in EBS_ACTIONS.split()
    },
    "moto.ec2.responses.amis:AmisResponse.copy_image": "self",
    "moto.ec2.responses.tags:TagResponse.create_tags": "self",
    **{f"moto.ebs.responses:EBSResponse.{name}": "self" for name in DIRECT_ACTIONS.split()},
    **{
        f"moto.ssm.responses:SimpleSystemManagerResponse.{name}": "self"
        for name in ("send_command", "get_command_invocation", "list_commands")
    },
    **{f"moto.ec2.models.instances:Instance.{n}": "self" for n in ("start", "stop", "terminate", "reboot")},
    "moto.ec2.models:EC2Backend.run_instances": "self image_id count user_data security_group_names kwargs",
    "moto.ec2.models:EC2Backend.get_instance_by_id": "self instance_id",
    "moto.ec2.models:EC2Backend.get_subnet": "self subnet_id",
    "moto.ec2.models.vpcs:random_vpc_id": "",
    "moto.ec2.models.subnets:random_subnet_id": "",
    "moto.ec2.models.security_groups:random_security_group_id": "",
    "moto.ec2.models.subnets:Subnet.del_subnet_ip": "self ip",
    "moto.ec2.models.elastic_block_store:Snapshot": (
        "ec2_backend snapshot_id volume description encrypted kms_key_id owner_id from_ami"
    ),
    "moto.ec2.models.elastic_block_store:VolumeAttachment": "volume instance device status",
    "moto.ec2.responses._base_response:EC2BaseResponse._parse_tag_specification": "self expected_type",
    "moto.ec2.responses._base_response:EC2BaseResponse._filters_from_querystring": "self",
    "moto.ssm.models:Documents.find": "self document_version version_name strict",
    "moto.elbv2.models:FakeTargetGroup.register": "self targets",
    "moto.elbv2.models:FakeTargetGroup.deregister": "self targets",
    "moto.elbv2.models:FakeTargetGroup.deregister_terminated_instances": "self instance_ids",
    "moto.elbv2.models:ELBv2Backend.describe_target_health": "self target_group_arn targets",
    "moto.elbv2.models:ELBv2Backend.create_target_group": "self name kwargs",
    "moto.elbv2.models:ELBv2Backend.create_listener": (
        "self load_balancer_arn protocol port ssl_policy certificate actions alpn_policy tags"
    ),
    "moto.elbv2.models:ELBv2Backend.modify_listener": (
        "self arn port protocol ssl_policy certificates actions"
    ),
    "moto.elbv2.models:ELBv2Backend.delete_listener": "self listener_arn",
    "moto.elbv2.models:ELBv2Backend.delete_load_balancer": "self arn",
}


class HookMoved(Exception):
    """moto is not the one that the local cloud was made for: names the hook."""


def check_resource_hooks(hooks: Mapping[str, str] = HOOKS) -> None:
    """Raises HookMoved for the first hook that is gone or takes other parameters."""
    for hook, parameters in hooks.items():
        module_name, _, path = hook.partition(":")
        try:
            target: object = importlib.import_module(module_name)
            for part in path.split("."):
                target = getattr(target, part)
            found = " ".join(inspect.signature(target).parameters)  # type: ignore[arg-type]
        except (ImportError, AttributeError, TypeError) as error:
            raise HookMoved(f"moto has no {hook} ({error}); the local cloud needs moto 5.2.5") from error
        if found != parameters:
            raise HookMoved(f"moto's {hook} takes ({found}), not ({parameters}); the local cloud needs 5.2.5")
