"""The workflows as they are deployed: expanded once for all tests that look into them."""

from __future__ import annotations

from statemachines.expansion import expand, workflow_names

MACHINES = {name: expand(name) for name in workflow_names()}
