"""Records, health checks, and DNS on loopback. May read alarms."""
