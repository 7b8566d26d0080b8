"""Peaker's infrastructure: one CDK stage per environment, its stacks split by life cycle."""

from stacks.node_runtime import use_packaged_node

# Before the first import of aws_cdk, which starts the JavaScript kernel.
use_packaged_node()
