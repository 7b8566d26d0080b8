"""AssembleStorage: the host sees its volumes, whole and not mounted, and has a server that can run on them."""

from __future__ import annotations

import json

from peaker.domain.host_results import StorageAssembled, typed
from peaker.domain.runs.ledger import DonorServer, ResourceKind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.storage.set_manifest import SetManifest
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import host_id, made_id, plan_of_run


def assemble_storage(ports: Ports, step: StepInput) -> Summary:
    """The volumes are named by id, and by the donor's that each is a copy of: device names on Nitro do not say which is
    which. The set manifest, which all members of a batch have from one donor, says what they were on the donor. The
    donor's facts go along: the host holds its image against them. Raises ImageUnfit."""
    plan, rows = plan_of_run(ports, step), ports.ledger.resources(step.run_id)
    run = ports.ledger.run(step.shared_run)
    manifest, donor = run.part(SetManifest), run.part(DonorServer)
    sources = {} if manifest is None else manifest.volumes
    volumes = [
        {
            "name": volume.name,
            "volume_id": made_id(rows, ResourceKind.VOLUME, volume.name),
            "device": volume.device,
            "mount_point": volume.mount_point,
            "filesystem": volume.filesystem,
            **({"source": sources[volume.name]} if volume.name in sources else {}),
        }
        for volume in plan.volumes
    ]
    instance_id = host_id(ports, step, "replica")
    parameters = {
        "RunId": step.run_id,
        "Volumes": json.dumps(volumes, separators=(",", ":")),
        "Layout": "[]" if manifest is None else json.dumps(manifest.stacks_document(), separators=(",", ":")),
        "Donor": json.dumps({} if donor is None else donor.facts, separators=(",", ":")),
        **ports.clusters.settings(step.cluster).host_parameters,
    }
    numbers = run_host_command(ports, step, "assemble_storage", instance_id, parameters)
    said = "".join(f"; {one}" for one in typed("assemble_storage", StorageAssembled, numbers).image)
    return Summary(text=f"{len(volumes)} volumes seen by {instance_id}{said}", numbers=numbers)
