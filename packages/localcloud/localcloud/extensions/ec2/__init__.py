"""Instances, volumes, snapshots and the network that they are in. May use the data plane."""
