"""Ports are what the use cases ask of the world, by subject. Methods state their guarantees.

Adapters raise domain errors only. The types of signatures are imported for type checkers alone, so that a step loads
no more of the domain than it uses.
"""
