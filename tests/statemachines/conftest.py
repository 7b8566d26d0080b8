"""One local cloud with everything deployed serves all execution tests of a run; a test has its own cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.workflow_cloud import CLOCK_SCALE, WorkflowCloud, workflow_cloud


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkflowCloud]:
    with workflow_cloud(tmp_path_factory.mktemp("cloud")) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def modules_cloud(deployed: WorkflowCloud) -> Iterator[WorkflowCloud]:
    """The cloud for clusters that all tests of a module look at."""
    with deployed.own_clusters():
        yield deployed


@pytest.fixture
def cloud(deployed: WorkflowCloud) -> Iterator[WorkflowCloud]:
    """The cloud without faults and with healthy hosts."""
    with deployed.own_clusters():
        yield deployed
        deployed.cloud.faults.clear()
        deployed.cloud.clock.set(scale=CLOCK_SCALE)
        deployed.answers.healthy()
