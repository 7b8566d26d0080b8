"""The plan of a run, its checks, a leaving replica's disposal and fetched prices as data; each step reads no planner.

Imports `storage` and `runs`.
"""
