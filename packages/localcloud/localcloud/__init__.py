"""AWS on one machine: the API in front (moto, pinned and extended), hosts, volumes and endpoints behind.

Knows nothing of who uses it: what a project adds is a plugin (plugins.py).
"""
