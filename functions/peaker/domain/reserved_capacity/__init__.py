"""Room that EC2 keeps for the replicas that a known event takes: how much, where, from when until when.

Pure. Imports `planning`, by whose plans no more is reserved than a run would be allowed to use.
"""
