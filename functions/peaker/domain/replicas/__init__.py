"""The cluster's instances as one observation: source, replicas, donor, and how they stand.

Imports no other room of the domain.
"""
