"""How a replica comes into service and goes out of it: proofs, ramp, shares, drain, retirement, leftovers.

Imports `planning` and the rooms under it.
"""
