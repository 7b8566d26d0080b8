"""Images: a copy may be under a customer's key, and what is launched from it needs that key.

moto forgets the key of a copy. The snapshot behind the copy carries it here, as EC2's does. A host boots a copy like
the image that it is a copy of. An instance is billed as the image that it was launched from, and both say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult
from moto.ec2.models.amis import Ami
from moto.ec2.models.instances import Instance

from localcloud.extensions.ec2.capacity_reservations import PLATFORM
from localcloud.extensions.ec2.state import ec2_state

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

AWS_KEY = "alias/aws/ebs"


def key_of_image(backend: Any, image_id: str | None) -> str | None:
    """The key of the snapshot behind the image's root volume; None where it is not encrypted."""
    image = backend.amis.get(image_id or "")
    key = None if image is None else image.ebs_snapshot.kms_key_id
    return str(key) if key else None


def boots_as(backend: Any, image_id: str) -> str:
    """The image whose root filesystem a host of `image_id` starts from."""
    return str(getattr(backend.amis.get(image_id), "copy_of", image_id))


def bill_as(backend: Any, image_id: str, platform: str) -> None:
    """From now on EC2 names this in the PlatformDetails of the image and of what is launched from it."""
    image: Any = backend.amis[image_id]
    image.platform_details = platform


def install(cloud: OpenCloud) -> None:
    """Answer CopyImage with its key, and DescribeImages with what is encrypted."""
    from moto.ec2.responses.amis import AmisResponse

    if cloud.dataplane is None:
        return
    state = ec2_state(cloud)

    def copy_image(response: Any) -> ActionResult:
        answer: ActionResult = original_copy(response)
        request, images = response.params, state.backend.amis
        source = images[request["SourceImageId"]]
        made: Any = answer.result
        copy: Any = images[made["ImageId"]]
        copy.copy_of = boots_as(state.backend, source.id)
        copy.root_device_name, copy.root_device_type = source.root_device_name, source.root_device_type
        wanted = request.get("KmsKeyId") or (AWS_KEY if request.get("Encrypted") else None)
        copy.ebs_snapshot.kms_key_id = wanted or key_of_image(state.backend, source.id)
        copy.platform_details = getattr(source, "platform_details", PLATFORM)
        copy.ebs_snapshot.encrypted = copy.ebs_snapshot.kms_key_id is not None
        return answer

    def mappings(image: Any) -> list[dict[str, Any]]:
        described: list[dict[str, Any]] = original_mappings.fget(image)
        described[0]["Ebs"]["Encrypted"] = bool(image.ebs_snapshot.encrypted)
        return described

    Ami.platform_details = PLATFORM  # type: ignore[attr-defined]
    cloud.on_close(lambda: delattr(Ami, "platform_details"))
    Instance.platform_details = property(_billed_as)  # type: ignore[attr-defined]
    cloud.on_close(lambda: delattr(Instance, "platform_details"))
    original_copy = state.replace_action(AmisResponse, "copy_image", copy_image)
    original_mappings: Any = cloud.patch(Ami, "block_device_mappings", property(mappings))


def _billed_as(instance: Any) -> str:
    return str(getattr(instance.ec2_backend.amis.get(instance.image_id), "platform_details", PLATFORM))
