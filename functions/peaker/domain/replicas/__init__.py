"""The cluster's instances as one state of the fleet: source, replicas, donor, and how they stand.

Imports no other room of the domain.
"""
