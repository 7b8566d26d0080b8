"""The plan of a run, and the facts before it: the fleet, prices, the lead time's inputs.

Reads the cloud and writes the plan of the run; makes nothing that costs. Imports `run` alone.
"""
