"""What people are told of a run: its progress and its receipt.

The highest room of the domain: imports any other, no other imports it.
"""
