"""The host package runs on the replica: storage, prewarm, proof, database, replication, health.

Standard library only, Python 3.9 or later, run as root. Each command prints progress on standard error and
one line of JSON, its result, last on standard output.
"""
