"""The plan of a run, its checks and a leaving replica's disposal, as data: each step reads these and no planner.

Imports `storage` and `runs`.
"""
