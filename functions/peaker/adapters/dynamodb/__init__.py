"""The ledger table: lease, runs, what the forecast remembers.

Calls DynamoDB alone; every write of a run is conditional on its lease (I6).
"""
