"""This room checks a donor before its snapshot, and prepares base replicas.

The topmost room: imports replicate, health, database and what is below.
"""
