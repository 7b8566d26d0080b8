"""A replica comes into being: donor, snapshots, instance, volumes; or a parked one starts.

Makes resources, each in the ledger before its call; touches no read endpoint. Imports `plan` and `run`.
"""
