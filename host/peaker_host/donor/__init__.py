"""What a replica must be before it is snapshotted, and what Peaker puts on one that others built.

The topmost room: imports replicate, health, database and what is below.
"""
