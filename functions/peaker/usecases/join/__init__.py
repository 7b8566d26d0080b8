"""A warm replica joins: database, replication, read endpoint, its share of the traffic; and the look at who serves.

Registers and weighs targets; makes and removes no resource. Imports `plan` and `run`.
"""
