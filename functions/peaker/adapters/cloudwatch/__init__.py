"""CloudWatch: the load's history, Peaker's own metrics.

Calls the clients of CloudWatch alone.
"""
