"""InstallOnDonor, InstallOnReplica: the host's code, checked against its hash."""

from __future__ import annotations

from peaker.domain.runs.run import HostStep, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import host_id


def install_host_package(ports: Ports, step: HostStep) -> Summary:
    """Installing what is installed already changes nothing on the host."""
    instance_id = host_id(ports, step, step.host)
    parameters = {"PackageUrl": ports.package.download_url()}
    numbers = run_host_command(ports, step, "install_host_package", instance_id, parameters)
    return Summary(text=f"host package {ports.package.sha256()[:12]} on {instance_id}", numbers=numbers)
