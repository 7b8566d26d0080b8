"""Which blocks of a volume hold something: block ranges, filesystem maps, the snapshot's list, the log's replay.

May touch devices and mounts of its own namespace; imports only the machine.
"""
