"""This room removes, or parks again, the leftovers of stopped and failed runs (I9).

The highest room: imports `leave` and `run`; no other room imports it.
"""
