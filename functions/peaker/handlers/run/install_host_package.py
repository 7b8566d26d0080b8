"""Lambda function InstallHostPackage."""

from __future__ import annotations

from peaker.domain.runs.run import HostStep
from peaker.runtime.step import step
from peaker.usecases.run.install_host_package import install_host_package

handler = step(install_host_package, HostStep)
