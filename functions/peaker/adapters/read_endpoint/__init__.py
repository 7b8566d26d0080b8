"""The read endpoint of each kind, and the health checks of the DNS kind.

Calls ELB, Route 53 and CloudWatch alarms; `by_kind` chooses.
"""
