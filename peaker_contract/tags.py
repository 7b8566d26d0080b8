"""Keys of the tags that say what an AWS resource is to Peaker."""

from __future__ import annotations

OWNER_TAG = "peaker:owner"
RUN_TAG = "peaker:run-id"
CLUSTER_TAG = "peaker:cluster"
ENVIRONMENT_TAG = "peaker:environment"
ROLE_TAG = "peaker:role"
LOAD_TAG = "peaker:load"
DONOR_TAG = "peaker:donor"
VOLUME_TAG = "peaker:volume"
