"""Systems Manager: host commands, and the parameters of clusters and prices.

Calls SSM alone.
"""
