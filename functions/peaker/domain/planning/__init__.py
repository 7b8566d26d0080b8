"""How many replicas, how early, at what price, built or returned: the decisions before anything is made.

Imports `forecasting`, `storage`, `replicas` and `runs`.
"""
