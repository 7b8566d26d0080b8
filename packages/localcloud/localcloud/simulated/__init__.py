"""A data plane in memory, by what it stands for: volumes, hosts, read endpoints."""
