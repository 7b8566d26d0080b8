"""S3: the host package, and files that a run's hosts fetch.

Calls S3 alone.
"""
