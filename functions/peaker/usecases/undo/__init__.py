"""What a stopped or failed run left is found and taken away, or parked again (I9).

The highest room: imports `leave` and `run`; no other room imports it.
"""
