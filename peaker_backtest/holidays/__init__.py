"""Public holidays in a backtest: whose they are, by the command line or a cluster's settings, and what they came to.

Imports the dates from `peaker_holidays`; writes nothing.
"""
