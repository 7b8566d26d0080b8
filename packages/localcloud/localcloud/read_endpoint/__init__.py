"""Read endpoints of the local cloud: load balancers from loopback to the hosts."""

from localcloud.read_endpoint.haproxy import HaproxyReadEndpoints

__all__ = ["HaproxyReadEndpoints"]
