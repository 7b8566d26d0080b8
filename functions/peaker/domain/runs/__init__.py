"""Runs: what starts them, what their steps are given, what the ledger holds of them, how they fail.

Imports no other room of the domain.
"""
