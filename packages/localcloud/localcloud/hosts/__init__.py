"""Hosts of the local cloud: machine images and the instances that run them."""

from localcloud.hosts.instances import NamespaceHosts
from localcloud.hosts.network import NetworkPlan

__all__ = ["NamespaceHosts", "NetworkPlan"]
