"""What is before a run is planned: the fleet as it is, prices, the lead time's parts; and the plan itself.

Reads the cloud and writes the plan of the run; makes nothing that costs. Imports `run` alone.
"""
