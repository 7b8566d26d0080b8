"""Planning decides how many replicas come, how early, at which price, built or returned.

Imports `forecasting`, `storage`, `replicas` and `runs`.
"""
