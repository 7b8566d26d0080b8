"""AWS on one machine: the API in front (moto, pinned and extended), hosts, volumes and endpoints behind.

Knows nothing of who uses it: what a project adds is a plugin (plugins.py).
"""

from localcloud.extensions.shorter_ways import keep_decoded

keep_decoded()  # before moto is imported, which looks up every region of EC2
